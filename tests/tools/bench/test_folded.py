from pathlib import Path

import pytest

from tests.test_layout import ROOT
from tools.bench.folded import FILES, LOOP, PARTS, Stack, by_part, inclusive, own, parse, weighed

RECORDED = parse(Path(__file__).with_name("recorded.txt").read_text())
MAIN, LOG, WRITER = 7597, 7599, 7601


def test_a_stack_begins_where_a_loop_or_a_thread_begins() -> None:
    commit, loop = RECORDED[:2]
    assert (commit.thread, commit.name, commit.weight) == (WRITER, "storage-writer", 89)
    assert commit.frames[0] == "Thread.run (threading.py:971)"
    assert commit.frames[-1] == "DefaultDialect.do_commit (sqlalchemy/engine/default.py:953)"
    assert loop.frames == ["Runner.run (asyncio/runners.py:86)"]


def test_the_process_that_commits_is_told_from_the_server_that_it_is_a_fork_of() -> None:
    line = "thread (5): MainThread;run (tools/server.py:95);_serve (storage/process_writer.py:132);run (a.py:1) 3"
    [stack] = parse(line)
    assert stack.frames == ["_serve (storage/process_writer.py:132)", "run (a.py:1)"]
    assert by_part([stack]) == {"storage, the process that commits": 1.0}


def test_a_thread_without_a_name_is_read_too() -> None:
    assert parse("thread (0x7F);run (a b.py:1) 3") == [Stack(127, "", ["run (a b.py:1)"], 3)]


@pytest.mark.parametrize("text", ["main (tools/cli.py:105) 3", "thread (7): MainThread 3", "\n"])
def test_what_is_no_stack_of_a_thread_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no stack of a thread"):
        parse(text)


def test_a_thread_weighs_what_time_it_used_however_often_it_was_seen() -> None:
    assert any(stack.thread == LOG for stack in RECORDED)
    stacks = weighed(RECORDED, {MAIN: 3.0, WRITER: 1.0, LOG: 0.0})
    assert {stack.thread for stack in stacks} == {MAIN, WRITER}
    assert sum(stack.weight for stack in stacks if stack.thread == MAIN) == pytest.approx(3.0)
    assert sum(by_part(stacks).values()) == pytest.approx(1.0)
    assert by_part(stacks)["storage, the process that commits"] == pytest.approx(0.25)


def test_a_stack_belongs_to_the_part_whose_file_is_the_innermost() -> None:
    parts = {stack.frames[-1]: by_part([stack]) for stack in RECORDED}
    assert parts["Runner.run (asyncio/runners.py:86)"] == {LOOP: 1.0}
    assert parts["_Routing.__call__ (handlers/gateway/routing.py:116)"] == {"routing: connexion": 1.0}
    assert parts["RequestLog.answered (handlers/gateway/telemetry.py:108)"] == {"listener: log line, metrics": 1.0}
    # What has no file of its own counts as its caller's: this is made by a handler.
    assert parts["__create_fn__.<locals>.__init__ (<string>:2)"] == {"handlers and their domain": 1.0}
    assert set(by_part(RECORDED)) <= set(PARTS)


def test_the_files_of_the_parts_are_there() -> None:
    ours = [file for files in FILES.values() for file in files if file.startswith(("generated", "handlers", "storage"))]
    assert ours
    assert [file for file in ours if not (ROOT / file).exists()] == []


A, B, C = "a (handlers/a.py:1)", "b (handlers/b.py:1)", "c (json/c.py:1)"
CALLS = [Stack(1, "MainThread", [A, B, A], 1), Stack(1, "MainThread", [A, C], 2), Stack(1, "MainThread", [C], 1)]


def test_own_time_is_that_of_the_innermost_function() -> None:
    assert list(own(CALLS).items()) == [(C, 0.75), (A, 0.25)]


def test_inclusive_time_counts_a_function_once_a_stack_and_ours_alone() -> None:
    assert list(inclusive(CALLS).items()) == [(A, 0.75), (B, 0.25)]

from __future__ import annotations

import asyncio
import logging
import os
import signal
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from handlers.installer import job as job_module
from handlers.installer.job import DIED, FAULT, Job
from handlers.steps.leftover import marked
from storage.database import Storage
from storage.errors import Unavailable
from storage.installer.attempts import Attempts, NoConfig, RunningAlready
from storage.installer.events import Events
from storage.installer.records import Attempt
from tests.handlers.installer.installing import Installer, installing, outline
from tests.handlers.installer.reading import read, reading, until
from tests.storage.installer.work import CONFIG, append, ids, line, started, step
from tests.support.processes import alive

pytestmark = pytest.mark.anyio


@pytest.fixture
async def installer(storage: Storage, tmp_path: Path) -> AsyncIterator[Installer]:
    async with installing(storage, tmp_path) as made:
        yield made


async def test_an_attempt_runs_the_steps_in_order_and_tells_of_each(installer: Installer) -> None:
    attempt = await installer.install("echo up; echo down >&2", "printf 'no end'")
    assert attempt.state == "succeeded"
    assert [(each.name, each.status) for each in attempt.steps] == [("one", "succeeded"), ("two", "succeeded")]
    assert outline(await installer.events()) == [
        ("step", "one", "started"),
        ("log", "one", "up"),
        ("log", "one", "down"),
        ("step", "one", "succeeded"),
        ("step", "two", "started"),
        ("log", "two", "no end"),
        ("step", "two", "succeeded"),
        ("verdict", "succeeded"),
    ]
    assert (await read(installer.feed)).events == await installer.events()


async def test_a_command_finds_the_config_the_attempt_and_its_folder_but_no_settings(
    installer: Installer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEHOUSE_DATABASE_URL", "postgresql://secret")
    monkeypatch.setenv("OTHER", "there")
    await installer.install('cat "$GATEHOUSE_NODE_YAML"; pwd; env | grep -E "GATEHOUSE|OTHER" | sort; cat')
    file = installer.folder / "install" / "node.yaml"
    assert await installer.lines() == [
        "# application/json",
        CONFIG.text,
        str(installer.folder),
        "GATEHOUSE_ATTEMPT=1",
        f"GATEHOUSE_NODE_YAML={file}",
        "OTHER=there",
    ]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_lines_are_kept_as_they_were_written_and_one_of_a_megabyte_is_cut(installer: Installer) -> None:
    script = r"printf 'a\rb\r\n\000c\n\342\200\250\n\377\n\n'; head -c 1000000 /dev/zero | tr '\0' x; echo; echo on"
    await installer.install(script)
    lines = await installer.lines()
    assert lines[:5] == ["a\rb\r", "\0c", "\u2028", "\ufffd", ""]
    assert lines[5:] == ["x" * 65_536 + " [cut: 934464 more bytes]", "on"]


async def test_five_thousand_lines_come_whole_and_in_order(installer: Installer) -> None:
    await installer.install("seq 5000")
    assert await installer.lines() == [str(number) for number in range(1, 5001)]
    assert await ids(installer.storage) == list(range(1, 5004))


async def test_lines_are_told_as_they_come(installer: Installer, tmp_path: Path) -> None:
    installer.plan(f"echo first; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; echo second")
    await installer.start()
    await installer.until("first")
    (tmp_path / "go").touch()
    assert (await installer.end()).state == "succeeded"


@pytest.mark.parametrize(
    ("script", "seconds", "why"),
    [
        ("echo x; exit 3", 30, "sh ended with code 3"),
        ("kill -9 $$", 30, "sh ended by signal 9"),
        ("exec sleep 60", 1, "sh did not end within 1 s"),
    ],
)
async def test_a_step_that_fails_fails_the_attempt_and_the_others_wait(
    installer: Installer, script: str, seconds: int, why: str
) -> None:
    attempt = await installer.install("true", script, "echo never", seconds=seconds)
    assert (attempt.state, attempt.detail) == ("failed", f"step two failed: {why}")
    assert [each.status for each in attempt.steps] == ["succeeded", "failed", "waiting"]
    assert outline(await installer.events())[-2:] == [
        ("step", "two", "failed", why),
        ("verdict", "failed", f"step two failed: {why}"),
    ]


async def test_a_command_that_cannot_be_started_fails_its_step_and_tells_no_argument(installer: Installer) -> None:
    installer.steps(["/nowhere/x", "secret"])
    await installer.start()
    assert (await installer.end()).detail == "step one failed: /nowhere/x cannot be run: No such file or directory"


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        (None, "the plan is refused: install-plan.yaml: No such file or directory"),
        ("steps: []", "the plan is refused: install-plan.yaml:1:1: steps must have at least one"),
        ("steps: 7", "the plan is refused: install-plan.yaml:1:1: steps must be a list"),
    ],
)
async def test_an_attempt_whose_plan_cannot_be_read_fails_at_once(
    installer: Installer, text: str | None, detail: str
) -> None:
    if text is not None:
        installer.plan_file.write_text(text)
    began = await installer.start()
    ended = await installer.end()
    assert (began.state, began.steps, ended.state, ended.detail) == ("running", (), "failed", detail)


async def test_the_plan_is_read_anew_for_each_attempt_and_a_running_one_keeps_its_own(
    installer: Installer, tmp_path: Path
) -> None:
    installer.plan(f"echo first; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done", "echo old")
    await installer.start()
    await installer.until("first")
    installer.plan("echo new")
    (tmp_path / "go").touch()
    await installer.end()
    await installer.start()
    await installer.end()
    assert await installer.lines() == ["first", "old", "new"]


async def test_without_a_config_or_beside_another_none_begins(installer: Installer) -> None:
    installer.plan("echo up; exec sleep 60")
    assert await installer.job.start() == NoConfig()
    await installer.start()
    assert await installer.job.start() == RunningAlready()
    await installer.until("up")
    assert await installer.job.start() == RunningAlready()


async def test_many_that_start_at_once_begin_one(installer: Installer) -> None:
    installer.plan("exec sleep 60")
    await installer.storage.installer.config.put(CONFIG)
    outcomes = await asyncio.gather(*(installer.job.start() for _ in range(10)))
    assert len([each for each in outcomes if each != RunningAlready()]) == 1


async def test_an_attempt_whose_caller_left_runs_all_the_same(installer: Installer) -> None:
    installer.plan("echo up")
    await installer.storage.installer.config.put(CONFIG)
    caller = asyncio.create_task(installer.job.start())
    await asyncio.sleep(0)
    caller.cancel()
    assert (await installer.end()).state == "succeeded"


async def test_a_daemon_that_is_left_behind_does_not_hold_up_the_step(
    installer: Installer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_module, "REST_SECONDS", 0.1)
    attempt = await installer.install(f"sleep 60 & echo $! >{tmp_path}/pid; echo up", "echo next")
    pid = int((tmp_path / "pid").read_text())
    assert (attempt.state, await installer.lines(), alive(pid)) == ("succeeded", ["up", "next"], True)
    os.kill(pid, signal.SIGKILL)


async def test_a_server_that_stops_ends_the_command_tells_why_and_ends_the_streams(
    installer: Installer, tmp_path: Path
) -> None:
    installer.plan(f"trap 'echo bye; exit 0' TERM; sleep 60 & echo $! >{tmp_path}/pid; echo up; wait", "echo never")
    await installer.start()
    reader = asyncio.create_task(read(installer.feed))
    await installer.until("up")
    installer.stopping.set()
    sent = await reader
    assert outline(sent.events)[-2:] == [
        ("step", "one", "failed", "the server was stopped"),
        ("verdict", "failed", "the server was stopped"),
    ]
    assert sent.events == await installer.events()
    assert [each["line"] for each in sent.events if "line" in each and each["line"] != "Terminated"] == ["up", "bye"]
    assert [each.status for each in (await installer.storage.installer.attempts.latest()).steps] == [
        "failed",
        "waiting",
    ]
    await until(lambda: not alive(int((tmp_path / "pid").read_text())))


async def test_a_command_that_does_not_heed_the_stop_is_killed_with_its_group(
    installer: Installer, tmp_path: Path
) -> None:
    installer.plan(f"trap '' TERM; (while :; do sleep 0.1; done) & echo $! $$ >{tmp_path}/pids; echo up; wait")
    await installer.start()
    await installer.until("up")
    begun = time.monotonic()
    installer.stopping.set()
    assert (await installer.end()).detail == "the server was stopped"
    assert time.monotonic() - begun < 10
    assert not any(alive(int(pid)) for pid in (tmp_path / "pids").read_text().split())


async def test_a_stop_before_the_first_step_runs_none(storage: Storage, tmp_path: Path) -> None:
    installer = Installer(storage, tmp_path)
    installer.plan("echo never")
    await installer.start()
    installer.stopping.set()
    await installer.job.run(installer.stopping)
    assert outline((await read(installer.feed)).events) == [("verdict", "failed", "the server was stopped")]


async def test_an_attempt_that_begins_while_the_server_stops_has_its_verdict(storage: Storage, tmp_path: Path) -> None:
    async with installing(storage, tmp_path) as installer:
        installer.plan("echo never")
        await storage.installer.config.put(CONFIG)
        starting = asyncio.create_task(installer.job.start())
        await asyncio.sleep(0)
        installer.stopping.set()
        assert isinstance(await starting, Attempt)
        assert (await installer.end()).detail == "the server was stopped"


async def test_a_server_that_has_stopped_begins_none(storage: Storage, tmp_path: Path) -> None:
    async with installing(storage, tmp_path) as installer:
        installer.plan("echo never")
    with pytest.raises(Unavailable):
        await installer.start()
    assert (await storage.installer.attempts.latest()).attempt == 0


async def test_what_another_process_has_left_running_is_ended_and_told_of(storage: Storage, tmp_path: Path) -> None:
    attempt = await started(storage, "one", "two")
    await append(storage, attempt, step("one", "started"), line("up", "one"))
    async with installing(storage, tmp_path) as installer:
        ended = await installer.end()
        assert (ended.state, ended.detail) == ("failed", DIED)
        assert outline(await installer.events())[-2:] == [("step", "one", "failed", DIED), ("verdict", "failed", DIED)]
        assert (await installer.install("true")).state == "succeeded"
        assert await ids(storage) == list(range(1, 8))


async def test_a_reader_that_came_before_the_orphan_was_ended_gets_its_verdict(
    storage: Storage, tmp_path: Path
) -> None:
    await started(storage, "one")
    installer = Installer(storage, tmp_path)
    reader = asyncio.create_task(read(installer.feed))
    await asyncio.sleep(0.05)
    task = asyncio.create_task(installer.job.run(installer.stopping))
    assert outline((await reader).events) == [("verdict", "failed", DIED)]
    installer.stopping.set()
    await task


async def test_a_command_that_outlived_its_server_is_ended_before_another_runs(
    storage: Storage, tmp_path: Path
) -> None:
    mark = tmp_path / "install" / "step"
    mark.parent.mkdir()
    with marked(mark) as lock:
        process = await asyncio.create_subprocess_exec(
            "sleep", "60", start_new_session=True, pass_fds=[lock.descriptor]
        )
        lock.note(process.pid)
        mark.rename(tmp_path / "kept")
    (tmp_path / "kept").rename(mark)
    async with installing(storage, tmp_path) as installer:
        assert (await installer.install("true")).state == "succeeded"
    assert await process.wait() == -signal.SIGTERM


async def test_an_attempt_that_may_have_begun_when_storage_failed_is_ended(
    installer: Installer, monkeypatch: pytest.MonkeyPatch
) -> None:
    installer.plan("echo never")
    await installer.storage.installer.config.put(CONFIG)
    start = Attempts.start

    async def unknown(of: Attempts, names: Any) -> Any:
        await start(of, names)
        raise Unavailable("the result of a COMMIT is unknown")

    with monkeypatch.context() as patched:
        patched.setattr(Attempts, "start", unknown)
        with pytest.raises(Unavailable):
            await installer.job.start()
    ended = await installer.end()
    assert (ended.state, ended.detail) == ("failed", DIED)
    assert (await installer.install("true")).state == "succeeded"


async def test_storage_that_is_away_at_the_start_is_asked_again(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(job_module, "_PAUSE_SECONDS", 0.01)
    attempt = await started(storage, "one")
    orphaned, asked = Attempts.orphaned, 0

    async def away(of: Attempts, detail: str) -> bool:
        nonlocal asked
        asked += 1
        if asked < 4:
            raise Unavailable("away")
        return await orphaned(of, detail)

    monkeypatch.setattr(Attempts, "orphaned", away)
    async with installing(storage, tmp_path) as installer:
        ended = await installer.end()
    assert (ended.attempt, ended.detail, asked) == (attempt, DIED, 4)
    assert [record.getMessage() for record in caplog.records] == ["storage: away"]


async def test_a_stop_does_not_wait_for_storage_that_is_away(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hangs(*_: object) -> bool:
        return await asyncio.Event().wait()

    monkeypatch.setattr(Attempts, "orphaned", hangs)
    async with asyncio.timeout(20), installing(storage, tmp_path) as installer:
        _, task = await reading(installer.feed)
        installer.stopping.set()
        assert (await task).chunks == []


async def test_storage_that_is_away_for_too_long_ends_the_attempt_as_soon_as_it_is_back(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_, away = Events.append, False

    async def sometimes(of: Events, attempt: int, events: Any) -> Any:
        if away:
            raise Unavailable("away")
        return await append_(of, attempt, events)

    monkeypatch.setattr(Events, "append", sometimes)
    async with installing(storage, tmp_path, patience_seconds=0.2) as installer:
        installer.plan(f"echo $$ >{tmp_path}/pid; echo up; trap 'exit 0' TERM; while :; do echo on; sleep 0.01; done")
        await installer.start()
        await installer.until("on")
        away = True
        pid = int((tmp_path / "pid").read_text())
        await until(lambda: not alive(pid))
        away = False
        ended = await installer.end()
        assert (ended.state, ended.detail) == ("failed", "the database could not be written for too long")
        lines = await installer.lines()
    assert (lines[0], set(lines[1:])) == ("up", {"on"})
    assert await ids(storage) == list(range(1, ended.last_event_id + 1))


async def test_a_verdict_that_cannot_be_recorded_at_the_stop_is_told_by_the_next_server(
    storage: Storage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def away(*_: object) -> None:
        raise Unavailable("away")

    async with installing(storage, tmp_path) as installer:
        installer.plan("echo up; exec sleep 60")
        await installer.start()
        await installer.until("up")
        patched = pytest.MonkeyPatch()
        patched.setattr(Events, "append", away)
    patched.undo()
    assert "the verdict could not be recorded" in [record.getMessage() for record in caplog.records]
    async with installing(storage, tmp_path) as installer:
        assert (await installer.end()).detail == DIED


async def test_a_config_that_cannot_be_written_fails_the_attempt(installer: Installer) -> None:
    (installer.folder / "install").write_text("")
    attempt = await installer.install("true")
    assert (attempt.state, attempt.detail) == ("failed", "node.yaml cannot be written: File exists")


async def test_a_fault_of_the_server_fails_the_attempt_and_the_next_one_runs(
    installer: Installer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> str:
        raise ArithmeticError

    with monkeypatch.context() as patched:
        patched.setattr(Job, "_write_node_yaml", broken)
        assert (await installer.install("true")).detail == FAULT
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert (await installer.install("true")).state == "succeeded"


async def test_an_attempt_that_another_process_has_ended_is_left_off(installer: Installer, tmp_path: Path) -> None:
    installer.plan(f"echo $$ >{tmp_path}/pid; echo up; while :; do echo on; sleep 0.01; done")
    await installer.start()
    await installer.until("up")
    await installer.storage.installer.attempts.orphaned("elsewhere")
    assert (await installer.end()).detail == "elsewhere"
    await until(lambda: not alive(int((tmp_path / "pid").read_text())))
    assert (await installer.install("true")).state == "succeeded"

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import recording
from tests.support.gatehouse import Gatehouse, NewServer


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Spell out lone surrogates in what a test logged: pytest-xdist could not hand such a report on."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


# What the processes of pytest have kept account of: pytest-xdist's workers, or this one alone.
GATHERED = pytest.StashKey[list[recording.Gathered]]()


def pytest_configure(config: pytest.Config) -> None:
    """Keep account of every answer that comes over a socket."""
    config.stash[GATHERED] = []
    recording.start()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:  # noqa: ARG001 - pytest-xdist's signature
    """Take over what a worker has kept account of; there is none where it has crashed."""
    gathered = getattr(node, "workeroutput", {}).get("answers")
    if gathered is not None:
        node.config.stash[GATHERED].append(recording.Gathered(**gathered))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand on what a worker has kept account of, or let a whole run fail that has not seen all of the documents."""
    gathered, config = recording.ACCOUNT.gathered(), session.config
    workeroutput = getattr(config, "workeroutput", None)
    if workeroutput is not None:
        workeroutput["answers"] = gathered._asdict()
        return
    parts = config.stash[GATHERED]
    if not parts:
        parts.append(gathered)
    if is_whole(config) and session.exitstatus == pytest.ExitCode.OK and not recording.Total(parts).whole:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: pytest.ExitCode, config: pytest.Config
) -> None:
    """End a whole run with what of the documents was seen."""
    if not is_whole(config) or exitstatus not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
        return
    parts = config.stash[GATHERED]
    total = recording.Total(parts)
    terminalreporter.section("contract coverage")
    for line in total.coverage.lines():
        terminalreporter.line(line)
    for finding in total.findings:
        terminalreporter.line(f"does not conform: {finding}", red=True)
    terminalreporter.line(f"{total.answers} answers over sockets, {len(total.findings)} that do not conform")


def is_whole(config: pytest.Config) -> bool:
    """Whether all tests were asked for."""
    chosen = ("keyword", "markexpr", "deselect", "ignore", "ignore_glob", "lf", "stepwise", "maxfail", "collectonly")
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return everything and not any(config.getoption(name) for name in chosen)


@pytest.fixture(scope="session")
def first_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder as `gatehouse init` makes it, to be copied."""
    server = Gatehouse(tmp_path_factory.mktemp("first") / "state")
    done = server.run("init", "--state", str(server.state))
    assert done.returncode == 0, done.stderr
    return server.state


@pytest.fixture(scope="module")
def new_server(first_state: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewServer]:
    """Makes servers with state folders of their own; they are not started, and stop at the end of the module."""
    with contextlib.ExitStack() as stack:
        made: list[Gatehouse] = []

        def make(**options: Any) -> Gatehouse:
            state = shutil.copytree(first_state, tmp_path_factory.mktemp("server") / "state")
            server = Gatehouse(state, **options)
            stack.push(server)
            made.append(server)
            return server

        yield make
        for server in made:
            server.ask_to_stop()


@pytest.fixture(scope="session")
def server(first_state: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gatehouse]:
    """A server that all tests share: they may add runs to it and change nothing else.

    Beside the demo's it knows two pairs: UNSERVED, which no trigger stands for, and UNREADABLE, whose key is gone.
    """
    shared = Gatehouse(shutil.copytree(first_state, tmp_path_factory.mktemp("shared") / "state"))
    shared.add_source("case-follow-up", "unserved", shared.key, "unserved.key")
    shared.add_source("case-follow-up", "unreadable", shared.key, "unreadable.key").unlink()
    with shared:
        yield shared


@pytest.fixture
def own_server(new_server: NewServer) -> Iterator[Gatehouse]:
    """A started server that one test may do anything to."""
    server = new_server()
    server.start()
    yield server
    server.ask_to_stop()

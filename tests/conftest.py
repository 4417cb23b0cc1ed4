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


# What the processes of pytest have kept account of: of pytest-xdist's workers, or of this one alone.
ACCOUNTS = pytest.StashKey[list[dict[str, Any]]]()
WHOLE = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """Keep account of every answer that comes over a socket."""
    config.stash[ACCOUNTS] = []
    recording.start()


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Note that a run is not whole."""
    items[0].config.stash[WHOLE] = False


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:  # noqa: ARG001 - pytest-xdist's signature
    """Take over what a worker has kept account of; there is none where it has crashed."""
    account = getattr(node, "workeroutput", {}).get("answers")
    if account is not None:
        node.config.stash[ACCOUNTS].append(account)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand on what a worker has kept account of, or let a whole run fail that has not seen all of the documents."""
    workeroutput = getattr(session.config, "workeroutput", None)
    if workeroutput is not None:
        workeroutput["answers"] = recording.gathered()
        return
    accounts = session.config.stash[ACCOUNTS]
    if not accounts:
        accounts.append(recording.gathered())
    if is_whole(session.config) and session.exitstatus == pytest.ExitCode.OK and not is_covered(accounts):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """End a whole run with what of the documents was seen."""
    accounts = config.stash[ACCOUNTS]
    if not is_whole(config) or not accounts:
        return
    terminalreporter.section("contract coverage")
    for line in recording.coverage(cells_of(accounts)).lines():
        terminalreporter.line(line)
    for finding in (each for account in accounts for each in account["findings"]):
        terminalreporter.line(f"does not conform: {finding}", red=True)
    terminalreporter.line(f"{sum(account['exchanges'] for account in accounts)} answers over sockets")


def is_whole(config: pytest.Config) -> bool:
    """Whether all tests were asked for."""
    chosen = (config.option.keyword, config.option.markexpr, config.option.collectonly, config.option.lf)
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return everything and not any(chosen) and config.stash.get(WHOLE, True)


def is_covered(accounts: list[dict[str, Any]]) -> bool:
    """Whether all of the documents was seen, and nothing else."""
    found = any(account["findings"] for account in accounts)
    return not found and not recording.coverage(cells_of(accounts)).unseen


def cells_of(accounts: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return what was seen in all processes."""
    return [tuple(cell) for account in accounts for cell in account["cells"]]


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

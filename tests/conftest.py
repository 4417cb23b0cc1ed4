from __future__ import annotations

import contextlib
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gatehouse import Gatehouse, NewServer


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Spell out lone surrogates in what a test logged: pytest-xdist could not hand such a report on."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


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

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from handlers.coordinator import definitions
from handlers.coordinator.definitions import Definitions
from handlers.coordinator.workflows import package
from storage.database import Storage
from storage.workflows import Definition
from tests.support.gatehouse import NewServer
from tests.support.inprocess import storage_of
from tests.support.packages import Workflow, workflow, write


async def apply(storage: Storage, folder: Path, *workflows: Workflow) -> list[str]:
    made = package.load(write(folder, *workflows))
    held = [Definition(each.id, each.version, each.digest) for each in made.workflows.values()]
    await storage.workflows.apply(made.digest, made.snapshot, held)
    return [made.workflows[each["id"]].digest for each in workflows]


def test_a_definition_stays_after_another_package_was_applied(new_server: NewServer, tmp_path: Path) -> None:
    async def work() -> None:
        async with storage_of(new_server().state) as storage:
            known = Definitions(storage.workflows)
            [digest] = await apply(storage, tmp_path / "package", workflow("kept"))
            await apply(storage, tmp_path / "package", workflow("another"))
            found = await known.workflow(digest)
            assert found is not None
            assert (found.id, found.digest) == ("kept", digest)

    asyncio.run(work())


def test_a_definition_is_compiled_once_as_long_as_not_too_many_are_asked_for(
    new_server: NewServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definitions, "_KEPT", 2)

    async def work() -> None:
        async with storage_of(new_server().state) as storage:
            known = Definitions(storage.workflows)
            first, second, third = await apply(storage, tmp_path / "package", *map(workflow, "abc"))
            compiled = [await known.workflow(digest) for digest in (first, second, second, third)]
            assert compiled[1] is compiled[2]
            again = await known.workflow(first)
            assert again is not compiled[0]
            assert again is not None
            assert again.digest == first

    asyncio.run(work())


def test_a_definition_that_no_package_has_is_none(new_server: NewServer) -> None:
    async def work() -> None:
        async with storage_of(new_server().state) as storage:
            assert await Definitions(storage.workflows).workflow(f"sha256:{'0' * 64}") is None

    asyncio.run(work())


def test_a_definition_that_this_version_cannot_read_is_none_and_the_log_tells_why(
    new_server: NewServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = new_server()

    async def work() -> None:
        async with storage_of(server.state) as storage:
            [digest] = await apply(storage, tmp_path / "package", workflow("newer"))
            with server.database() as database:
                for row, text in database.execute("SELECT rowid, snapshot FROM packages").fetchall():
                    changed = json.dumps(json.loads(text)).replace("wait-until", "wait-for")
                    database.execute("UPDATE packages SET snapshot = ? WHERE rowid = ?", (changed, row))
            assert await Definitions(storage.workflows).workflow(digest) is None
            assert digest in caplog.text

    asyncio.run(work())

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from storage.audit import AUDIT
from storage.database import Storage
from storage.workflows import Applied, Definition, DefinitionConflict
from tests.storage.work import OTHER_PACKAGE, PACKAGE, Package, digest, open_storage, rows

pytestmark = pytest.mark.anyio

REDEFINITION = Definition("case-follow-up", "1", digest("another definition"))
REDEFINING = Package(digest("redefining"), '{"n":1}', (Definition("new", "7", digest("new")), REDEFINITION))
SUCCESSOR = Package(digest("successor"), '{"n":2}', (Definition("case-follow-up", "2", digest("another definition")),))


async def apply(storage: Storage, package: Package, *, force: bool = False) -> Applied | DefinitionConflict:
    return await storage.workflows.apply(package.digest, package.snapshot, package.definitions, force=force)


async def test_nothing_is_active_before_the_first_package(url: str, audit_file: Path) -> None:
    async with open_storage(url, audit_file) as storage:
        assert await storage.workflows.active() is None
        assert await storage.workflows.list() == []


async def test_a_package_is_active_once_it_is_applied(storage: Storage) -> None:
    active = await storage.workflows.active()
    assert active is not None
    assert (active.digest, active.snapshot, active.redefined) == (PACKAGE.digest, PACKAGE.snapshot, ())
    applied = await apply(storage, OTHER_PACKAGE)
    active = await storage.workflows.active()
    assert active is not None
    assert applied == Applied(OTHER_PACKAGE.digest, active.applied_at)
    assert active.snapshot == OTHER_PACKAGE.snapshot


async def test_applying_the_active_package_again_changes_nothing(storage: Storage, url: str) -> None:
    active = await storage.workflows.active()
    assert active is not None
    assert await apply(storage, PACKAGE) == Applied(PACKAGE.digest, active.applied_at)
    assert len(rows(url, AUDIT)) == 1


async def test_an_earlier_package_may_be_applied_again(storage: Storage, url: str) -> None:
    await apply(storage, OTHER_PACKAGE)
    assert isinstance(await apply(storage, PACKAGE), Applied)
    packages = await storage.workflows.list()
    assert [(package.digest, package.active) for package in packages] == [
        (PACKAGE.digest, True),
        (OTHER_PACKAGE.digest, False),
    ]
    assert [package.definitions for package in packages] == [PACKAGE.definitions, OTHER_PACKAGE.definitions]
    assert [row.action for row in rows(url, AUDIT)] == ["package.applied"] * 3


async def test_a_new_version_of_a_workflow_is_no_conflict(storage: Storage) -> None:
    assert isinstance(await apply(storage, SUCCESSOR), Applied)


async def test_a_definition_that_is_retained_with_another_digest_refuses_its_package(
    storage: Storage, url: str
) -> None:
    assert await apply(storage, REDEFINING) == DefinitionConflict((REDEFINITION,))
    active = await storage.workflows.active()
    assert active is not None
    assert active.digest == PACKAGE.digest
    assert len(await storage.workflows.list()) == 1
    assert len(rows(url, AUDIT)) == 1


async def test_a_forced_package_is_active_and_tells_which_of_its_definitions_are_not_the_retained_ones(
    storage: Storage, url: str
) -> None:
    assert isinstance(await apply(storage, REDEFINING, force=True), Applied)
    active = await storage.workflows.active()
    assert active is not None
    assert active.redefined == (REDEFINITION,)
    told = rows(url, AUDIT)[-1]
    assert (told.action, told.subject) == ("package.applied", REDEFINING.digest)
    assert json.loads(told.body) == {"forced": True, "workflows": 2}


async def test_the_definition_that_was_first_is_retained_also_after_a_forced_package(storage: Storage) -> None:
    await apply(storage, REDEFINING, force=True)
    assert await apply(storage, REDEFINING) == DefinitionConflict((REDEFINITION,))
    assert isinstance(await apply(storage, PACKAGE), Applied)
    active = await storage.workflows.active()
    assert active is not None
    assert active.redefined == ()


async def test_two_packages_that_redefine_one_another_in_one_batch_are_settled_in_their_order(
    storage: Storage,
) -> None:
    one = Package(digest("one"), "{}", (Definition("w", "1", digest("first")),))
    two = Package(digest("two"), "{}", (Definition("w", "1", digest("second")),))
    outcomes = await asyncio.gather(apply(storage, one), apply(storage, two), apply(storage, one))
    first, second, third = outcomes
    assert isinstance(first, Applied)
    assert second == DefinitionConflict(two.definitions)
    assert third == first


async def test_a_snapshot_comes_back_as_it_was_given(storage: Storage) -> None:
    text = json.dumps({"text": '\x00\x1f "\\ \u2028 \U0001f600', "big": "x" * 300_000}, ensure_ascii=False)
    await apply(storage, Package(digest("text"), text, ()))
    active = await storage.workflows.active()
    assert active is not None
    assert active.snapshot == text


async def test_a_definition_is_found_by_its_digest_in_whichever_package_has_it(storage: Storage) -> None:
    held = {"id": "w", "version": "1", "steps": {"é": 1.5, "a": "\x00"}}
    text = '{"id":"w","steps":{"a":"\\u0000","é":1.5},"version":"1"}'
    other = {"id": "v", "version": "1"}
    definitions = (Definition("w", "1", digest(text)), Definition("v", "1", digest("v")))
    await apply(storage, Package(digest("of two"), json.dumps({"format": 1, "workflows": [other, held]}), definitions))
    await apply(storage, OTHER_PACKAGE)
    assert await storage.workflows.definition(digest(text)) == text
    assert await storage.workflows.definition(digest("v")) == '{"id":"v","version":"1"}'
    assert await storage.workflows.definition(digest("unknown")) is None


async def test_a_definition_in_a_package_of_an_unknown_format_is_not_found(storage: Storage) -> None:
    assert await storage.workflows.definition(PACKAGE.definitions[0].digest) is None

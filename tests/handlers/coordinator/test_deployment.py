from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from handlers.coordinator.deployment import Deployment
from handlers.coordinator.execution.connection import connections
from handlers.coordinator.workflows import package
from storage.database import Storage
from storage.refusals import Refusal
from storage.workflows import Activation, Definition
from tests.support.deliveries import Delivery
from tests.support.gatehouse import Gatehouse, NewServer
from tests.support.inprocess import storage_of
from tests.support.packages import Workflow, connection, workflow, write


async def apply(storage: Storage, folder: Path, *workflows: Workflow, force: bool = False) -> str:
    made = package.load(write(folder, *workflows))
    definitions = [Definition(each.id, each.version, each.digest) for each in made.workflows.values()]
    await storage.workflows.apply(made.digest, made.snapshot, definitions, force=force)
    return made.digest


def test_the_package_that_is_active_is_loaded(new_server: NewServer, tmp_path: Path) -> None:
    async def work() -> None:
        async with storage_of(new_server().state) as storage:
            deployment = Deployment(storage.workflows, {})
            assert deployment.digest is None
            await deployment.load()
            assert deployment.package is not None
            assert set(deployment.package.triggers) == {("case-follow-up", "case-created")}
            applied = await apply(storage, tmp_path / "package", workflow("another"))
            assert deployment.digest != applied
            await deployment.load()
            assert deployment.digest == applied

    asyncio.run(work())


def test_a_package_that_is_loaded_already_is_not_compiled_again(new_server: NewServer) -> None:
    async def work() -> None:
        async with storage_of(new_server().state) as storage:
            deployment = Deployment(storage.workflows, {})
            await deployment.load()
            loaded = deployment.package
            await deployment.load()
            assert deployment.package is loaded

    asyncio.run(work())


def test_of_many_that_ask_at_once_one_loads(new_server: NewServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with storage_of(new_server().state) as storage:
            asked = 0
            active = storage.workflows.active

            async def counted() -> Activation | None:
                nonlocal asked
                asked += 1
                return await active()

            monkeypatch.setattr(storage.workflows, "active", counted)
            deployment = Deployment(storage.workflows, {})
            await asyncio.gather(*(deployment.load() for _ in range(50)))
            assert deployment.package is not None
            assert asked == 1

    asyncio.run(work())


@pytest.mark.parametrize(
    ("configured", "conflict"),
    [
        ({}, Refusal.BINDING_CONFLICT),
        ({"crm": {"baseUrl": "https://crm.example"}}, Refusal.BINDING_CONFLICT),
        ({"crm": connection("https://crm.example")}, None),
    ],
)
def test_a_workflow_is_bound_to_the_connections_of_this_process(
    configured: Mapping[str, Mapping[str, Any]],
    conflict: Refusal | None,
    new_server: NewServer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        async with storage_of(new_server().state) as storage:
            await apply(storage, tmp_path / "package", workflow("calling", connection="crm"))
            deployment = Deployment(storage.workflows, connections(configured))
            await deployment.load()
            assert deployment.package is not None
            found = deployment.package.workflows["calling"].conflict
            assert (found and found.why) == conflict
            told = "calling starts no run: no configured connection permits POST /told of crm"
            assert (told in caplog.text) == (conflict is not None)

    asyncio.run(work())


def test_the_first_delivery_after_another_package_is_told_and_the_next_meets_it(own_server: Gatehouse) -> None:
    own_server.apply(workflow(version="2"))
    changed = own_server.deliver()
    assert changed.outcome == (409, "deployment.activation-changed")
    run = own_server.deliver().run
    assert own_server.operate("GET", f"/v1/runs/{run}").json["workflowVersion"] == "2"


def test_a_start_by_hand_meets_the_package_that_an_event_made_the_process_load(own_server: Gatehouse) -> None:
    own_server.apply(workflow(version="2"))
    assert own_server.deliver().outcome == (409, "deployment.activation-changed")
    started = own_server.begin({"flow": "case-follow-up", "input": {"caseId": "C-1"}}, "a key")
    assert started.json["workflowVersion"] == "2"


def test_a_package_that_was_applied_before_may_come_back(own_server: Gatehouse) -> None:
    own_server.apply(workflow(version="2", connection="demo-receiver", path="/notices"))
    assert own_server.deliver().outcome == (409, "deployment.activation-changed")
    assert own_server.deliver().status == 204
    done = own_server.run("workflows", "apply", str(own_server.state / "workflows"), "--state", str(own_server.state))
    assert done.returncode == 0
    delivery = Delivery()
    assert own_server.deliver(delivery).outcome == (409, "deployment.activation-changed")
    run = own_server.deliver(delivery).run
    assert own_server.operate("GET", f"/v1/runs/{run}").json["workflowVersion"] == "1"


def test_a_package_that_this_version_cannot_read_is_told_and_not_loaded(
    new_server: NewServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with storage_of(new_server().state) as storage:
            deployment = Deployment(storage.workflows, {})
            await deployment.load()
            loaded = deployment.package
            digest = "sha256:" + "0" * 64
            await storage.workflows.apply(digest, '{"format":2,"workflows":[]}', [])
            await deployment.load()
            assert deployment.package is loaded
            assert digest in caplog.text

    asyncio.run(work())

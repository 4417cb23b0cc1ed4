from __future__ import annotations

from typing import Any, Final

from tests.contract.coordinator_causes import RECOVERING, attempt
from tests.contract.worlds import World, redefine
from tests.support.contract import places
from tests.support.gatehouse import Gatehouse
from tests.support.pretended import TOO_OFTEN
from tests.support.wire import Answer

NO_RUN: Final = "019d9079-e78a-7c31-8f02-6b1d4e9a5c77"
AGAIN_AND_AGAIN: Final = {"recovery": "hold-after-dispatch", "deaths": TOO_OFTEN}


def target(operation: str, run: str) -> str:
    return places()[operation].path.format(run=run)


def retry(world: World, run: str, **more: Any) -> Answer:
    return world.calling.operate("POST", target("retrySame", run), {"reason": "A test wants it."} | more)


def test_the_token_is_looked_at_before_the_body(server: Gatehouse) -> None:
    for operation in RECOVERING:
        answer = server.send("POST", target(operation, NO_RUN), {}, b"{")
        assert answer.outcome == (401, "authentication.refused")


def test_the_body_is_looked_at_before_the_run(server: Gatehouse) -> None:
    for operation, code in (("retrySame", "request.invalid"), ("reconcile", "request.reason-invalid")):
        assert server.operate("POST", target(operation, NO_RUN), {"reason": ""}).outcome == (400, code)


def test_where_the_run_is_is_looked_at_before_the_hold(world: World) -> None:
    server, admitted, _, _ = world.standing
    assert attempt(server, "retrySame", run=admitted).outcome == (409, "retry.refused")
    assert attempt(server, "reconcile", run=admitted).outcome == (409, "reconcile.refused")


def test_the_hold_is_looked_at_before_the_definition(world: World) -> None:
    for operation in RECOVERING:
        answer = attempt(world.standing.server, operation, run=world.standing.unreadable)
        assert answer.outcome == (409, "execution.held")


def test_the_definition_is_looked_at_before_what_has_to_be_accepted(world: World) -> None:
    run = world.in_doubt(**AGAIN_AND_AGAIN)
    world.restore()
    redefine(world.calling, run)
    assert retry(world, run).outcome == (409, "run.definition-incompatible")
    assert retry(world, run, acceptRepeat=True).outcome == (409, "run.definition-incompatible")


def test_what_has_to_be_accepted_is_told_in_its_order_and_accepted_at_once(world: World) -> None:
    run = world.in_doubt(**AGAIN_AND_AGAIN)
    assert retry(world, run, acceptRepeat=False).outcome == (409, "evaluation.uncertain")
    world.restore()
    assert retry(world, run).outcome == (409, "restore.review-required")
    accepted = retry(world, run, acceptRepeat=True)
    assert accepted.status == 200
    assert accepted.json["nextDueAt"] is not None
    assert accepted.json["restoreReviewRequired"] is False


def test_the_definition_is_looked_at_before_the_way_of_recovery(world: World) -> None:
    run = world.in_doubt(recovery="same-command")
    assert attempt(world.calling, "reconcile", run=run).outcome == (409, "reconcile.unsupported")
    redefine(world.calling, run)
    assert attempt(world.calling, "reconcile", run=run).outcome == (409, "run.definition-incompatible")


def test_the_receiver_is_asked_last(world: World) -> None:
    asked = len(world.receiving().received)
    runs = [world.in_doubt(recovery="same-command"), world.in_doubt(), world.calling.deliver().run]
    redefine(world.calling, runs[1])
    for run in (*runs, NO_RUN):
        assert attempt(world.calling, "reconcile", run=run).status in {404, 409}
    assert len(world.receiving().received) == asked

"""What brings about each answer of the coordinator's document."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, TypeAlias
from uuid import uuid4

from tests.contract.worlds import World, redefine
from tests.support.contract import Documented, documented, guarded, parameters, places, stored
from tests.support.deliveries import UNREADABLE, Delivery, envelope
from tests.support.gatehouse import Gatehouse
from tests.support.pretended import TOO_OFTEN
from tests.support.receivers import Reply
from tests.support.wire import Answer

NO_RUN: Final = "019d9079-e78a-7c31-8f02-6b1d4e9a5c77"
START: Final = {"flow": "case-follow-up", "input": {"caseId": "C-1"}}
BODIES: Final[dict[str, object]] = {
    "startRun": START,
    "cancelRun": {"reason": "A test wants it."},
    "retrySame": {"reason": "A test wants it."},
    "reconcile": {"reason": "A test wants it."},
    "restoreHold": {"reason": "A test wants it."},
    "releaseRestoreHold": {"reason": "A test wants it."},
    "releaseAdmissionHold": {
        "recoveryReference": "INC-1",
        "admissionHistoryComplete": True,
        "priorDeploymentFenced": True,
    },
}

ALL: Final = list(places())
STORED: Final = stored()
SHOWN: Final = [
    name
    for name, _, code in documented()
    if not code and places()[name].method == "GET" and not any(part.get("required") for part in parameters(name))
]
ADMITTING: Final = ["admitEvent", "startRun"]
OF_A_RUN: Final = ["getRun", "inspectRun", "cancelRun"]
RECOVERING: Final = ["retrySame", "reconcile"]
REASONED: Final = ["cancelRun", "reconcile", "restoreHold", "releaseRestoreHold"]


def _target(operation: str, run: str = NO_RUN) -> str:
    path = places()[operation].path
    return path.format(workflow="case-follow-up", trigger="case-created", run=run)


def attempt(server: Gatehouse, operation: str, run: str = NO_RUN, key: str | None = None) -> Answer:
    """Send a request that the operation serves, and a new one each time."""
    if operation == "admitEvent":
        return server.deliver()
    fields = {"Idempotency-Key": key or str(uuid4())}
    return server.operate(places()[operation].method, _target(operation, run), BODIES.get(operation), fields)


def _send_body(server: Gatehouse, operation: str, body: bytes, kind: str = "application/json") -> Answer:
    if operation == "admitEvent":
        return server.deliver(Delivery(body=body, changes={"Content-Type": kind}))
    fields = {"Content-Type": kind, "Idempotency-Key": str(uuid4())}
    return server.send("POST", _target(operation), server.operator | fields, body)


def _without_token(world: World, operation: str) -> Answer:
    return world.plain.send(places()[operation].method, _target(operation))


def _badly_signed(world: World, _: str) -> Answer:
    return world.plain.deliver(key=bytes(32))


def _by_another_method(world: World, operation: str) -> Answer:
    return world.plain.send("PATCH", _target(operation))


def _too_long(world: World, operation: str) -> Answer:
    limit = places()[operation].content["requestBody"]["x-body-limit"]
    return _send_body(world.plain, operation, b" " * (limit + 1))


def _as_text(world: World, operation: str) -> Answer:
    return _send_body(world.plain, operation, b"{}", "text/plain")


def _cut_off(world: World, operation: str) -> Answer:
    return _send_body(world.plain, operation, b'{"reason":')


def _without_reason(world: World, operation: str) -> Answer:
    return _send_body(world.plain, operation, b'{"reason":""}')


def _with_query(world: World, query: str) -> Answer:
    return world.plain.operate("GET", f"/v1/runs?{query}")


def _large_event(world: World, _: str) -> Answer:
    return world.plain.deliver(Delivery(event=envelope(data={"caseId": "C" * 131_072})))


def _event_without_case(world: World, _: str) -> Answer:
    return world.plain.deliver(Delivery(event=envelope(data={})))


def _start_without_case(world: World, _: str) -> Answer:
    return world.plain.begin({"flow": "case-follow-up", "input": {}}, str(uuid4()))


def _start_of_what_is_not_served(world: World, _: str) -> Answer:
    return world.plain.begin({"flow": "nothing", "input": {}}, str(uuid4()))


def _other_event_under_the_key(world: World, _: str) -> Answer:
    key = {"Idempotency-Key": str(uuid4())}
    assert world.plain.deliver(Delivery(changes=key)).status == 204
    return world.plain.deliver(Delivery(changes=key))


def _other_start_under_the_key(world: World, _: str) -> Answer:
    key = str(uuid4())
    assert world.plain.begin(START, key).status == 201
    return world.plain.begin(START | {"input": {"caseId": "C-2"}}, key)


def _start_again(world: World, operation: str) -> Answer:
    key = str(uuid4())
    assert attempt(world.plain, operation, key=key).status == 201
    return attempt(world.plain, operation, key=key)


def _of_a_run(world: World, operation: str) -> Answer:
    return attempt(world.plain, operation, run=world.plain.deliver().run)


def _on_what_is_spoiled(world: World, operation: str) -> Answer:
    server, run = world.spoiled
    return attempt(server, operation, run=run)


def _without_fence(world: World, _: str) -> Answer:
    return world.held().release_admission(priorDeploymentFenced=False)


def _in_doubt(world: World, operation: str, **what: Any) -> Answer:
    return attempt(world.calling, operation, run=world.in_doubt(**what))


def _with_receipt(reply: Reply | None = None) -> Cause:
    def cause(world: World, operation: str) -> Answer:
        world.receiving(reply)
        return _in_doubt(world, operation)

    return cause


def _with_receipt_while_it_moves(world: World, operation: str) -> Answer:
    run = world.in_doubt()
    world.receiving(meanwhile=lambda: attempt(world.calling, "cancelRun", run=run))
    return attempt(world.calling, operation, run=run)


def _held_in_doubt(world: World, operation: str) -> Answer:
    return attempt(world.standing.server, operation, run=world.standing.in_doubt)


def _in_doubt_of_another_definition(world: World, operation: str) -> Answer:
    run = world.in_doubt()
    redefine(world.calling, run)
    return attempt(world.calling, operation, run=run)


def _in_doubt_after_a_restore(world: World, operation: str) -> Answer:
    run = world.in_doubt()
    world.restore()
    return attempt(world.calling, operation, run=run)


Cause: TypeAlias = Callable[[World, str], Answer]

TABLE: Final[list[tuple[Collection[str], int, str, Cause]]] = [
    (SHOWN, 200, "", lambda world, name: attempt(world.plain, name)),
    (OF_A_RUN, 200, "", _of_a_run),
    (["retrySame"], 200, "", _in_doubt),
    (["reconcile"], 200, "", _with_receipt()),
    (["restoreHold"], 200, "", lambda world, name: attempt(world.released(), name)),
    (["releaseRestoreHold", "releaseAdmissionHold"], 200, "", lambda world, name: attempt(world.held(), name)),
    (["startRun"], 200, "", _start_again),
    (["startRun"], 201, "", lambda world, name: attempt(world.plain, name)),
    (["admitEvent"], 204, "", lambda world, name: attempt(world.plain, name)),
    (["admitEvent"], 400, "event.invalid", _cut_off),
    (["startRun"], 400, "idempotency.key-invalid", lambda world, name: attempt(world.plain, name, key="x" * 257)),
    (["admitEvent"], 400, "input.invalid", _event_without_case),
    (["startRun"], 400, "input.invalid", _start_without_case),
    (["admitEvent"], 400, "request.invalid", _as_text),
    (BODIES, 400, "request.invalid", _cut_off),
    (["listRuns"], 400, "request.invalid", lambda world, _: _with_query(world, "state=asleep")),
    (["listRuns"], 400, "request.limit-out-of-range", lambda world, _: _with_query(world, "limit=101")),
    (REASONED, 400, "request.reason-invalid", _without_reason),
    (guarded(), 401, "authentication.refused", _without_token),
    (["admitEvent"], 401, "event.unauthenticated", _badly_signed),
    ([*OF_A_RUN, *RECOVERING], 404, "run.not-visible", lambda world, name: attempt(world.plain, name)),
    (["startRun"], 404, "workflow.not-served", _start_of_what_is_not_served),
    (ALL, 405, "request.method-not-allowed", _by_another_method),
    (ADMITTING, 409, "admission.held", lambda world, name: attempt(world.held(), name)),
    (ADMITTING, 409, "admission.recovery-only", lambda world, name: attempt(world.recovery_only, name)),
    (ADMITTING, 409, "binding.conflict", lambda world, name: attempt(world.unbound, name)),
    (ADMITTING, 409, "binding.live-conflict", lambda world, name: attempt(world.rebound, name)),
    (ADMITTING, 409, "definition.refused", lambda world, name: attempt(world.redefined, name)),
    (ADMITTING, 409, "deployment.activation-changed", lambda world, name: attempt(world.changed(), name)),
    (ADMITTING, 409, "deployment.refused", lambda world, name: attempt(world.bare, name)),
    (["retrySame"], 409, "evaluation.uncertain", lambda world, name: _in_doubt(world, name, deaths=TOO_OFTEN)),
    (RECOVERING, 409, "execution.held", _held_in_doubt),
    (ADMITTING, 409, "execution.held", lambda world, name: attempt(world.held_in_execution(), name)),
    (["admitEvent"], 409, "idempotency.key-reused", _other_event_under_the_key),
    (["startRun"], 409, "idempotency.key-reused", _other_start_under_the_key),
    (
        ["retrySame"],
        409,
        "mutation.uncertain",
        lambda world, name: _in_doubt(world, name, recovery="hold-after-dispatch"),
    ),
    (["reconcile"], 409, "mutation.uncertain", _with_receipt(Reply(status=500))),
    (["reconcile"], 409, "receipt.expired", _with_receipt(Reply(status=410))),
    (["reconcile"], 409, "reconcile.raced", _with_receipt_while_it_moves),
    (["reconcile"], 409, "reconcile.refused", _of_a_run),
    (["reconcile"], 409, "reconcile.unsupported", lambda world, name: _in_doubt(world, name, recovery="same-command")),
    (
        ["releaseRestoreHold", "releaseAdmissionHold"],
        409,
        "restore.hold-required",
        lambda world, name: attempt(world.released(), name),
    ),
    (["retrySame"], 409, "restore.review-required", _in_doubt_after_a_restore),
    (["releaseAdmissionHold"], 409, "restore.unresolved", _without_fence),
    (["retrySame"], 409, "retry.refused", _of_a_run),
    (RECOVERING, 409, "run.definition-incompatible", _in_doubt_of_another_definition),
    (["admitEvent"], 413, "event.too-large", _large_event),
    (["admitEvent", *BODIES], 413, "request.body-too-large", _too_long),
    (BODIES, 415, "request.unsupported-media-type", _as_text),
    (STORED, 500, "runtime.failure", _on_what_is_spoiled),
    (set(ALL) - set(STORED), 500, "runtime.failure", lambda world, name: attempt(world.failing, name)),
    (["admitEvent"], 503, "audit.response-unavailable", lambda world, name: attempt(world.unaudited, name)),
    (["admitEvent"], 503, "event.source-unavailable", lambda world, _: world.plain.deliver(Delivery(path=UNREADABLE))),
    (STORED, 503, "service.unavailable", lambda world, name: attempt(world.away, name)),
]

CAUSES: Final = {
    Documented(operation, status, code): cause for names, status, code, cause in TABLE for operation in names
}

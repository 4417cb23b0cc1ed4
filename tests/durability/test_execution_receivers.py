from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import pytest

from tests.durability.executions import (
    SHORT,
    WHY,
    call,
    connection,
    end,
    for_a_person,
    inspect,
    reach,
    reconcile,
    results,
    retry,
    settle,
    show,
    start,
    workflow,
)
from tests.support.effort import in_ci_alone
from tests.support.gatehouse import CARRIED_OUT, Gatehouse, NewServer, wait_for
from tests.support.receivers import NEVER, Answerer, Received, Receiver, Reply, in_turn, of_json
from tests.support.wire import Answer

pytestmark = in_ci_alone

HOUR: Final = "3600"
FINE: Final = of_json({"fine": True})
LATE: Final = Reply(late=True)
CUT: Final = Reply(body=b'{"fine": true}', cut=5)
HUGE: Final = Reply(body=b'"' + b"x" * 5_000_000 + b'"')
BROKEN: Final = Reply(body=b'{"fine": tr')
BUSY: Final = of_json({}, 429, Retry_After="1")
FOR_AN_HOUR: Final = of_json({}, 503, Retry_After=HOUR)
MOVED: Final = Reply(status=302, fields={"Location": "/elsewhere"}, body=b"")
EMPTY: Final = Reply(status=204, fields={}, body=b"")

# What is answered to each sending below `/how/`, the last one for ever.
SCRIPTS: Final[dict[str, tuple[Reply, ...]]] = {
    "fine": (FINE,),
    "empty": (EMPTY,),
    "late": (LATE, FINE),
    "cut": (CUT, FINE),
    "huge": (HUGE, FINE),
    "broken": (BROKEN, FINE),
    "failing": (of_json({}, 500), FINE),
    "busy": (BUSY, FINE),
    "away": (of_json({}, 503), FINE),
    "moved": (MOVED, FINE),
    "refusing": (of_json({}, 422), FINE),
    "never": (NEVER,),
    "stuck": (NEVER, FOR_AN_HOUR, FINE),
    "closed": (FOR_AN_HOUR, FINE),
    # What becomes of their receipts is said below.
    "unknown": (NEVER, FINE),
    "forgotten": (NEVER, FINE),
    "silent": (NEVER, FINE),
}
RECEIPTS: Final[dict[str, tuple[Reply, ...]]] = {
    "unknown": (of_json({}, 404),),
    "failing": (of_json({}, 404),),
    "forgotten": (of_json({}, 410),),
    # It is asked at once, then by a reconcile each time.
    "silent": (FOR_AN_HOUR, FOR_AN_HOUR, BROKEN, of_json({}, 404), of_json({"receipt": True})),
}
KNOWN: Final = of_json({"receipt": True})


class Came(NamedTuple):
    """What becomes of a run: how its attempts end, and its state with its failure code."""

    attempts: list[str]
    state: str
    failure: str | None = None


def completed(*attempts: str) -> Came:
    return Came(list(attempts), "completed")


def failed(attempt: str, code: str) -> Came:
    return Came([attempt], "failed", code)


def held(attempt: str) -> Came:
    return Came([attempt], "uncertain")


REFUSED: Final = {
    "fine": completed("completed"),
    "empty": completed("completed"),
    "moved": failed("redirected", "call.redirected"),
    "refusing": failed("refused", "call.refused"),
}
AGAIN: Final = {"busy": completed("retryable", "completed"), "away": completed("retryable", "completed")}
DOUBTFUL: Final = {
    "late": "unanswered",
    "cut": "unanswered",
    "huge": "too-large",
    "broken": "unreadable",
    "failing": "failed-there",
}
EXPECTED: Final[dict[str, dict[str, Came]]] = {
    "read-again": {
        **REFUSED,
        **AGAIN,
        "late": completed("unanswered", "completed"),
        "cut": completed("unanswered", "completed"),
        "failing": completed("failed-there", "completed"),
        "huge": failed("too-large", "response.too-large"),
        "broken": failed("unreadable", "response.invalid"),
    },
    "same-command": {
        **REFUSED,
        **AGAIN,
        **{how: completed(first, "completed") for how, first in DOUBTFUL.items()},
    },
    "same-command-and-receipt": {
        **REFUSED,
        **AGAIN,
        **{how: completed(first, "receipt-found") for how, first in DOUBTFUL.items()},
        "failing": completed("failed-there", "receipt-missing", "completed"),
        "unknown": completed("unanswered", "receipt-missing", "completed"),
        "forgotten": Came(["unanswered", "receipt-expired"], "uncertain"),
    },
    "hold-after-dispatch": {
        **REFUSED,
        "busy": held("retryable"),
        "away": held("retryable"),
        **{how: held(first) for how, first in DOUBTFUL.items()},
    },
}
METHODS: Final = {"read-again": "GET", "same-command": "POST", "same-command-and-receipt": "POST"}


class Moody:
    """Answers each target by the script of its first segment, and each receipt by the one of its command."""

    def __init__(self) -> None:
        self._answerers: dict[str, Answerer] = {}
        self._hows: dict[str, str] = {}

    def __call__(self, received: Received) -> Reply:
        first, last = received.target.split("/")[1:]
        if received.key is not None:
            self._hows[received.key] = first
        script = RECEIPTS.get(self._hows.get(last, ""), (KNOWN,)) if first == "receipts" else SCRIPTS[first]
        return self._answerers.setdefault(received.target, in_turn(*script))(received)


@dataclass(frozen=True)
class World:
    """A server, who it calls, and one run for each way to recover and each mood."""

    server: Gatehouse
    receiver: Receiver
    refusing: Receiver
    runs: dict[tuple[str, str], str]

    def start(self, recovery: str, how: str, flow: str = "by-") -> str:
        """Start a run that calls `/how/…` once."""
        return start(self.server, flow + recovery, how=how, name=str(uuid.uuid4()))

    def sendings(self, run: str) -> list[Received]:
        """The requests that came with the key of the run's call."""
        return self.receiver.by_key.get(f"{run}.ask", [])


def asking(name: str, recovery: str, method: str, **options: Any) -> dict[str, Any]:
    return workflow(
        name,
        {
            "ask": call(recovery, method, "input.how", "done", None if method == "GET" else {"run": "run.id"}),
            "done": {"type": "finish", "outcome": "done", "output": {"body": "steps.ask.body"}},
        },
        **options,
    )


@pytest.fixture(scope="module")
def world(new_server: NewServer) -> Iterator[World]:
    made = new_server(environment=CARRIED_OUT)
    flows = [asking(f"by-{recovery}", recovery, METHODS.get(recovery, "PUT")) for recovery in (*EXPECTED, "nobody")]
    flows += [
        asking(f"hurried-{recovery}", recovery, METHODS[recovery], deadline_seconds=2)
        for recovery in ("read-again", "same-command")
    ]
    with Receiver(Moody()) as receiver, Receiver(refusing=True) as refusing:
        known = {
            each: connection(receiver.url, None if each == "read-again" else each, timeoutSeconds=SHORT)
            for each in EXPECTED
        }
        made.configure(connections=known | {"nobody": connection(refusing.url, "hold-after-dispatch")})
        made.apply(*flows)
        with made as server:
            found = World(server, receiver, refusing, {})
            for recovery, hows in EXPECTED.items():
                for how in hows:
                    found.runs[recovery, how] = start(server, f"by-{recovery}", how=how, name=recovery)
            yield found


@pytest.mark.parametrize(("recovery", "how"), [(recovery, how) for recovery, hows in EXPECTED.items() for how in hows])
def test_each_answer_of_a_receiver_leads_to_its_documented_state(world: World, recovery: str, how: str) -> None:
    run, expected = world.runs[recovery, how], EXPECTED[recovery][how]
    found = settle(world.server, [run])[run]
    assert results(world.server, run, "ask") == expected.attempts
    assert (found["state"], found["failureCode"]) == (expected.state, expected.failure)
    if expected.state == "completed":
        body = {"receipt": True} if expected.attempts[-1] == "receipt-found" else {"fine": True}
        assert found["output"] == {"body": None if how == "empty" else body}
    sendings = world.sendings(run)
    assert len({received.command for received in sendings}) == (recovery != "read-again")


def test_what_asks_for_a_time_is_asked_again_after_it(world: World) -> None:
    run = world.runs["read-again", "busy"]
    end(world.server, run)
    first, second = inspect(world.server, run)["steps"][0]["attempts"]
    # The second counts from the answer, which was there before it was written that the attempt had ended.
    assert parsed(second["startedAt"]) - parsed(first["startedAt"]) >= timedelta(seconds=1)


def test_what_was_not_connected_is_tried_again_whatever_its_recovery(world: World) -> None:
    run = world.start("nobody", "fine")
    wait_for(lambda: "not-connected" in results(world.server, run, "ask"))
    assert reach(world.server, run, lambda found: found["state"] == "waiting")["uncertain"] is False
    world.refusing.listen()
    assert end(world.server, run)["state"] == "completed"
    assert len(world.refusing.received) == 1


def test_a_read_that_is_never_answered_fails_at_the_deadline(world: World) -> None:
    run = world.start("read-again", "never", "hurried-")
    assert end(world.server, run)["failureCode"] == "deadline.passed"
    assert set(results(world.server, run, "ask")) == {"unanswered"}


def test_a_command_that_is_never_answered_waits_for_a_person_from_the_deadline_on(world: World) -> None:
    run = world.start("same-command", "never", "hurried-")
    found = reach(world.server, run, for_a_person)
    assert (found["uncertain"], found["failureCode"]) == (True, None)
    assert len({received.command for received in world.sendings(run)}) == 1


def test_an_operator_has_the_same_command_sent_before_its_time(world: World) -> None:
    run = world.start("same-command", "closed")
    found = reach(world.server, run, lambda found: found["state"] == "waiting" and found["nextDueAt"] is not None)
    assert parsed(found["nextDueAt"]) > parsed(found["admittedAt"]) + timedelta(minutes=59)
    assert inspect(world.server, run)["recovery"] == "same-command"
    assert reconcile(world.server, run) == (409, "reconcile.refused")
    assert retry(world.server, run) == (200, "")
    assert end(world.server, run)["state"] == "completed"
    first, second = world.sendings(run)
    assert first.command == second.command


def test_an_uncertain_command_that_may_be_repeated_is_retried_and_not_reconciled(world: World) -> None:
    run = world.start("same-command", "stuck")
    reach(world.server, run, lambda found: found["state"] == "uncertain" and in_an_hour(found))
    assert reconcile(world.server, run) == (409, "reconcile.unsupported")
    assert retry(world.server, run) == (200, "")
    assert end(world.server, run)["state"] == "completed"
    assert results(world.server, run, "ask") == ["unanswered", "retryable", "completed"]
    assert len({received.command for received in world.sendings(run)}) == 1


def test_a_command_that_is_held_goes_again_only_where_a_person_accepts_that(world: World) -> None:
    run = world.start("hold-after-dispatch", "late")
    assert reach(world.server, run, for_a_person)["uncertain"] is True
    assert inspect(world.server, run)["recovery"] == "hold-after-dispatch"
    assert reconcile(world.server, run) == (409, "reconcile.unsupported")
    assert retry(world.server, run) == (409, "mutation.uncertain")
    assert retry(world.server, run, repeat=False) == (409, "mutation.uncertain")
    assert len(world.sendings(run)) == 1
    assert retry(world.server, run, repeat=True) == (200, "")
    assert end(world.server, run)["state"] == "completed"
    first, second = world.sendings(run)
    assert first.command == second.command


def test_reconcile_takes_the_receipt_for_the_result_once_it_can_be_read(world: World) -> None:
    run = world.start("same-command-and-receipt", "silent")
    reach(world.server, run, lambda found: found["state"] == "uncertain" and in_an_hour(found))
    assert results(world.server, run, "ask") == ["unanswered", "receipt-unavailable"]
    assert reconcile(world.server, run) == (409, "mutation.uncertain")
    assert reconcile(world.server, run) == (409, "mutation.uncertain")
    assert reconcile(world.server, run) == (409, "reconcile.refused")
    assert show(world.server, run)["state"] == "uncertain"
    assert reconcile(world.server, run) == (200, "")
    found = end(world.server, run)
    assert (found["state"], found["output"]) == ("completed", {"body": {"receipt": True}})
    assert len(world.sendings(run)) == 1


def test_a_receipt_that_has_expired_leaves_the_repeat_to_a_person(world: World) -> None:
    run = world.start("same-command-and-receipt", "forgotten")
    reach(world.server, run, for_a_person)
    assert reconcile(world.server, run) == (409, "receipt.expired")
    assert retry(world.server, run, repeat=True) == (200, "")
    assert end(world.server, run)["state"] == "completed"
    first, second = world.sendings(run)
    assert first.command == second.command


def test_what_has_ended_is_neither_retried_nor_reconciled(world: World) -> None:
    run = world.runs["read-again", "fine"]
    end(world.server, run)
    assert retry(world.server, run) == (409, "retry.refused")
    assert reconcile(world.server, run) == (409, "reconcile.refused")


def test_cancelling_an_uncertain_run_says_that_something_may_have_been_accepted(world: World) -> None:
    run = world.start("hold-after-dispatch", "cut")
    reach(world.server, run, for_a_person)
    found = cancel(world, run).json
    assert (found["state"], found["uncertain"], found["cancelRequested"]) == ("cancelled", True, True)
    assert retry(world.server, run, repeat=True) == (409, "retry.refused")
    assert results(world.server, run, "ask") == ["unanswered"]


def test_a_run_that_is_cancelled_in_a_call_keeps_what_was_answered_and_calls_no_more(world: World) -> None:
    run = world.start("same-command", "late")
    world.receiver.wait_for(1, lambda received: received.key == f"{run}.ask")
    cancel(world, run)
    assert end(world.server, run)["state"] == "cancelled"
    assert results(world.server, run, "ask") == ["unanswered"]
    assert len(world.sendings(run)) == 1


def test_nothing_is_retried_or_reconciled_while_execution_is_held(world: World) -> None:
    run = world.start("hold-after-dispatch", "cut")
    reach(world.server, run, for_a_person)
    assert world.server.hold().status == 200
    assert retry(world.server, run, repeat=True) == (409, "execution.held")
    assert reconcile(world.server, run) == (409, "execution.held")
    assert world.server.release_execution().status == 200
    assert world.server.release_admission().status == 200
    # A hold is what follows a restore: what was live then is not repeated without a person.
    assert show(world.server, run)["restoreReviewRequired"] is True
    assert retry(world.server, run) == (409, "restore.review-required")
    assert retry(world.server, run, repeat=True) == (200, "")
    assert end(world.server, run)["state"] == "completed"


def cancel(world: World, run: str) -> Answer:
    answer = world.server.operate("POST", f"/v1/runs/{run}/cancel", WHY)
    assert answer.status == 200, answer
    return answer


def in_an_hour(found: Any) -> bool:
    return found["nextDueAt"] is not None and parsed(found["nextDueAt"]) > parsed(found["admittedAt"]) + timedelta(
        minutes=59
    )


def parsed(time: str) -> datetime:
    return datetime.fromisoformat(time)

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from handlers.coordinator.execution import carrier as module
from handlers.coordinator.execution.carrier import Carrier
from handlers.coordinator.execution.connection import Connection, binding_digest
from handlers.coordinator.execution.course import failed
from handlers.coordinator.execution.exchange import Answered, Exchange, Unanswered
from handlers.coordinator.workflows.workflow import Workflow
from storage.errors import AuditUnavailable, Overloaded, Unavailable, Unstorable
from storage.execution.records import (
    Advance,
    AttemptEnd,
    AttemptKind,
    Claim,
    Command,
    Doubt,
    Move,
    Position,
    StepResult,
    StepType,
    Wait,
)
from tests.handlers.coordinator.execution.positions import DEADLINE, NOW, at, command_of, flow, registry, sent

pytestmark = pytest.mark.anyio

CLAIM = Claim(at().run_id, 7)
REGISTRY = registry("same-command-and-receipt")
KNOWN = {"registry": REGISTRY}
BOUND = binding_digest(["registry"], KNOWN)
COMMAND = command_of(flow(), REGISTRY)


@dataclass
class Pages:
    """A journal that keeps what is written in it, and gives the one position that it has, or raises the fault."""

    position: Position | Exception | None
    takes: bool = True
    faults: list[Exception] = field(default_factory=list)
    written: list[tuple[Any, ...]] = field(default_factory=list)

    async def take_up(self, claim: Claim) -> Position | None:
        assert claim == CLAIM
        if isinstance(self.position, Exception):
            raise self.position
        return self.position

    async def dispatch(
        self, claim: Claim, *, step_type: StepType, kind: AttemptKind, command: Command | None
    ) -> int | None:
        assert claim == CLAIM
        self.written.append(("dispatch", step_type, kind, command))
        return 1 if self.takes else None

    async def settle(
        self, claim: Claim, *, step_type: StepType | None, move: Move, attempt: AttemptEnd | None = None
    ) -> bool:
        assert claim == CLAIM
        if self.faults:
            raise self.faults.pop(0)
        self.written.append(("settle", step_type, move, attempt))
        return isinstance(move, Advance)


@dataclass
class Answering:
    """A caller that gives one answer, and keeps what it was asked for."""

    exchange: Exchange = field(default_factory=Unanswered)
    asked: list[tuple[str, Connection, Command]] = field(default_factory=list)

    async def send(self, connection: Connection, command: Command) -> Exchange:
        self.asked.append(("send", connection, command))
        return self.exchange

    async def receipt(self, connection: Connection, command: Command) -> Exchange:
        self.asked.append(("receipt", connection, command))
        return self.exchange


class Silent(Answering):
    """A caller that never gets an answer; `begun` is set once it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()

    async def send(self, connection: Connection, command: Command) -> Exchange:
        self.begun.set()
        await asyncio.Event().wait()
        return await super().send(connection, command)


def carrier(pages: Pages, caller: Answering, workflow: Workflow | None, known: dict[str, Connection]) -> Carrier:
    async def definition(digest: str) -> Workflow | None:
        assert digest == at().definition_digest
        return workflow

    return Carrier(pages, definition, known, caller, clock=lambda: NOW, jitter=lambda: 1.0)


async def stride(position: Position | None, caller: Answering | None = None, **options: Any) -> tuple[bool, Pages]:
    pages = Pages(position, takes=options.get("takes", True))
    each = carrier(pages, caller or Answering(), options.get("workflow", flow()), options.get("known", KNOWN))
    return await each.stride(CLAIM), pages


async def test_nothing_is_done_for_a_claim_that_was_lost() -> None:
    caller = Answering()
    assert await stride(None, caller) == (False, Pages(None))
    assert caller.asked == []


async def test_a_step_that_asks_nobody_is_settled() -> None:
    position = at("decide", results={"ask": StepResult(200, None, NOW)})
    on, pages = await stride(position)
    assert on
    assert pages.written == [("settle", "choose", Advance("done", None), None)]


async def test_a_command_is_kept_before_it_is_sent_and_its_answer_after() -> None:
    caller = Answering(Answered(200, b'{"a":1}'))
    on, pages = await stride(at(binding_digest=BOUND), caller)
    assert on
    assert pages.written == [
        ("dispatch", "call", "send", COMMAND),
        (
            "settle",
            "call",
            Advance("decide", StepResult(200, '{"a":1}', NOW)),
            AttemptEnd(result="completed", http_status=200),
        ),
    ]
    assert caller.asked == [("send", REGISTRY, COMMAND)]


async def test_nothing_is_sent_that_the_journal_does_not_take() -> None:
    caller = Answering()
    on, pages = await stride(at(binding_digest=BOUND), caller, takes=False)
    assert not on
    assert [kind for kind, *_ in pages.written] == ["dispatch"]
    assert caller.asked == []


async def test_the_receipt_of_a_command_in_doubt_is_asked_for() -> None:
    caller = Answering(Answered(410))
    on, pages = await stride(sent(flow(), REGISTRY, "unanswered", binding_digest=BOUND), caller)
    assert not on
    assert caller.asked == [("receipt", REGISTRY, COMMAND)]
    assert pages.written[1] == ("settle", "call", Doubt(None), AttemptEnd(result="receipt-expired", http_status=410))


async def test_a_call_over_connections_that_are_configured_otherwise_is_not_made() -> None:
    caller = Answering()
    for known in ({}, {"registry": replace(REGISTRY, binding={"baseUrl": "https://other.example"})}):
        _, pages = await stride(at(binding_digest=BOUND), caller, known=known)
        assert pages.written == [("settle", "call", Wait(DEADLINE, blocked=True), None)]
    assert caller.asked == []


async def test_a_definition_that_cannot_be_read_holds_a_run_up() -> None:
    _, pages = await stride(at(binding_digest=BOUND), workflow=None)
    assert pages.written == [("settle", None, Wait(DEADLINE, blocked=True), None)]


async def test_what_a_workflow_makes_wrong_ends_its_run_and_raises_nothing() -> None:
    _, pages = await stride(at(binding_digest=BOUND), workflow=flow(steps__ask__body="1 / 0"))
    assert pages.written == [("settle", "call", failed("mapping.failed"), None)]


async def test_an_executor_that_stops_in_a_call_leaves_the_attempt_open() -> None:
    pages, caller = Pages(at(binding_digest=BOUND)), Silent()
    task = asyncio.create_task(carrier(pages, caller, flow(), KNOWN).stride(CLAIM))
    await caller.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [kind for kind, *_ in pages.written] == ["dispatch"]


async def test_what_came_of_a_call_is_written_once_the_database_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WRITE_AGAIN_SECONDS", 0)
    caller = Answering(Answered(200, b"1"))
    pages = Pages(at(binding_digest=BOUND), faults=[Unavailable("away"), Overloaded("full"), AuditUnavailable("shut")])
    assert await carrier(pages, caller, flow(), KNOWN).stride(CLAIM)
    assert [kind for kind, *_ in pages.written] == ["dispatch", "settle"]
    assert len(caller.asked) == 1


async def test_what_can_never_be_written_is_not_written_again_and_again() -> None:
    pages = Pages(at(binding_digest=BOUND), faults=[Unstorable("never")])
    with pytest.raises(Unstorable):
        await carrier(pages, Answering(), flow(), KNOWN).stride(CLAIM)


async def test_what_the_journal_raises_goes_through() -> None:
    with pytest.raises(Unavailable):
        await carrier(Pages(Unavailable()), Answering(), flow(), KNOWN).stride(CLAIM)

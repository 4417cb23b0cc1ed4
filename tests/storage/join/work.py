"""Work for the tests of join to do: nodes that register and report, and an operator who approves them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from storage.connections import engine
from storage.database import Storage
from storage.join.events import LogLine, LogLines, Outcome, Recorded, Report, StepEvent
from storage.join.records import JOINS
from storage.join.registrations import Newcomer, RaftPlan, Registered, Registration
from tests.storage.work import digest

PIN = "ab" * 32
RAFTS = (RaftPlan("control", "ledger"), RaftPlan("store", "etcd"))
DONE = Recorded(repeated=False, rafts_changed=False)
RAFTS_CHANGED = Recorded(repeated=False, rafts_changed=True)
REPEATED = Recorded(repeated=True, rafts_changed=False)

_numbers = itertools.count()


async def minted(storage: Storage, **changes: Any) -> str:
    """The id of a fresh token."""
    made: dict[str, Any] = {"secret_hash": digest(f"secret {next(_numbers)}"), "name": None, "ttl_seconds": 3600}
    return (await storage.join.tokens.mint(**made | changes)).token_id


def newcomer(token_id: str, **changes: Any) -> Newcomer:
    """A node with a name and an address of its own."""
    number = next(_numbers)
    made: dict[str, Any] = {
        "token_id": token_id,
        "pin": PIN,
        "name": f"node-{number}",
        "role": "compute",
        "address": f"node-{number}.example",
        "peer_urls": None,
        "rafts": RAFTS,
    }
    return Newcomer(**made | changes)


async def registered(storage: Storage, **changes: Any) -> Registration:
    """A node that has registered by a fresh token."""
    outcome = await storage.join.registrations.register(newcomer(await minted(storage), **changes))
    assert isinstance(outcome, Registered)
    assert outcome.new
    return outcome.registration


async def approved(storage: Storage, join_id: str) -> Registration:
    """The join, once it is approved."""
    outcome = await storage.join.registrations.approve(join_id, role=None, address=None)
    assert isinstance(outcome, Registration)
    return outcome


async def joining(storage: Storage, **changes: Any) -> str:
    """The id of a join that has registered, is approved and has the turn."""
    join_id = (await registered(storage, **changes)).join_id
    assert (await approved(storage, join_id)).state == "joining"
    return join_id


async def standing(storage: Storage, join_id: str) -> Registration:
    """The join as it stands now."""
    found = await storage.join.registrations.get(join_id)
    assert found is not None
    return found


async def states(storage: Storage, *join_ids: str) -> list[tuple[str, int | None]]:
    """State and position of each join."""
    found = [await standing(storage, join_id) for join_id in join_ids]
    return [(each.state, each.position) for each in found]


async def raft_states(storage: Storage, join_id: str) -> list[str]:
    """How the join stands with each of its rafts."""
    return [raft.state for raft in (await standing(storage, join_id)).rafts]


def step(name: str, status: Any, message: str | None = None, at: int = 0) -> StepEvent:
    """A step event."""
    return StepEvent(name, status, message, at)


def lines(*numbers: int) -> list[LogLine]:
    """A log line for each number, which is its time and stands in its message."""
    return [(number, None, f"line {number}") for number in numbers]


def batch(
    join_id: str,
    *steps: StepEvent,
    lines: Sequence[LogLine] = (),
    key: str | None = None,
    body: str = "body",
) -> Report:
    """A report."""
    return Report(join_id=join_id, steps=steps, lines=LogLines.of(lines), key=key, digest=digest(body))


async def report(storage: Storage, join_id: str, *steps: StepEvent, **changes: Any) -> Outcome:
    """Report once."""
    return await storage.join.events.report(batch(join_id, *steps, **changes))


async def reported(storage: Storage, *reports: Report) -> list[Outcome]:
    """Report all in one batch of the writer, since they are submitted in one turn of the loop."""
    return list(await asyncio.gather(*map(storage.join.events.report, reports)))


async def keep(storage: Storage) -> None:
    """Do at once what the rafts are waiting for, as a keeper does whose rafts never refuse."""
    rafts = storage.join.rafts
    while turn := await rafts.turn():
        before = turn
        for raft in turn.rafts:
            if raft.state == "adding":
                await rafts.note_before(turn.join_id, raft.raft, [])
                await rafts.added(turn.join_id, raft.raft, f"member of {raft.raft}", [])
            elif raft.state == "promoting":
                await rafts.promoted(turn.join_id, raft.raft)
            elif raft.state == "removing":
                await rafts.removed(turn.join_id, raft.raft)
        if await rafts.turn() == before:
            return


async def finish(storage: Storage, join_id: str) -> None:
    """Let the join that has the turn do all it has to."""
    plan = (await standing(storage, join_id)).plan
    assert await report(storage, join_id, *(step(name, "done") for name in plan)) == RAFTS_CHANGED
    await keep(storage)
    assert (await standing(storage, join_id)).state == "joined"


@contextlib.contextmanager
def writing(url: str) -> Iterator[sa.Connection]:
    """A connection by which a test does what no code does."""
    made = engine(url, "write")
    try:
        with made.begin() as connection:
            yield connection
    finally:
        made.dispose()


def alter(url: str, join_id: str, **values: Any) -> None:
    """Change a join's row, as the passing of time would."""
    with writing(url) as connection:
        connection.execute(JOINS.update().where(JOINS.c.join_id == UUID(join_id)).values(values))

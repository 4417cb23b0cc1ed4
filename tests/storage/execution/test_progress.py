from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from storage.connections import engine
from storage.database import Storage
from storage.execution.progress import position, standing
from storage.execution.records import Advance, Doubt, Wait
from storage.execution.rows import CLAIMS
from tests.storage.execution.work import (
    NEXT,
    command,
    run_of,
    sent,
    settle,
    steps_of,
    take,
    taken,
    taken_up,
    uncertain,
    waiting,
    waiting_at_call,
)
from tests.storage.work import rows

pytestmark = pytest.mark.anyio


async def test_a_run_is_read_with_its_present_step_and_its_claim(storage: Storage, url: str) -> None:
    claim, free = await taken(storage), await waiting(storage)
    expected = await taken_up(storage, claim)
    reading = engine(url, "read")
    with reading.connect() as connection, connection.begin():
        assert standing(connection, uuid4()) is None
        found, unclaimed = standing(connection, UUID(claim.run_id)), standing(connection, UUID(free.run_id))
        assert found is not None
        assert unclaimed is not None
        assert position(connection, found) == expected
    reading.dispose()
    assert (found.seq, found.step_state, found.tries) == (claim.seq, "running", 1)
    assert (unclaimed.seq, unclaimed.step_state, unclaimed.step_type) == (None, "waiting", "wait-until")


async def test_a_cancellation_ends_whoever_is_in_no_hands_and_stays_uncertain_where_something_was_sent(
    storage: Storage, url: str
) -> None:
    claims = {
        "waiting": await waiting(storage),
        "at a call": await waiting_at_call(storage),
        "in doubt": await uncertain(storage),
        "in doubt of a read": await uncertain(storage, what=command(method="GET", recovery="read-again")),
        "due": await uncertain(storage, due_at=1 << 50),
    }
    found: dict[str, tuple[str, bool]] = {}
    for name, claim in claims.items():
        run = await storage.runs.cancel(claim.run_id, "over")
        assert run is not None
        found[name] = (run.state, run.uncertain)
        assert [step.state for step in await steps_of(storage, claim)] == ["cancelled"]
    assert found == {name: ("cancelled", name in ("in doubt", "due")) for name in claims}
    assert await take(storage, 9) == []
    assert rows(url, CLAIMS) == []


async def test_a_run_stays_uncertain_until_its_step_is_resolved(storage: Storage) -> None:
    await uncertain(storage, due_at=1)
    seen: list[tuple[str, bool]] = []

    async def look() -> None:
        run = await run_of(storage, claim)
        seen.append((run.state, run.uncertain))

    for result in ("retryable", "not-connected"):
        [claim] = await take(storage)
        await look()
        await sent(storage, claim)
        await settle(storage, claim, Wait(1), result)
        await look()
    [claim] = await take(storage)
    await sent(storage, claim)
    assert await settle(storage, claim, NEXT, "completed", 200)
    await look()
    assert seen == [("running", True), ("uncertain", True)] * 2 + [("running", False)]


async def test_a_missing_receipt_resolves_the_doubt(storage: Storage) -> None:
    await uncertain(storage, due_at=1)
    [claim] = await take(storage)
    await taken_up(storage, claim)
    await storage.execution.journal.dispatch(claim, step_type="call", kind="receipt", command=command())
    await settle(storage, claim, Wait(1), "receipt-missing", 404)
    assert (await run_of(storage, claim)).state == "waiting"


async def test_steps_are_shown_in_the_order_in_which_they_were_reached_whatever_they_are_called(
    storage: Storage,
) -> None:
    claim = await taken(storage)
    for name in ("z", "a", "m"):
        await taken_up(storage, claim)
        await settle(storage, claim, Advance(name, None))
    await taken_up(storage, claim)
    await settle(storage, claim, Doubt(None))
    assert [step.step for step in await steps_of(storage, claim)] == ["wait", "z", "a", "m"]

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from handlers.coordinator.execution.caution import Caution
from storage.execution.records import Claim, Wait

pytestmark = pytest.mark.anyio

A, B, NEW = Claim("a", 1), Claim("b", 2), Claim("new", 3)


class Journal:
    """Notes what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    async def take_up(self, claim: Claim) -> Any:
        self.asked.append(("take up", claim.run_id))

    async def dispatch(self, claim: Claim, **_: Any) -> int:
        self.asked.append(("dispatch", claim.run_id))
        return 1

    async def settle(self, claim: Claim, **_: Any) -> bool:
        self.asked.append(("settle", claim.run_id))
        return False


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("first", ["settle", "dispatch"])
async def test_a_suspect_is_taken_up_when_the_one_before_it_did_something_and_others_at_once(first: str) -> None:
    journal = Journal()
    caution = Caution(journal, ["a", "b"])
    await caution.take_up(A)
    waiting = asyncio.create_task(caution.take_up(B))
    await caution.take_up(NEW)
    await turns()
    assert journal.asked == [("take up", "a"), ("take up", "new")]
    if first == "settle":
        await caution.settle(A, step_type=None, move=Wait(1))
    else:
        await caution.dispatch(A, step_type="call", kind="send", command=None)
    await waiting
    assert journal.asked[2:] == [(first, "a"), ("take up", "b")]
    # Nothing was found against the first one, while the second one is looked at.
    await caution.take_up(A)


async def test_a_stride_that_fails_gives_the_turn_to_the_next_suspect_and_leaves_a_suspect() -> None:
    journal = Journal()
    caution = Caution(journal, ["a", "b"])

    async def stride(claim: Claim) -> bool:
        await caution.take_up(claim)
        if claim == A:
            raise RuntimeError("a fault")
        return True

    watched = caution.watched(stride)
    with pytest.raises(RuntimeError):
        await watched(A)
    assert await watched(B)
    await caution.take_up(A)
    waiting = asyncio.create_task(caution.take_up(B))
    await turns()
    assert journal.asked == [("take up", "a"), ("take up", "b"), ("take up", "a")]
    waiting.cancel()

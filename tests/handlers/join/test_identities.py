from __future__ import annotations

import asyncio
from uuid import UUID, uuid4

import pytest

from handlers.join import identities
from handlers.join.identities import Identities
from storage.join.registrations import Identity


class Stored:
    """Identities in a database, and what was asked for."""

    def __init__(self, *join_ids: str) -> None:
        self.known = {join_id: Identity(join_id[-4:], ("services", "complete")) for join_id in join_ids}
        self.asked: list[str] = []

    async def find(self, join_id: str) -> Identity | None:
        self.asked.append(join_id)
        return self.known.get(join_id)


def find(kept: Identities, *join_ids: str) -> list[Identity | None]:
    async def find_each() -> list[Identity | None]:
        return [await kept.find(join_id) for join_id in join_ids]

    return asyncio.run(find_each())


def test_a_join_is_looked_up_once() -> None:
    join_id = str(uuid4())
    stored = Stored(join_id)
    assert find(Identities(stored.find), join_id, join_id) == [stored.known[join_id]] * 2
    assert stored.asked == [join_id]


def test_a_join_that_is_not_known_yet_is_looked_up_again() -> None:
    join_id = str(uuid4())
    stored = Stored()
    kept = Identities(stored.find)
    assert find(kept, join_id) == [None]
    stored.known[join_id] = Identity("pin", ())
    assert find(kept, join_id) == [stored.known[join_id]]


@pytest.mark.parametrize("form", ["", "x", "{0}x", "{{{0}}}", "urn:uuid:{0}", " {0}", "{0}\n", "{0.hex}", "ü", "\0"])
def test_text_that_is_no_uuid_is_no_join_and_not_looked_up(form: str) -> None:
    stored = Stored()
    assert find(Identities(stored.find), form.format(UUID(int=7))) == [None]
    assert stored.asked == []


def test_the_join_that_was_not_asked_for_longest_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identities, "KEPT", 2)
    first, second, third = (str(UUID(int=number)) for number in range(3))
    stored = Stored(first, second, third)
    kept = Identities(stored.find)
    find(kept, first, second, first, third)
    stored.asked.clear()
    find(kept, first, third, second)
    assert stored.asked == [second]

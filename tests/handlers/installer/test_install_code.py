from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from starlette.types import Message

from generated.installer.operations.get_install import InstallCodeLocked
from generated.installer.security import InstallCode
from handlers.gateway.exchange import Exchange
from handlers.installer.install_code import InstallCodes, given_code, normal
from storage.database import Storage
from storage.errors import Unavailable
from storage.installer.lock import AddressRecord
from storage.installer.lock import Lock as StoredLock

pytestmark = pytest.mark.anyio

CODE = "7F3K-M2QX"
NOW = 1_800_000_000_000


class Memory(StoredLock):
    """What is kept, and whether that fails, or waits."""

    def __init__(self) -> None:
        self.records: dict[str, AddressRecord] = {}
        self.saves = 0
        self.fails = False
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def load(self) -> list[AddressRecord]:
        await asyncio.sleep(0)
        if self.fails:
            raise Unavailable("for a test")
        return list(self.records.values())

    async def save(self, records: Sequence[AddressRecord], forget: Sequence[str] = ()) -> None:
        await self.goes_on.wait()
        if self.fails:
            raise Unavailable("for a test")
        self.saves += 1
        self.records |= {record.address: record for record in records}
        for address in forget:
            self.records.pop(address, None)


class Door:
    """An install code at a standing clock, and whoever tries it."""

    def __init__(self, stored: StoredLock | None = None) -> None:
        self.stored = stored or Memory()
        self.now = NOW
        self.codes = InstallCodes(f" {CODE}\n", self.stored, lambda: self.now)

    async def give(self, *values: str | bytes, client: str = "192.0.2.1") -> str:
        """Send a request with these Authorization headers; returns how it was received."""
        given = [(b"authorization", each if isinstance(each, bytes) else each.encode()) for each in values]
        try:
            principal = await self.codes.authenticate(request(given, client))
        except InstallCodeLocked as locked:
            return f"wait {locked.headers['Retry-After']}"
        return "refused" if principal is None else "let in"

    async def failures(self, client: str = "192.0.2.1") -> int:
        return next((each.failures for each in await self.stored.load() if each.address == client), 0)


def request(headers: Sequence[tuple[bytes, bytes]], client: str) -> Exchange:
    return Exchange({"type": "http", "method": "GET", "headers": list(headers), "client": (client, 4711)}, _nothing)


async def _nothing() -> Message:
    raise AssertionError("who gives a code is known without a body")


def test_a_code_has_one_spelling() -> None:
    assert normal(b"7f3k-m2qx") == normal(b"7F3KM2QX") == normal(b"-7F-3K-m2-qX-") == b"7F3KM2QX"
    assert normal(b"\xe9\xdf") == b"\xe9\xdf"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"7F3K", b"7F3K"),
        (b"Bearer 7F3K", b"7F3K"),
        (b"bearer  7F3K ", b"7F3K"),
        (b"Bearer", b"Bearer"),
        (b"Bearer ", b""),
        (b"Basic 7F3K", b"Basic 7F3K"),
        (b"Bearer Bearer 7F3K", b"Bearer 7F3K"),
        (b"", b""),
    ],
)
def test_a_code_is_given_bare_or_as_a_bearers(value: bytes, code: bytes) -> None:
    assert given_code(value) == code


@pytest.mark.parametrize("code", ["", " \n", "-", "- -".replace(" ", "")])
def test_an_empty_code_lets_nobody_in(code: str) -> None:
    with pytest.raises(ValueError, match="empty"):
        InstallCodes(code, Memory())


@pytest.mark.parametrize(
    "value", [CODE, "7f3k-m2qx", "7F3KM2QX", "7f3-km2-qx", f"Bearer {CODE}", "bearer 7f3km2qx", f"BEARER   {CODE} "]
)
async def test_the_right_code_is_let_in_however_it_is_spelled(value: str) -> None:
    door = Door()
    given = request([(b"authorization", value.encode())], "192.0.2.1")
    assert await door.codes.authenticate(given) == InstallCode()
    assert await door.failures() == 0


@pytest.mark.parametrize(
    "values",
    [
        ("",),
        ("-",),
        ("Bearer",),
        ("Bearer ",),
        ("Bearer -",),
        (f"Basic {CODE}",),
        (f"Bearer Bearer {CODE}",),
        (f"{CODE}X",),
        (CODE[:-1],),
        (f"{CODE} {CODE}",),
        (f"Bearer {CODE[:4]} {CODE[5:]}",),
        (f"Bearer {CODE[:-1]}\N{FULLWIDTH LATIN CAPITAL LETTER X}",),
        (b"caf\xe9",),
        (b"Bearer caf\xe9",),
        (b"\xff" * 9,),
        (CODE, CODE),
        (f"Bearer {CODE}", "x"),
    ],
)
async def test_any_other_value_is_refused_and_counts(values: tuple[str | bytes, ...]) -> None:
    door = Door()
    assert await door.give(*values) == "refused"
    assert await door.failures() == 1


async def test_no_header_is_refused_and_does_not_count() -> None:
    door = Door()
    assert {await door.give() for _ in range(60)} == {"refused"}
    assert await door.stored.load() == []


async def test_after_the_fifth_wrong_code_none_is_considered_until_the_lock_has_passed() -> None:
    door = Door()
    assert [await door.give("wrong") for _ in range(6)] == ["refused"] * 5 + ["wait 1"]
    assert [await door.give(CODE), await door.give(), await door.give(b"\xe9")] == ["wait 1"] * 3
    assert await door.give(CODE, client="192.0.2.2") == "let in"
    door.now += 999
    assert await door.give(CODE) == "wait 1"
    assert await door.failures() == 5
    door.now += 1
    assert await door.give("wrong") == "refused"
    assert await door.give(CODE) == "wait 2"
    door.now += 1_000
    assert await door.give(CODE) == "wait 1"
    door.now += 1_000
    assert await door.give(CODE) == "let in"
    assert await door.failures() == 0


async def test_seconds_to_wait_are_rounded_up() -> None:
    door = Door()
    for passed in (0, 0, 0, 0, 0, 1_000, 2_000):
        door.now += passed
        await door.give("wrong")
    door.now += 1
    assert await door.give(CODE) == "wait 4"
    door.now += 2_998
    assert await door.give(CODE) == "wait 2"
    door.now += 1
    assert await door.give(CODE) == "wait 1"


async def test_what_was_tried_is_kept_in_the_database(storage: Storage) -> None:
    stored = storage.installer.lock
    for attempt in range(5):
        assert await Door(stored).give("wrong") == "refused", attempt
    door = Door(stored)
    assert [await door.give(CODE), await door.give(CODE, client="192.0.2.2")] == ["wait 1", "let in"]
    assert await door.failures() == 5


async def test_fifty_wrong_codes_lock_strangers_over_a_restart(storage: Storage) -> None:
    stored = storage.installer.lock
    door = Door(stored)
    assert await door.give(CODE, client="192.0.2.2") == "let in"
    answers = await asyncio.gather(*(door.give("wrong", client=f"198.51.100.{index}") for index in range(60)))
    assert sorted(answers) == ["refused"] * 50 + ["wait 60"] * 10
    door = Door(stored)
    assert [await door.give(CODE), await door.give(CODE, client="192.0.2.2")] == ["wait 60", "let in"]
    door.now += 60_000
    assert await door.give(CODE) == "let in"


async def test_of_a_thousand_guesses_at_once_five_are_considered() -> None:
    door = Door()
    guesses = [door.give("wrong" if index != 500 else CODE) for index in range(1_000)]
    answers = await asyncio.gather(*guesses)
    assert (answers.count("refused"), answers.count("wait 1")) == (5, 995)
    assert await door.failures() == 5


async def test_the_answer_waits_until_its_count_is_kept() -> None:
    memory = Memory()
    door = Door(memory)
    memory.goes_on.clear()
    answers = [asyncio.create_task(door.give(*each)) for each in (["wrong"], [CODE])]
    assert await door.give() == "refused"
    assert [answer.done() for answer in answers] == [False, False]
    memory.goes_on.set()
    assert [await answer for answer in answers] == ["refused", "let in"]


async def test_a_count_that_cannot_be_kept_is_a_fault_and_counts_all_the_same() -> None:
    memory = Memory()
    door = Door(memory)
    await door.give()
    memory.fails = True
    for _ in range(5):
        with pytest.raises(Unavailable):
            await door.give("wrong")
    assert await door.give(CODE) == "wait 1"
    memory.fails = False
    door.now += 1_000
    assert await door.give("wrong") == "refused"
    assert await door.failures() == 6


async def test_no_code_is_considered_before_it_is_known_what_was_tried() -> None:
    memory = Memory()
    memory.records = {"192.0.2.1": AddressRecord("192.0.2.1", 5, NOW + 900, NOW - 100, None)}
    door = Door(memory)
    memory.fails = True
    with pytest.raises(Unavailable):
        await door.give(CODE)
    memory.fails = False
    assert await asyncio.gather(*(door.give(CODE) for _ in range(3))) == ["wait 1"] * 3


async def test_the_right_code_is_written_down_once_a_minute() -> None:
    memory = Memory()
    door = Door(memory)
    for _ in range(10):
        assert await door.give(CODE) == "let in"
    assert memory.saves == 1
    door.now += 60_000
    await door.give(CODE)
    assert memory.saves == 2
    assert memory.records["192.0.2.1"].passed_at == NOW + 60_000


async def test_deadlines_of_a_wrong_clock_are_brought_near_once() -> None:
    memory = Memory()
    memory.records = {"192.0.2.1": AddressRecord("192.0.2.1", 9, NOW + 10**10, NOW + 10**10, None)}
    assert await Door(memory).give(CODE) == "wait 300"
    again = Door(memory)
    again.now += 299_001
    assert await again.give(CODE) == "wait 1"

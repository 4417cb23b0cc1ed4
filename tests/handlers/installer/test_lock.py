from __future__ import annotations

from collections.abc import Iterable

import pytest

from handlers.installer.lock import DAY, HOUR, LONGEST, MINUTE, MOST_ADDRESSES, SECOND, Change, Lock, address_key
from storage.installer.lock import AddressRecord

NOW = 1_800_000_000_000
HERE, THERE = "192.0.2.1", "192.0.2.2"


class Kept:
    """A lock, and what was kept of it, from which it is made anew."""

    def __init__(self, records: Iterable[AddressRecord] = (), now: int = NOW) -> None:
        self.stored = {record.address: record for record in records}
        self.lock = Lock(self.stored.values(), now)
        self._keep(self.lock.moved)

    def restarted(self, now: int) -> Kept:
        return Kept(self.stored.values(), now)

    def wrong(self, address: str, now: int) -> int:
        """Give a wrong code as soon as one is considered; returns when that was."""
        now += self.lock.remaining(address, now)
        self._keep(self.lock.refuse(address, now))
        return now

    def right(self, address: str, now: int) -> bool:
        """Give the right code; tells whether that had to be kept."""
        assert self.lock.remaining(address, now) == 0
        change = self.lock.accept(address, now)
        if change is not None:
            self._keep(change)
        return change is not None

    def remaining(self, address: str, now: int) -> int:
        return self.lock.remaining(address, now)

    def flood(self, count: int, now: int) -> None:
        for index in range(count):
            self.wrong(f"198.51.100.{index}", now)

    def _keep(self, change: Change) -> None:
        self.stored |= {record.address: record for record in change.records}
        for address in change.forget:
            del self.stored[address]

    @property
    def addresses(self) -> set[str]:
        return {address for address in self.stored if not address.startswith("recent ")}


@pytest.mark.parametrize(
    ("client", "key"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("2001:DB8:1:3::1", "2001:db8:1:3::/64"),
        ("::1", "::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("testclient", "testclient"),
    ],
)
def test_an_address_counts_by_its_network(client: str, key: str) -> None:
    assert address_key(client) == key


def test_four_wrong_codes_lock_nobody_and_the_fifth_locks_for_a_second() -> None:
    kept = Kept()
    for _ in range(4):
        kept.wrong(HERE, NOW)
        assert kept.remaining(HERE, NOW) == 0
    kept.wrong(HERE, NOW)
    assert [kept.remaining(HERE, NOW + passed) for passed in (0, 1, 999, 1000)] == [1000, 999, 1, 0]
    assert kept.remaining(THERE, NOW) == 0


def test_each_further_wrong_code_locks_for_twice_as_long_up_to_300_seconds() -> None:
    kept, now, locked = Kept(), NOW, []
    for _ in range(16):
        now = kept.wrong(HERE, now)
        locked.append(kept.remaining(HERE, now) // SECOND)
    assert locked == [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]


def test_many_wrong_codes_lock_no_longer() -> None:
    kept = Kept([AddressRecord(HERE, 2**31 - 2, 0, NOW, None)])
    kept.wrong(HERE, NOW)
    assert kept.remaining(HERE, NOW) == LONGEST


def test_the_right_code_resets_an_address() -> None:
    kept = Kept()
    for _ in range(5):
        now = kept.wrong(HERE, NOW)
    now += SECOND
    assert kept.right(HERE, now)
    for _ in range(4):
        kept.wrong(HERE, now)
    assert kept.remaining(HERE, now) == 0
    assert kept.restarted(now).remaining(HERE, now) == 0


def test_an_idle_hour_resets_an_address() -> None:
    kept = Kept()
    for idle, failures in ((HOUR - 1, 5), (HOUR, 1)):
        for _ in range(4):
            kept.wrong(HERE, NOW)
        kept.wrong(HERE, NOW + idle)
        assert kept.stored[HERE].failures == failures
        kept = Kept()


def test_all_of_it_is_there_after_a_restart() -> None:
    kept, now = Kept(), NOW
    for _ in range(7):
        now = kept.wrong(HERE, now)
    kept = kept.restarted(now)
    assert kept.remaining(HERE, now) == 4 * SECOND
    now = kept.wrong(HERE, now)
    assert kept.remaining(HERE, now) == 8 * SECOND


def test_fifty_wrong_codes_within_a_minute_lock_all_others_too() -> None:
    kept = Kept()
    kept.flood(49, NOW)
    assert kept.remaining(HERE, NOW) == 0
    kept.wrong("203.0.113.1", NOW + 59 * SECOND)
    for each in (kept, kept.restarted(NOW + 59 * SECOND)):
        assert each.remaining(HERE, NOW + 59 * SECOND) == SECOND
        assert each.remaining(HERE, NOW + MINUTE) == 0


def test_after_each_minute_the_next_wrong_code_locks_all_again() -> None:
    kept = Kept()
    kept.flood(25, NOW)
    kept.flood(25, NOW + 30 * SECOND)
    kept.wrong(HERE, NOW + MINUTE)
    assert kept.remaining(THERE, NOW + MINUTE) == 0
    kept.flood(24, NOW + MINUTE)
    assert kept.remaining(THERE, NOW + MINUTE) == 30 * SECOND


def test_who_gave_the_right_code_within_a_day_is_not_locked_with_the_others() -> None:
    kept = Kept()
    kept.right(HERE, NOW)
    kept.right(THERE, NOW + 1)
    kept.flood(50, NOW + DAY)
    for each in (kept, kept.restarted(NOW + DAY)):
        assert each.remaining(HERE, NOW + DAY) == MINUTE
        assert each.remaining(THERE, NOW + DAY) == 0


def test_who_is_exempt_is_locked_by_wrong_codes_of_its_own_which_count_for_all() -> None:
    kept = Kept()
    kept.right(HERE, NOW)
    kept.flood(48, NOW)
    for _ in range(4):
        kept.wrong(HERE, NOW)
    assert (kept.remaining(HERE, NOW), kept.remaining(THERE, NOW)) == (0, MINUTE)
    kept.wrong(HERE, NOW)
    assert kept.remaining(HERE, NOW) == SECOND


def test_the_longer_lock_counts() -> None:
    kept, now = Kept(), NOW
    for _ in range(15):
        now = kept.wrong(HERE, now)
    for index in range(50):
        kept.lock.refuse(f"198.51.100.{index}", now)
    assert (kept.remaining(HERE, now), kept.remaining(THERE, now)) == (LONGEST, MINUTE)


def test_the_right_code_is_kept_once_a_minute() -> None:
    kept = Kept()
    assert [kept.right(HERE, NOW + passed) for passed in (0, 1, MINUTE - 1, MINUTE, MINUTE + 1)] == [
        True,
        False,
        False,
        True,
        False,
    ]
    kept.wrong(HERE, NOW + MINUTE + 2)
    assert kept.right(HERE, NOW + MINUTE + 3)


def test_of_too_many_addresses_the_one_that_is_idle_longest_goes() -> None:
    kept = Kept(AddressRecord(str(index), 1, 0, NOW + index, None) for index in range(MOST_ADDRESSES))
    now = NOW + MOST_ADDRESSES
    kept.wrong("1", now)
    kept.right("2", now)
    kept.right("2", now + 1)
    assert len(kept.addresses) == MOST_ADDRESSES
    for index in range(3):
        kept.wrong(f"new {index}", now + 1)
    assert len(kept.addresses) == MOST_ADDRESSES
    assert {str(index) for index in range(6)} & kept.addresses == {"1", "2", "5"}
    assert {"new 0", "new 1", "new 2"} < kept.addresses


def test_asking_is_no_reason_to_keep_an_address() -> None:
    kept = Kept()
    assert kept.remaining(HERE, NOW) == 0
    assert kept.stored == {}


def test_too_many_addresses_that_were_kept_are_brought_down() -> None:
    kept = Kept(AddressRecord(str(index), 1, 0, NOW - index, None) for index in range(MOST_ADDRESSES + 2))
    assert len(kept.addresses) == MOST_ADDRESSES
    assert not {str(MOST_ADDRESSES), str(MOST_ADDRESSES + 1)} & kept.addresses


def test_a_clock_that_goes_back_locks_for_300_seconds_at_most_and_not_again_and_again() -> None:
    kept, now = Kept(), NOW
    for _ in range(14):
        now = kept.wrong(HERE, now)
    back = now - 10 * DAY
    assert kept.remaining(HERE, back) == LONGEST
    assert kept.remaining(HERE, back + 100 * SECOND) == LONGEST - 100 * SECOND
    assert kept.remaining(HERE, back + LONGEST) == 0


def test_a_clock_that_went_back_before_a_restart_does_so_once() -> None:
    kept, now = Kept(), NOW
    for _ in range(14):
        now = kept.wrong(HERE, now)
    back = now - 10 * DAY
    for passed in range(0, LONGEST, 60 * SECOND):
        kept = kept.restarted(back + passed)
        assert kept.remaining(HERE, back + passed) == LONGEST - passed
    assert kept.restarted(back + LONGEST).remaining(HERE, back + LONGEST) == 0


def test_the_minute_of_all_addresses_is_not_prolonged_by_a_clock_that_goes_back() -> None:
    kept = Kept()
    kept.flood(50, NOW)
    back = NOW - DAY
    assert kept.remaining(HERE, back) == MINUTE
    assert kept.remaining(HERE, back + MINUTE) == 0
    restarted = Kept(kept.stored.values(), back - DAY)
    assert restarted.remaining(HERE, back - DAY) == MINUTE
    assert restarted.restarted(back - DAY + MINUTE).remaining(HERE, back - DAY + MINUTE) == 0


def test_a_clock_that_goes_back_makes_no_exemption_longer_and_no_address_idle() -> None:
    kept = Kept()
    kept.right(HERE, NOW)
    for _ in range(4):
        kept.wrong(HERE, NOW)
    back = NOW - 10 * DAY
    kept.wrong(HERE, back)
    assert kept.remaining(HERE, back) == SECOND
    kept.flood(49, back + DAY - 1)
    kept.wrong(HERE, back + DAY - 1)
    assert kept.remaining(HERE, back + DAY - 1) == 0
    assert kept.remaining(HERE, back + DAY) == MINUTE - 1


def test_a_clock_that_goes_forward_ends_what_would_have_ended_by_then() -> None:
    kept, now = Kept(), NOW
    for _ in range(14):
        now = kept.wrong(HERE, now)
    assert kept.remaining(HERE, now + 10 * DAY) == 0
    kept.wrong(HERE, now + 10 * DAY)
    assert kept.stored[HERE].failures == 1
    assert kept.remaining(HERE, now) == 0


def test_deadlines_that_were_kept_are_no_further_than_300_seconds() -> None:
    far = Kept([AddressRecord(HERE, 5, NOW + 10 * DAY, NOW, None), AddressRecord(THERE, 5, NOW + LONGEST, NOW, None)])
    assert far.stored[HERE].locked_until == NOW + LONGEST
    assert (far.remaining(HERE, NOW), far.remaining(THERE, NOW)) == (LONGEST, LONGEST)
    assert far.lock.moved.records == [AddressRecord(HERE, 5, NOW + LONGEST, NOW, None)]

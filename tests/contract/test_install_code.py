from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import pytest

from tests.support.effort import THOROUGH
from tests.support.gatehouse import NewServer, wait_for
from tests.support.installs import CONFIG_PATH, EVENTS, INSTALL, Machine
from tests.support.wire import message, send, send_at_once

REFUSED: Final = (401, "INSTALL_CODE_REFUSED")
LOCKED: Final = (429, "INSTALL_CODE_LOCKED")
IN_A_ROW: Final = 5
IN_A_MINUTE: Final = 50
LONGEST_SECONDS: Final = 300
HOUR: Final = 3_600_000

# Each is one that no other test uses.
PASSED: Final = [f"127.0.1.{number}" for number in range(1, 25)]
STRANGERS: Final = [f"127.0.2.{number}" for number in range(1, 16)]


@pytest.fixture(scope="module")
def guarded(new_server: NewServer) -> Iterator[Machine]:
    """A machine whose code the tests of this module try to guess, never from 127.0.0.1."""
    with new_server() as server:
        machine = Machine(server)
        assert machine.operate("GET", INSTALL).status == 200
        # There will be more wrong codes within a minute than lock the others.
        for source in PASSED:
            assert right(machine, source) == (200, "")
        yield machine
        assert "Traceback" not in server.log
        assert '"level":"error"' not in server.log
        assert machine.code not in server.log


@pytest.fixture
def address(guarded: Machine) -> str:
    """An address that has given the right code, and nothing else yet."""
    assert right(guarded) == (200, "")
    return PASSED.pop()


def right(machine: Machine, source: str = "127.0.0.1") -> tuple[int, str]:
    return machine.guess(source, machine.code).outcome


def assert_spent(machine: Machine, source: str) -> None:
    """Fail unless an address has given as many wrong codes as lock it."""
    assert machine.guess(source).outcome == LOCKED
    assert right(machine, source) == LOCKED


def test_after_five_wrong_codes_the_sixth_and_the_right_one_are_not_considered(guarded: Machine, address: str) -> None:
    assert [guarded.guess(address).outcome for _ in range(IN_A_ROW)] == [REFUSED] * IN_A_ROW
    began = time.monotonic()
    sixth = guarded.guess(address)
    assert (sixth.outcome, sixth.header("Retry-After")) == (LOCKED, "1")
    assert right(guarded, address) == LOCKED
    assert right(guarded) == (200, "")
    # Asking meanwhile does not make it longer.
    wait_for(lambda: right(guarded, address) == (200, ""))
    assert time.monotonic() - began > 0.5
    assert [guarded.guess(address).outcome for _ in range(IN_A_ROW - 1)] == [REFUSED] * (IN_A_ROW - 1)
    assert right(guarded, address) == (200, "")


def test_what_was_tried_counts_after_a_kill_but_no_clock_locks_for_longer_than_the_longest(guarded: Machine) -> None:
    server, now = guarded.server, int(time.time() * 1000)
    doubled, locked, far, idle = sources = [PASSED.pop() for _ in range(4)]
    for source in sources:
        assert [guarded.guess(source).outcome for _ in range(IN_A_ROW - 1)] == [REFUSED] * (IN_A_ROW - 1)
    guarded.lock(doubled)
    server.kill()
    with server.database() as connection:
        kept = "SELECT failures FROM install_addresses WHERE address IN (?, ?, ?, ?) ORDER BY failures"
        assert [count for (count,) in connection.execute(kept, sources)] == [4, 4, 4, IN_A_ROW]
        lock = "UPDATE install_addresses SET failures = 12, locked_until = ? WHERE address = ?"
        connection.execute(lock, (now + 200_000, locked))
        connection.execute(lock, (now + 100_000_000, far))
        connection.execute("UPDATE install_addresses SET last_at = ? WHERE address = ?", (now - HOUR, idle))
    server.start()

    for source, most in ((locked, 200), (far, LONGEST_SECONDS)):
        refused = guarded.guess(source, guarded.code)
        assert refused.outcome == LOCKED
        after = refused.header("Retry-After")
        assert after is not None
        assert most - 60 < int(after) <= most
    # Each further one locks for twice as long.
    wait_for(lambda: guarded.guess(doubled).outcome == REFUSED)
    refused = guarded.guess(doubled)
    assert (refused.outcome, refused.header("Retry-After")) == (LOCKED, "2")
    # An idle hour resets what was counted.
    assert [guarded.guess(idle).outcome for _ in range(IN_A_ROW - 1)] == [REFUSED] * (IN_A_ROW - 1)
    assert right(guarded, idle) == right(guarded) == (200, "")


def test_letter_case_and_dashes_do_not_matter(guarded: Machine, address: str) -> None:
    code = guarded.code
    bare = code.replace("-", "")
    for form in (code, bare, code.lower(), bare.lower(), "-".join(bare), f"--{bare}-", bare[:1].lower() + bare[1:]):
        for value in (form, f"Bearer {form}"):
            assert guarded.guess(address, value).outcome == (200, ""), value


@pytest.mark.parametrize(
    "wrong",
    [
        [b"Basic {code}", b"Bearer", b"Bearer ", b"caf\xe9", b"Bearer caf\xe9"],
        [b"{code}x", b"x{code}", b"Digest {code}", b"Bearer Bearer {code}", b"{code} {code}"],
        [b"", b"{code},{code}", b"Bearer{code}", b"{code}\xa0", b"\xef\xbc\x91{code}"],
    ],
)
def test_every_other_value_is_wrong_and_counts(guarded: Machine, address: str, wrong: list[bytes]) -> None:
    for value in wrong:
        assert guarded.guess(address, value.replace(b"{code}", guarded.code.encode())).outcome == REFUSED, value
    assert_spent(guarded, address)


def test_two_codes_are_wrong_and_count_also_where_both_are_right(guarded: Machine, address: str) -> None:
    twice = [("Authorization", guarded.code), ("Authorization", f"Bearer {guarded.code}")]
    for _ in range(IN_A_ROW):
        assert guarded.ask("GET", INSTALL, twice, source=address).outcome == REFUSED
    assert_spent(guarded, address)


def test_none_at_all_does_not_count(guarded: Machine, address: str) -> None:
    for target in (INSTALL, CONFIG_PATH, EVENTS, "/", "/v1/installer/unknown") * 3:
        assert guarded.ask("GET", target, source=address).outcome == REFUSED
    assert guarded.ask("GET", INSTALL, {"Proxy-Authorization": "WRONG"}, source=address).outcome == REFUSED
    assert right(guarded, address) == (200, "")


def test_a_wrong_code_counts_wherever_it_is_given(guarded: Machine, address: str) -> None:
    wrong = {"Authorization": "WRONG"}
    asked = [("PUT", CONFIG_PATH), ("POST", INSTALL), ("HEAD", INSTALL), ("GET", EVENTS), ("DELETE", "/unknown")]
    for method, target in asked:
        answer = guarded.ask(method, target, wrong, source=address)
        assert answer.status == 401
        assert method == "HEAD" or answer.outcome == REFUSED
    for method, target in [*asked, ("GET", "/")]:
        answer = guarded.ask(method, target, guarded.operator, source=address)
        assert answer.status == 429
        assert answer.header("Retry-After") == "1"


def test_the_pages_are_open_to_everybody_also_while_locked(guarded: Machine, address: str) -> None:
    guarded.lock(address)
    for target in ("/docs", "/openapi/installer.json"):
        answer = send(guarded.server.installer_port, message("GET", target), guarded.wrap, source=address)
        assert answer.status == 200, target
    assert guarded.guess(address).outcome == LOCKED


def test_what_a_proxy_would_say_of_the_address_is_not_believed(guarded: Machine, address: str) -> None:
    for number in range(IN_A_ROW):
        forwarded = f"192.0.2.{number}"
        fields = {"Authorization": "WRONG", "X-Forwarded-For": forwarded, "Forwarded": f"for={forwarded}"}
        assert guarded.ask("GET", INSTALL, fields, source=address).outcome == REFUSED
    assert_spent(guarded, address)


def test_codes_that_come_at_once_do_not_pass_the_lock(guarded: Machine, address: str) -> None:
    request = message("GET", INSTALL, {"Authorization": "WRONG"})
    answers = send_at_once(guarded.server.installer_port, [request] * 100, guarded.wrap, source=address)
    considered = [answer.outcome for answer in answers].count(REFUSED)
    assert [answer.outcome for answer in answers].count(LOCKED) == 100 - considered
    # One more where the machine is so slow that the first lock has passed.
    assert considered in {IN_A_ROW, IN_A_ROW + 1}


def test_an_open_stream_goes_on_while_its_address_is_locked(guarded: Machine, address: str) -> None:
    assert guarded.configure().status == 200
    before = guarded.last_id
    guarded.plan(("says", "echo", "still here"))
    with guarded.writing() as pen, guarded.stream(before, source=address) as stream:
        guarded.lock(address)
        pen.lines(0, 1)
        pen.close()
        assert [event.type for event in stream.rest()] == ["step", "log", "step", "verdict"]


def test_fifty_wrong_codes_in_a_minute_lock_all_that_have_not_given_the_right_one(new_server: NewServer) -> None:
    with new_server() as server:
        machine = Machine(server)
        known, late, *guessers = STRANGERS
        assert right(machine, known) == (200, "")
        for number in range(IN_A_MINUTE):
            assert machine.guess(guessers[number % len(guessers)]).outcome == REFUSED
        for again in (True, False) if THOROUGH else (False,):
            assert right(machine, known) == (200, "")
            locked = machine.guess(late, machine.code)
            assert locked.outcome == LOCKED
            after = locked.header("Retry-After")
            assert after is not None
            assert 1 <= int(after) <= 60
            assert machine.guess(guessers[0]).outcome == LOCKED
            if again:
                server.kill()
                server.start()
        assert "Traceback" not in server.log

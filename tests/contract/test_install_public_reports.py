"""Faults that were reported of servers like this one, by their numbers, as far as they concern the installer.

Cases 4 and 12, a stop with open streams and ids that become visible late, are in tests/durability/test_install.py.
"""

from __future__ import annotations

import pytest

from tests.support.installs import EVENTS, INSTALL, SUCCEEDS, Machine
from tests.support.wire import Wire, message

INVALID = (400, "INVALID_REQUEST")
REFUSED = (401, "INSTALL_CODE_REFUSED")
GUESSER = "127.0.0.96"


# Case 5: what Python's int() takes for a number.


@pytest.mark.parametrize("after", ["1_000", "%2B1", "%201", "%D9%A3", "-0", "1%09", "%0C1"])
def test_a_query_that_only_python_takes_for_a_number_is_refused(after: str, machine: Machine) -> None:
    assert machine.refused(f"?after={after}").outcome == INVALID


@pytest.mark.parametrize("last_event_id", [b"1_0", b"+1", b"1_7", b"-0", b"\xd9\xa3", b"\xb2", b"1\xa0", b"\x851"])
def test_a_last_event_id_that_only_python_takes_for_a_number_is_refused(last_event_id: bytes, machine: Machine) -> None:
    assert machine.refused("", ("Last-Event-ID", last_event_id)).outcome == INVALID


def test_a_last_event_id_with_a_blank_before_it_is_that_id_and_no_other(machine: Machine) -> None:
    # A blank there belongs to the header's syntax (RFC 9110, section 5.5), and is none of the value.
    assert machine.run(SUCCEEDS)["state"] == "succeeded"
    last = machine.last_id
    with machine.connect() as wire:
        wire.write(_with_field(machine, f"Last-Event-ID:  {last - 1} "))
        assert wire.read_head().status == 200
        assert f"\nid: {last}\n".encode() in _whole(wire)


def _with_field(machine: Machine, field: str) -> bytes:
    head = message("GET", EVENTS, machine.operator).removesuffix(b"\r\n")
    return head + field.encode() + b"\r\n\r\n"


def _whole(wire: Wire) -> bytes:
    whole = b"".join(iter(wire.read_chunk, b""))
    assert whole.count(b"\nid: ") == 1
    return whole


# Case 10: compare_digest and text that is not ASCII.


def test_a_code_that_is_not_ascii_is_refused_and_counts_without_a_traceback(machine: Machine) -> None:
    for value in (b"Bearer caf\xe9", b"caf\xe9", b"Bearer \xff\xfe", "Bearer ２３４５".encode(), b"\xe9"):
        answer = machine.ask("GET", INSTALL, {"Authorization": value}, source=GUESSER)
        assert answer.outcome == REFUSED
    assert machine.guess(GUESSER, machine.code).outcome == (429, "INSTALL_CODE_LOCKED")
    assert "Traceback" not in machine.server.log

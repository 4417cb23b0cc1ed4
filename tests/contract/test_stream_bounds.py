from __future__ import annotations

from typing import Final

import pytest

from tests.contract import promised
from tests.support.contract import document
from tests.support.installs import EVENTS, INSTALL, Machine

INVALID: Final = (400, "INVALID_REQUEST")
LAST: Final = (1 << 63) - 1

GOOD: Final = ["0", "9", "10", "9007199254740993", str(LAST - 1), str(LAST)]
BAD: Final = ["-1", str(LAST + 1), "1.0", "01", "x1", "1x", "", "null", "9" * 40]


@pytest.mark.parametrize("number", GOOD)
def test_a_stream_begins_behind_an_id_from_0_to_2_63_less_1(machine: Machine, number: str) -> None:
    with machine.stream(number) as by_query, machine.stream(last_event_id=number) as by_header:
        for head in (by_query.head, by_header.head):
            assert head.status == 200
            assert head.header("Content-Type") == "text/event-stream"
            assert head.header("Cache-Control") == "no-store"
            assert head.header("X-Accel-Buffering") == "no"


@pytest.mark.parametrize("number", BAD)
def test_what_is_no_such_id_is_refused_in_the_query_and_in_the_header(machine: Machine, number: str) -> None:
    assert machine.refused(f"?after={number}").outcome == INVALID
    assert machine.refused("", ("Last-Event-ID", number)).outcome == INVALID
    assert machine.refused("?after=0", ("Last-Event-ID", number)).outcome == INVALID


def test_a_stream_needs_no_id(machine: Machine) -> None:
    with machine.stream() as stream:
        assert stream.head.status == 200


def test_the_code_stands_in_authorization_alone(machine: Machine) -> None:
    refused = (401, "INSTALL_CODE_REFUSED")
    assert machine.ask("GET", EVENTS).outcome == refused
    assert machine.ask("GET", EVENTS, {"X-Authorization": machine.code}).outcome == refused
    told = document("installer")["components"]["securitySchemes"]["installCode"]["name"]
    assert machine.ask("GET", INSTALL, {told: machine.code}).status == 200


def test_only_the_installer_listener_has_the_stream(machine: Machine) -> None:
    assert machine.server.operate("GET", EVENTS).status == 404
    assert machine.server.send_join("GET", EVENTS).status == 404
    nowhere = machine.operate("GET", "/v1/installer/nothing")
    assert nowhere.outcome == (404, "NOT_FOUND")
    promised.check("installer", nowhere)

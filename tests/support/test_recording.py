from __future__ import annotations

from tests.support.contract import APIS, own_document
from tests.support.recording import Account, Gathered, Total
from tests.support.wire import Answer, message

PORT = 8080
IDENTITY = "4bf92f3577b34da6a3ce929d0e0e4736"
LIVE = Answer("HTTP/1.1 200 OK", (("content-type", "application/json"), ("x-request-id", IDENTITY)), b'{"live":true}')
ASKED = message("GET", "/health")


def account() -> Account:
    made = Account()
    made.begins(PORT, "control")
    return made


def test_an_answer_of_a_listener_is_seen() -> None:
    own = account()
    own.heard(PORT, ASKED, LIVE)
    assert own.gathered() == ([("coordinator", "live", "200", "", "application/json", "")], [], 1)


def test_an_answer_from_any_other_port_or_to_what_is_no_request_counts_for_nothing() -> None:
    own = account()
    own.heard(PORT + 1, ASKED, LIVE)
    own.heard(PORT, b"\x16\x03\x01", LIVE)
    own.ends(PORT)
    own.heard(PORT, ASKED, LIVE)
    assert own.gathered() == ([], [], 0)


def test_an_answer_that_does_not_conform_is_told_with_the_test_that_got_it() -> None:
    own = account()
    own.heard(PORT, ASKED, Answer(LIVE.status_line, LIVE.fields, b'{"live":"yes"}'))
    (finding,) = own.gathered().findings
    assert "GET /health 200 (live)" in finding
    assert "test_an_answer_that_does_not_conform" in finding


def test_a_run_is_whole_where_its_processes_together_have_seen_everything_and_nothing_else() -> None:
    cells = [tuple(cell) for api in APIS for cell in own_document(api).cells()]
    halves = [Gathered(cells[:100], [], 1), Gathered(cells[100:], [], 2)]
    assert Total(halves).whole
    assert Total(halves).answers == 3
    assert not Total(halves[:1]).whole
    assert not Total([*halves, Gathered([], ["one"], 1)]).whole

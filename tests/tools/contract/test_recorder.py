from __future__ import annotations

import pytest

from tests.tools.contract.library import answered, asked, library
from tools.contract.document import Cell, Reply, own
from tools.contract.recorder import Recorder, shape, shape_of

LIST = asked("GET", "/v2/books")
GOOD = answered(200, ["Emma"], x_total="1")


def theirs(*, strict_requests: bool = False) -> Recorder:
    return Recorder([library()], strict_requests=strict_requests)


def test_what_conforms_is_seen_and_nothing_is_found() -> None:
    recorder = theirs()
    assert recorder.note(LIST, GOOD) == []
    assert recorder.note_request(LIST, GOOD) == []
    assert recorder.met == {
        Cell("library", "listBooks", "200", "", "application/json"),
        Cell("library", "listBooks", "200", header="X-Total"),
    }
    assert recorder.exchanges == 1
    assert recorder.coverage.share == (2, 8)


def test_an_answer_that_is_wrong_is_found_each_time() -> None:
    recorder = theirs()
    for _ in range(2):
        (finding,) = recorder.note(LIST, answered(200, ["Emma"]))
        assert (finding.kind, finding.operation, finding.path, finding.status) == (
            "answer",
            "listBooks",
            "/v2/books",
            200,
        )
        assert "X-Total" in str(finding)


def test_a_finding_does_not_repeat_the_query() -> None:
    (finding,) = theirs().note(asked("GET", "/books?key=s3cret"), answered(200, ["Emma"]))
    assert "s3cret" not in str(finding)


@pytest.mark.parametrize(
    ("method", "target", "status", "found"),
    [
        ("GET", "/films", 200, 1),
        ("GET", "/films", 404, 0),
        ("DELETE", "/books", 200, 1),
        ("DELETE", "/books", 405, 0),
        ("HEAD", "/books", 200, 0),
        ("OPTIONS", "/books", 204, 0),
    ],
)
def test_what_the_document_does_not_have_is_found_where_a_server_does_it(
    method: str, target: str, status: int, found: int
) -> None:
    assert len(theirs().note(asked(method, target), answered(status))) == found


def test_a_wrong_request_is_found_where_it_is_taken() -> None:
    wrong = asked("GET", "/books?limit=0")
    recorder = theirs()
    (finding,) = recorder.note_request(wrong, GOOD)
    assert finding.kind == "request"
    assert recorder.note_request(wrong, answered(400, {"code": "limit.wrong"}, "application/problem+json")) == []
    assert recorder.refused_requests == 1


def test_a_wrong_request_is_found_where_it_is_refused_if_that_is_asked_for() -> None:
    wrong = asked("GET", "/books?limit=0")
    refused = answered(400, {"code": "limit.wrong"}, "application/problem+json")
    (finding,) = theirs(strict_requests=True).note_request(wrong, refused)
    assert finding.kind == "request"


def test_the_data_of_events_are_held_to_the_document() -> None:
    recorder, follow = theirs(), asked("GET", "/books/news")
    head = Reply(200, [("content-type", "text/event-stream")], None)
    assert recorder.note(follow, head) == []
    assert recorder.note_event(follow, head, '{"number": 1}') == []
    assert len(recorder.note_event(follow, head, "{}")) == 1
    assert recorder.coverage.share.seen == 1


def test_gatehouse_s_own_answers_are_held_to_the_rules_of_the_house() -> None:
    ours = Recorder([own("coordinator"), own("join")], "control")
    identity = "0" * 31
    live = answered(200, {"live": True}, x_request_id=f"{identity}1")
    assert ours.note(asked("GET", "/health"), live) == []
    # Another identity makes no other answer, but it has to be one.
    assert ours.note(asked("GET", "/health"), answered(200, {"live": True}, x_request_id=f"{identity}2")) == []
    assert len(ours.note(asked("GET", "/health"), answered(200, {"live": True}, x_request_id=identity))) == 1
    assert ours.note(asked("GET", "/metrics"), answered(200, b"", "text/plain")) == []
    assert len(ours.note(asked("GET", "/films"), answered(200, x_request_id=f"{identity}1"))) == 1
    assert len(ours.note(asked("PUT", "/health"), answered(200, x_request_id=f"{identity}1"))) == 1


def test_a_listener_is_to_show_what_it_carries_alone() -> None:
    documents = [own("coordinator"), own("join"), own("installer")]
    operations = {cell.operation for cell in Recorder(documents, "installer").coverage.promised}
    assert operations == {place.name for place in documents[2].places}


def test_of_answers_that_are_alike_the_first_is_held_to_the_schemas() -> None:
    recorder = Recorder([library()], alike=lambda operation, reply: (operation, reply.status, shape_of(reply.body)))
    assert recorder.note(LIST, GOOD) == []
    assert recorder.note(LIST, answered(200, ["Emma"])) == []
    assert len(recorder.note(LIST, answered(200, [7], x_total="1"))) == 1


def test_the_shape_of_a_value_is_its_members_and_types() -> None:
    assert shape({"a": [1, 2], "b": "x"}) == shape({"b": "y", "a": [3]})
    assert shape({"a": [1]}) != shape({"a": ["1"]})
    assert shape({"a": None}) != shape({})
    assert shape_of(b"{") == shape_of(b"<") != shape_of(b"")
    assert shape_of(None) != shape_of(b"")

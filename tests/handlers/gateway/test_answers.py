from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from starlette.types import Message

from handlers.gateway.answers import PIECE_BYTES, Rendered, entry_answer, is_json, problem_answer, renderers
from handlers.gateway.faults import Finding
from tests.handlers.gateway.serving import JSON, OPERATOR, Served
from tests.handlers.gateway.small_api import (
    SHOP_OPERATIONS,
    Created,
    Echo,
    FieldError,
    InvalidInput,
    ItemConflict,
    NoContent,
    Ok,
    Shop,
    small_apis,
)

ITEM = b'{"name":"lamp","count":3}'
PUT_ITEM = renderers(next(each for each in SHOP_OPERATIONS if each.name == "put_item"))
SHOP, JOIN = small_apis(Shop())


def test_each_success_has_its_status_its_headers_and_its_body(control: Served) -> None:
    created = control.ask("PUT", "/v1/items/new", {**OPERATOR, **JSON}, ITEM)
    assert created.status == 201
    assert (created.header("Location"), created.header("X-Revision")) == ("/v1/items/new", "1")
    assert created.header("Content-Type") == "application/json"
    assert created.header("X-Note") is None
    assert created.json == {"values": {"name": "lamp", "count": 3}}
    assert control.ask("PUT", "/v1/items/noted", {**OPERATOR, **JSON}, ITEM).header("X-Note") == "caf\xe9"
    assert control.ask("PUT", "/v1/items/other", {**OPERATOR, **JSON}, ITEM).status == 200
    quiet = control.ask("PUT", "/v1/items/quiet", {**OPERATOR, **JSON}, ITEM)
    assert (quiet.status, quiet.header("X-Item"), quiet.body) == (204, "quiet", b"")
    assert quiet.header("Content-Length") is None
    assert quiet.header("Transfer-Encoding") is None


def test_an_answer_without_content_says_that_it_is_empty(control: Served) -> None:
    answer = control.ask("POST", "/v1/items/a")
    assert (answer.status, answer.header("Content-Length"), answer.body) == (202, "0", b"")


def test_text_is_sent_as_it_is(control: Served) -> None:
    answer = control.ask("GET", "/v1/export")
    assert answer.header("Content-Type") == "application/yaml"
    assert answer.body == b"name: caf\xc3\xa9\n"


@pytest.mark.parametrize(
    ("size", "pieces"), [(0, 1), (1, 1), (PIECE_BYTES, 1), (PIECE_BYTES + 1, 2), (3 * PIECE_BYTES, 3)]
)
def test_a_long_body_is_sent_in_pieces(size: int, pieces: int) -> None:
    sent: list[Message] = []

    async def note(message: Message) -> None:
        sent.append(message)

    body = bytes(number % 251 for number in range(size))
    asyncio.run(Rendered(200, [], body).send(note))
    assert b"".join(each["body"] for each in sent[1:]) == body
    assert [each.get("more_body", False) for each in sent[1:]] == [True] * (pieces - 1) + [False]


def test_a_header_field_is_written_as_its_type_has_it() -> None:
    created = Created(body=Echo(values={}), location="/a", x_revision=7)
    rendered = PUT_ITEM[Created](created)
    assert (b"x-revision", b"7") in rendered.headers
    assert not any(name == b"x-note" for name, _ in rendered.headers)
    boolean = PUT_ITEM[Created](replace(created, x_note=True))  # type: ignore[arg-type]
    assert (b"x-note", b"true") in boolean.headers


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "a\0b", "\x7f", "\u4e2d"])
def test_a_header_field_that_would_break_the_answer_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r"control character|codec"):
        PUT_ITEM[NoContent](NoContent(x_item=value))


def test_a_success_has_no_code() -> None:
    rendered = PUT_ITEM[Ok](Ok(body=Echo(values={})))
    assert isinstance(rendered, Rendered)
    assert rendered.code == ""


def test_a_raised_problem_has_its_members_in_the_order_of_their_names() -> None:
    problem = InvalidInput("No.", members={"errors": [FieldError(field="a", message="is b")]})
    rendered = problem_answer(problem, "7" * 32)
    assert rendered.status == 400
    assert rendered.body == (
        b'{"code":"INVALID_INPUT","detail":"No.","errors":[{"field":"a","message":"is b"}],"requestId":"%b",'
        b'"status":400,"title":"Title of INVALID_INPUT","type":"urn:test:problem:join:invalid-input"}' % (b"7" * 32)
    )


def test_a_raised_problem_has_the_headers_that_it_was_given() -> None:
    rendered = problem_answer(ItemConflict("No.", headers={"X-Holder": "me"}), "7" * 32)
    assert (b"x-holder", b"me") in rendered.headers
    assert (b"content-length", b"%d" % len(rendered.body)) in rendered.headers


def test_the_gateway_s_own_refusals_have_the_catalogue_s_headers_unless_told_otherwise() -> None:
    entry = SHOP.catalogue["service.unavailable"]
    assert (b"retry-after", b"5") in entry_answer(entry, "No.", "7" * 32).headers
    told = entry_answer(entry, "No.", "7" * 32, headers={"Retry-After": "1"}).headers
    assert [value for name, value in told if name == b"retry-after"] == [b"1"]


def test_findings_are_listed_where_the_code_has_them() -> None:
    findings = [Finding("a", "is b"), Finding("", "is c")]
    listed = json.loads(entry_answer(JOIN.catalogue["INVALID_INPUT"], "No.", "7" * 32, findings=findings).body)
    assert listed["errors"] == [{"field": "a", "message": "is b"}, {"field": "", "message": "is c"}]
    alone = json.loads(entry_answer(JOIN.catalogue["INVALID_INPUT"], "No.", "7" * 32).body)
    assert alone["errors"] == [{"field": "", "message": "No."}]
    without = json.loads(entry_answer(SHOP.catalogue["item.invalid"], "No.", "7" * 32, findings=findings).body)
    assert "errors" not in without


@pytest.mark.parametrize(
    ("media_type", "expected"),
    [
        ("application/json", True),
        ("application/problem+json", True),
        ("application/yaml", False),
        ("text/plain", False),
        ("application/jsonx", False),
        ("", False),
    ],
)
def test_json_is_told_from_text(media_type: str, expected: bool) -> None:
    assert is_json(media_type) is expected

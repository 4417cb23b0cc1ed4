from __future__ import annotations

import json
import ssl
from typing import Any

import msgspec
import pytest

from generated.runtime import Body
from handlers.gateway import bodies
from handlers.gateway.bodies import Bodies, BytesFault, SchemaFault, parse_media_type
from handlers.gateway.faults import Finding, Plain
from handlers.gateway.schemas import Describer
from tests.handlers.gateway.certificates import Certificates
from tests.handlers.gateway.serving import JSON, OPERATOR, Served, over_tls
from tests.handlers.gateway.small_api import Item, Label, Note
from tests.support.wire import Answer, Wire, message

ITEM = {"name": "lamp", "count": 3}
FIELDS = {**OPERATOR, **JSON}


def put(control: Served, value: Any, **fields: str | bytes) -> Answer:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    named = {name.replace("_", "-"): given for name, given in fields.items()}
    return control.ask("PUT", "/v1/items/quiet", {**FIELDS, **named}, raw)


@pytest.mark.parametrize(
    "value",
    [
        "application/json",
        "Application/JSON",
        "APPLICATION/JSON",
        "application/json;charset=UTF-8",
        "application/json; charset=utf-8",
        "application/json ; a=b",
        'application/json; a="b;c"',
        "application/json;",
        "  application/json\t",
    ],
)
def test_a_media_type_is_compared_parsed(control: Served, value: str) -> None:
    fields = {**OPERATOR, "Content-Type": value}
    assert control.ask("PUT", "/v1/items/quiet", fields, json.dumps(ITEM).encode()).status == 204
    refused = control.ask("PUT", "/v1/items/quiet", fields, b"{}")
    assert refused.outcome == (400, "item.invalid")


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"text/plain",
        b"text/plain; a=application/json",
        b"application/jsonx",
        b"application/problem+json",
        b"application",
        b"application/",
        b"/json",
        b"application /json",
        b"application/json, application/json",
        b"application/json a=b",
        b"application/json\xa0",
        b"application/j\xf6son",
        b"*/*",
    ],
)
def test_another_media_type_is_415(control: Served, value: bytes) -> None:
    answer = control.ask("PUT", "/v1/items/quiet", {**OPERATOR, "Content-Type": value}, json.dumps(ITEM).encode())
    assert answer.outcome == (415, "request.unsupported-media-type")


def test_no_media_type_and_two_are_415(control: Served) -> None:
    raw = json.dumps(ITEM).encode()
    assert control.ask("PUT", "/v1/items/quiet", OPERATOR, raw).status == 415
    twice = [*OPERATOR.items(), *JSON.items(), *JSON.items()]
    assert control.ask("PUT", "/v1/items/quiet", twice, raw).status == 415


@pytest.mark.parametrize("value", ["gzip", "GZIP", "br", "deflate", "identity, gzip", "gzip, identity", "x", "chunked"])
def test_an_encoded_body_is_415(control: Served, value: str) -> None:
    assert put(control, ITEM, Content_Encoding=value).outcome == (415, "request.unsupported-media-type")


@pytest.mark.parametrize("value", ["identity", "Identity", "IDENTITY "])
def test_identity_is_no_encoding(control: Served, value: str) -> None:
    assert put(control, ITEM, Content_Encoding=value).status == 204


def test_a_media_type_is_parsed_in_time_linear_in_its_length() -> None:
    assert parse_media_type(b"a" * 60_000 + b"/" + b"a" * 60_000 + b" " * 60_000 + b"!") == ""
    assert parse_media_type(b"a/b" + b";" * 60_000) == "a/b"


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b" ", id="white space"),
        pytest.param(b'{"name":"a","count":1', id="cut off"),
        pytest.param(b'{"name":"a","count":1}}', id="too much"),
        pytest.param(b'\xef\xbb\xbf{"name":"a","count":1}', id="a byte order mark"),
        pytest.param('{"name":"a","count":1}'.encode("utf-16"), id="UTF-16"),
        pytest.param(b'{"name":"\xff","count":1}', id="invalid UTF-8"),
        pytest.param(b'{"name":"\xc0\xaf","count":1}', id="an overlong form"),
        pytest.param(b'{"name":"a","count":1}\xe2\x82', id="a truncated sequence at the end"),
        pytest.param(b'{"name":"\\ud800","count":1}', id="a lone surrogate"),
        pytest.param(b'{"name":"a","name":"a","count":1}', id="a repeated member"),
        pytest.param(b'{"name":"a","count":NaN}', id="NaN"),
        pytest.param(b'{"name":"a","count":-Infinity}', id="Infinity"),
        pytest.param(b'{"name":"a","count":01}', id="a leading zero"),
        pytest.param(b"[" * 65 + b"]" * 65, id="65 levels"),
        pytest.param(b"[" * 2_000 + b"]" * 2_000, id="2,000 levels"),
        pytest.param(b"{'name':'a'}", id="other quotes"),
    ],
)
def test_bytes_that_are_not_strict_json_are_400_and_store_nothing(control: Served, raw: bytes) -> None:
    stored = len(control.shop.stored)
    assert put(control, raw).outcome == (400, "request.invalid")
    assert len(control.shop.stored) == stored


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        ({}, "name is required."),
        ({"name": "a"}, "count is required."),
        ([], "is not of the type that the document asks for."),
        (None, "is not of the type that the document asks for."),
        ({"name": "a", "count": "1"}, "count is not of the type that the document asks for."),
        ({"name": "a", "count": True}, "count is not of the type that the document asks for."),
        ({"name": "a", "count": 1.5}, "count is not of the type that the document asks for."),
        ({"name": "a", "count": None}, "count is not of the type that the document asks for."),
        ({"name": "a", "count": -1}, "count is too small."),
        ({"name": "a", "count": 1_000_001}, "count is too large."),
        ({"name": "", "count": 1}, "name is too short."),
        ({"name": "a" * 65, "count": 1}, "name is too long."),
        ({"name": "a", "count": 1, "s3cr3t": 1}, "has a member that the document does not know."),
        ({"name": "a", "count": 1, "labels": [{"name": "A"}]}, "labels[0].name does not have the form"),
        ({"name": "a", "count": 1, "labels": [{}, {}]}, "labels has the same item twice."),
        ({"name": "a", "count": 1, "labels": [{"name": "a", "s3cr3t": 1}]}, "labels[0] has a member"),
        ({"name": "a", "count": 1, "labels": [{"name": c} for c in "abcd"]}, "labels has too many items."),
    ],
)
def test_a_value_that_the_schema_does_not_allow_is_400_at_its_place(control: Served, value: Any, detail: str) -> None:
    answer = put(control, value)
    assert answer.outcome == (400, "item.invalid")
    assert answer.json["detail"].startswith(f"The body does not satisfy the document: {detail}")
    assert b"s3cr3t" not in answer.body


@pytest.mark.parametrize("number", ["60.0", "6e1", "0.0", "-0.0", "-0", "1e400", "1E2", "99999999999999999999999"])
def test_a_number_that_is_no_plain_integer_is_never_a_500(control: Served, number: str) -> None:
    answer = put(control, f'{{"name":"a","count":{number}}}'.encode())
    assert answer.status == (204 if number == "-0" else 400)


def test_a_body_becomes_the_generated_type(control: Served) -> None:
    assert put(control, {**ITEM, "labels": [{"name": "red"}]}).status == 204
    assert control.shop.stored[-1] == Item(name="lamp", count=3, labels=[Label(name="red")])


@pytest.mark.parametrize("fields", [{}, JSON, {"Content-Type": "text/plain"}])
def test_an_optional_body_may_be_absent_or_empty(control: Served, fields: dict[str, str]) -> None:
    for body in (None, b""):
        assert control.ask("POST", "/v1/items/a", fields, body).header("Location") == "/v1/items/unset"


def test_an_optional_body_that_is_there_is_held_to_the_document(control: Served) -> None:
    assert control.ask("POST", "/v1/items/a", JSON, b'{"text":"hello"}').status == 202
    assert control.shop.stored[-1] == Note(text="hello")
    assert control.ask("POST", "/v1/items/a", JSON, b"{}").status == 400
    assert control.ask("POST", "/v1/items/a", {}, b'{"text":"hello"}').status == 415
    assert control.ask("POST", "/v1/items/a", JSON, b"null").status == 400


def test_a_required_body_is_required_whatever_its_media_type(control: Served) -> None:
    for fields in ({}, JSON):
        answer = control.ask("PUT", "/v1/items/a", {**OPERATOR, **fields})
        assert answer.outcome == (400, "request.invalid")


def test_a_body_of_two_media_types_comes_with_the_one_that_it_has(control: Served) -> None:
    json_answer = control.ask("PUT", "/v1/settings", {"Content-Type": "application/JSON"}, b'{"text":"a"}')
    assert json_answer.json["values"] == {"contentType": "application/json", "text": "a"}
    yaml_answer = control.ask("PUT", "/v1/settings", {"Content-Type": "application/yaml; v=1"}, b"text: caf\xc3\xa9\n")
    assert yaml_answer.json["values"] == {"contentType": "application/yaml", "text": "text: caf\xe9\n"}


def test_text_is_utf_8_and_held_to_its_schema(control: Served) -> None:
    fields = {"Content-Type": "application/yaml"}
    assert control.ask("PUT", "/v1/settings", fields, b"\xff").json["detail"] == "The body is not UTF-8."
    answer = control.ask("PUT", "/v1/settings", fields, b"a" * 101)
    assert answer.json["detail"] == "The body does not satisfy the document: is too long."


def test_text_without_a_schema_of_its_own_is_left_to_the_handler() -> None:
    body = Body(
        required=True, limit=9, canonical=False, problem=None, media_types={"application/yaml": None}, model=Note | str
    )
    read = Bodies({}, body, Describer({})).decode
    assert read(b"a: 1", "application/yaml") == "a: 1"
    with pytest.raises(BytesFault, match="UTF-8"):
        read(b"\xff", "application/yaml")


class Tag(msgspec.Struct, forbid_unknown_fields=True):
    name: str


def test_a_body_that_is_plain_is_taken_as_it_is_and_any_other_is_held_to_its_schema() -> None:
    contract = {"components": {"schemas": {"Tag": {"required": ["name"], "properties": {"name": {"maxLength": 3}}}}}}
    body = Body(
        required=True,
        limit=99,
        canonical=False,
        problem=None,
        media_types={"application/json": "/components/schemas/Tag"},
        model=Tag,
    )
    plain = Plain(Tag, lambda tag: tag.name.islower())
    read = Bodies(contract, body, Describer(contract), None, plain).decode
    # The schema was not asked, else it would have refused that: whoever says what is plain has to know it.
    assert read(b'{"name":"long"}', "application/json") == Tag(name="long")
    for raw in (b'{"name":"LONG"}', b'{"name":"long","more":1}', b'{"name":"long","name":"long"}'):
        with pytest.raises((SchemaFault, BytesFault)):
            read(raw, "application/json")
    assert read(b'{"name":"RED"}', "application/json") == Tag(name="RED")


def even(value: Any) -> list[Finding]:
    """The meaning of a pair of numbers; it is asked of anything."""
    numbers = value if isinstance(value, list) else []
    return [Finding(f"[{index}]", "is odd") for index, number in enumerate(numbers) if number in (1, 3, "3")]


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b"[2, 4]", []),
        (b"[1, 2]", [("[0]", "is odd")]),
        (b"[1, 3, 2]", [("", "has too many items"), ("[0]", "is odd"), ("[1]", "is odd")]),
        (b'[1, "3"]', [("[1]", "is not of the type that the document asks for"), ("[0]", "is odd")]),
        (b"{}", [("", "is not of the type that the document asks for")]),
        (b"[9, 2]", [("[0]", "does not satisfy the document")]),
    ],
)
def test_faults_of_meaning_are_told_with_those_of_the_schema(raw: bytes, found: list[tuple[str, str]]) -> None:
    pair: dict[str, Any] = {"type": "array", "maxItems": 2, "items": {"type": "integer", "not": {"const": 9}}}
    pair["allOf"] = [{"items": {"not": {"const": 9}}}]
    contract = {"components": {"schemas": {"Pair": pair}}}
    types: dict[str, str | None] = {"application/json": "/components/schemas/Pair", "application/yaml": None}
    body = Body(required=True, limit=99, canonical=False, problem=None, media_types=types, model=list[int] | str)
    read = Bodies(contract, body, Describer(contract), even).decode
    assert read(raw, "application/yaml") == raw.decode()
    if found:
        with pytest.raises(SchemaFault) as raised:
            read(raw, "application/json")
        assert raised.value.findings == found
    else:
        assert read(raw, "application/json") == json.loads(raw)


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b'{"count":1,"name":"a"}', 204),
        (b'{"name":"a","count":1}', 400),
        (b'{"count":1, "name":"a"}', 400),
        (b'{"count":1.0,"name":"a"}', 400),
        (b'{"count":1,"name":"\\u0061"}', 400),
    ],
)
def test_canonical_form_is_asked_where_the_document_says_so(control: Served, raw: bytes, status: int) -> None:
    assert control.ask("POST", "/v1/sealed", JSON, raw).status == status


@pytest.fixture
def node(join: Served, certificates: Certificates) -> Wire:
    return Wire(join.port, over_tls(certificates.client(ssl.TLSVersion.TLSv1_3, certificate=True)))


def register(wire: Wire, value: Any, query: str = "") -> Answer:
    wire.write(message("POST", f"/v1/join/nodes{query}", JSON, json.dumps(value).encode()))
    return wire.read()


def test_every_finding_is_listed_where_the_document_wants_it(node: Wire) -> None:
    links = [{"interface": "eth0"}, {"interface": "a" * 16}, {}, 7]
    with node:
        answer = register(node, {"name": "", "links": links})
        assert answer.outcome == (400, "INVALID_INPUT")
        findings = {each["field"]: each["message"] for each in answer.json["errors"]}
        assert findings == {
            "name": "is too short",
            "links[1].interface": "is too long",
            "links[2].interface": "is required",
            "links[3]": "is not of the type that the document asks for",
        }


def test_findings_of_parameters_and_of_handlers_have_the_same_form(node: Wire) -> None:
    with node:
        answer = register(node, {"name": "a", "links": []}, "?wait=61")
        assert answer.json["errors"] == [{"field": "wait", "message": "does not satisfy the document"}]
        answer = register(node, {"name": "refused", "links": []})
        assert answer.json["errors"] == [{"field": "name", "message": "is refused"}]


def test_no_more_findings_are_listed_than_the_bound(node: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    with node:
        answer = register(node, {"name": "a", "links": [1] * 1_000})
        assert len(answer.json["errors"]) == bodies.LISTED_FINDINGS
        monkeypatch.setattr(bodies, "LISTED_BYTES", 1_000)
        assert len(register(node, {"name": "a", "links": [1] * 1_000}).json["errors"]) == 1

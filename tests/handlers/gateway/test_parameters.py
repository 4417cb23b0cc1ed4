from __future__ import annotations

import pytest

from tests.handlers.gateway.serving import OPERATOR, Served

NO_NUMBERS = [
    "",
    "+1",
    "-1",
    "-0",
    "00",
    "01",
    "1_0",
    "1.0",
    "1e1",
    "0x1",
    " 1",
    "1 ",
    "1\t",
    "1\n",
    "\N{ARABIC-INDIC DIGIT THREE}",
    "\N{FULLWIDTH DIGIT ONE}",
    "\N{SUPERSCRIPT TWO}",
    "1\0",
    "one",
    "NaN",
    "9" * 21,
    "1" * 5_000,
]


def encoded(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


@pytest.mark.parametrize("text", NO_NUMBERS)
@pytest.mark.parametrize(("name", "code"), [("limit", "request.limit-out-of-range"), ("offset", "request.invalid")])
def test_what_is_no_number_in_a_query_is_the_parameter_s_own_400(
    control: Served, name: str, code: str, text: str
) -> None:
    answer = control.ask("GET", f"/v1/items?{name}={encoded(text)}", OPERATOR)
    assert answer.outcome == (400, code)
    assert answer.json["detail"] == f"The query parameter {name} does not satisfy the document."


@pytest.mark.parametrize("query", ["limit=+1", "limit=1_000", "limit=%2B1", "limit=%201", "limit=%D9%A3", "limit"])
def test_the_spellings_that_int_would_take_are_no_numbers(control: Served, query: str) -> None:
    assert control.ask("GET", f"/v1/items?{query}", OPERATOR).outcome == (400, "request.limit-out-of-range")


@pytest.mark.parametrize(
    "value", [b"", b"+1", b"-0", b"1_0", b"01", b"1 0", b"1.0", b"\xb2", b"\xd9\xa3", b"1" * 5_000, b"0", b"101"]
)
def test_what_is_no_number_or_out_of_range_in_a_header_is_400(control: Served, value: bytes) -> None:
    answer = control.ask("GET", "/v1/items", {**OPERATOR, "X-Count": value})
    assert answer.outcome == (400, "request.invalid")
    assert answer.json["detail"] == "The header parameter X-Count does not satisfy the document."


@pytest.mark.parametrize("segment", ["0", "10", "01", "+1", "1%20", "%D9%A3", "a", "-1"])
def test_what_is_no_number_or_out_of_range_in_a_path_is_400(control: Served, segment: str) -> None:
    answer = control.ask("GET", f"/v1/parts/left/of/lamp/{segment}")
    assert answer.outcome == (400, "request.invalid")
    assert answer.json["detail"] == "The path parameter a.b does not satisfy the document."


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("", {"limit": 20, "deep": False}),
        ("limit=1", {"limit": 1, "deep": False}),
        ("limit=100&deep=true", {"limit": 100, "deep": True}),
        ("%6Cimit=%31%30", {"limit": 10, "deep": False}),
        ("offset=0", {"limit": 20, "deep": False, "offset": 0}),
        ("offset=9223372036854775807", {"limit": 20, "deep": False, "offset": 2**63 - 1}),
        ("kind=new&deep=false", {"limit": 20, "deep": False, "kind": "new"}),
        ("kind=n%65w", {"limit": 20, "deep": False, "kind": "new"}),
        ("&&limit=5&", {"limit": 5, "deep": False}),
    ],
)
def test_a_query_gives_typed_values_and_defaults(control: Served, query: str, values: dict[str, object]) -> None:
    answer = control.ask("GET", f"/v1/items?{query}", OPERATOR)
    assert answer.status == 200
    assert answer.json["values"] == values


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=101",
        "offset=9223372036854775808",
        "kind=",
        "kind=NEW",
        "kind=new%20",
        "kind=%FF",
        "deep=1",
        "deep=True",
        "deep=",
        "deep",
    ],
)
def test_a_value_that_the_schema_does_not_allow_is_400(control: Served, query: str) -> None:
    answer = control.ask("GET", f"/v1/items?{query}", OPERATOR)
    code = "request.limit-out-of-range" if query.startswith("limit") else "request.invalid"
    assert answer.outcome == (400, code)


@pytest.mark.parametrize("query", ["limit=5&limit=5", "limit=5&%6Cimit=6", "kind=old&kind=old", "deep=true&deep"])
def test_a_repeated_parameter_is_400(control: Served, query: str) -> None:
    assert control.ask("GET", f"/v1/items?{query}", OPERATOR).status == 400


@pytest.mark.parametrize("fields", [[("X-Flavour", "salt")] * 2, [("X-Flavour", "salt"), ("x-flavour", "sweet")]])
def test_a_repeated_header_parameter_is_400(control: Served, fields: list[tuple[str, str]]) -> None:
    answer = control.ask("GET", "/v1/items", [*OPERATOR.items(), *fields])
    assert answer.outcome == (400, "request.invalid")


@pytest.mark.parametrize(
    "query", ["x=1", "x=1&x=2", "Limit=0", "limit%20=0", "=1", "%FF=1", "x=%FF", "limit;=0", "x=1;limit=0", "%00=1"]
)
def test_what_the_document_does_not_declare_in_a_query_is_ignored(control: Served, query: str) -> None:
    answer = control.ask("GET", f"/v1/items?limit=5&{query}", OPERATOR)
    assert answer.json["values"] == {"limit": 5, "deep": False}


def test_white_space_around_a_header_value_is_none_of_it(control: Served) -> None:
    answer = control.ask("GET", "/v1/items", {**OPERATOR, "X-Flavour": " \t salt \t ", "X-COUNT": "7 "})
    assert answer.json["values"] == {"limit": 20, "deep": False, "x_flavour": "salt", "x_count": 7}


@pytest.mark.parametrize("value", [b"SALT", b"", b"salt sweet", b"caf\xe9", b"caf\xc3\xa9", b"salt,sweet"])
def test_a_header_that_the_schema_does_not_allow_is_400(control: Served, value: bytes) -> None:
    assert control.ask("GET", "/v1/items", {**OPERATOR, "X-Flavour": value}).outcome == (400, "request.invalid")


def test_a_path_parameter_may_have_a_code_of_its_own(control: Served) -> None:
    assert control.ask("GET", f"/v1/items/{'a' * 41}").outcome == (404, "item.unknown")
    assert control.ask("GET", f"/v1/items/{'%C3%B6' * 40}").status == 200


def test_no_answer_repeats_what_was_sent(control: Served) -> None:
    for query in ("limit=s3cr3t", "kind=s3cr3t", "s3cr3t=1&limit=0"):
        assert b"s3cr3t" not in control.ask("GET", f"/v1/items?{query}", OPERATOR).body

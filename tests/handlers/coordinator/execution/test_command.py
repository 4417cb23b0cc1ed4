from __future__ import annotations

from typing import Any

import pytest

from handlers.coordinator.execution.command import MAX_URL_BYTES, RequestInvalidError, make_command
from handlers.coordinator.execution.connection import Connection
from handlers.coordinator.execution.course import activation
from handlers.coordinator.workflows.expression import MappingError
from handlers.coordinator.workflows.workflow import Call
from storage.execution.records import Command
from tests.handlers.coordinator.execution.positions import RECOVERIES, at, flow, reading, registry

OPEN = {"input": True}


def made(given: str, connection: Connection | None = None, **changes: Any) -> Command:
    workflow = flow(**(OPEN | changes))
    call = workflow.steps["ask"]
    assert isinstance(call, Call)
    return make_command("run.ask", call, connection or registry(), activation(workflow, at(input=given)))


def filled(given: str) -> str:
    return made(f'{{"caseId":{given}}}', steps__ask__query={}).url


def test_a_command_is_whole() -> None:
    command = made('{"caseId":"c-1"}')
    assert command == Command(
        key="run.ask",
        connection="registry",
        recovery="hold-after-dispatch",
        method="POST",
        url=f"https://registry.example/api/cases/c-1/decision?wait=true&run={at().run_id}",
        headers=(
            ("Accept", "application/json"),
            ("Accept-Encoding", "identity"),
            ("User-Agent", "gatehouse"),
            ("Idempotency-Key", "run.ask"),
            ("Content-Type", "application/json"),
        ),
        body=b'{"at":"2026-01-01T00:00:00.000Z","urgent":"no"}',
    )


def test_a_read_has_neither_key_nor_body_and_is_read_again_whatever_the_connection_says() -> None:
    for recovery in RECOVERIES:
        call = reading().steps["ask"]
        assert isinstance(call, Call)
        command = make_command("run.ask", call, registry(recovery), activation(reading(), at()))
        assert command.recovery == "read-again"
        assert command.body is None
        assert [name for name, _ in command.headers] == ["Accept", "Accept-Encoding", "User-Agent"]


def test_a_mutation_without_a_body_has_no_type() -> None:
    command = made('{"caseId":"c-1"}', steps__ask__body=...)
    assert command.body is None
    assert "Content-Type" not in dict(command.headers)


def test_a_body_that_is_null_is_one() -> None:
    assert made('{"caseId":"c-1"}', steps__ask__body=None).body == b"null"


@pytest.mark.parametrize(
    ("given", "segment"),
    [
        ('"a b/c?d#e%f"', "a%20b%2Fc%3Fd%23e%25f"),
        ('"\\u00e9\\ud83d\\ude00"', "%C3%A9%F0%9F%98%80"),
        ('"\\u0000\\r\\n"', "%00%0D%0A"),
        ('"..."', "..."),
        ("12", "12"),
        ("-0.5", "-0.5"),
        ("true", "true"),
    ],
)
def test_a_parameter_is_one_segment_of_the_path(given: str, segment: str) -> None:
    assert filled(given) == f"https://registry.example/api/cases/{segment}/decision"


@pytest.mark.parametrize("given", ['""', '"."', '".."', "null", "[]", "{}", '["a"]'])
def test_a_parameter_that_is_no_segment_makes_no_request(given: str) -> None:
    with pytest.raises(RequestInvalidError):
        filled(given)


@pytest.mark.parametrize("template", ["/{a}{b}", "/.{a}", "/{b}.", "/x{a}"])
def test_no_parameter_is_dots_even_beside_something_else(template: str) -> None:
    named = {name: f"input.{name}" for name in "ab" if f"{{{name}}}" in template}
    with pytest.raises(RequestInvalidError):
        made('{"a":".","b":"."}', steps__ask__path=template, steps__ask__parameters=named)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"b": "input.t", "a": 1, "c": True, "d": None, "e": 0.5}, "?b=x%20%26%3D%2B&a=1&c=true&e=0.5"),
        ({"none": "input.none"}, ""),
        ({"a[]&": "'1'"}, "?a%5B%5D%26=1"),
        ({"empty": "''"}, "?empty="),
    ],
)
def test_a_query_keeps_its_order_and_leaves_null_out(query: dict[str, Any], text: str) -> None:
    given = '{"caseId":"c-1","none":null,"t":"x &=+"}'
    assert made(given, steps__ask__query=query).url == f"https://registry.example/api/cases/c-1/decision{text}"


@pytest.mark.parametrize("given", ["[]", "{}", "[1]"])
def test_a_query_has_texts_numbers_and_booleans(given: str) -> None:
    with pytest.raises(RequestInvalidError):
        made(f'{{"caseId":"c-1","x":{given}}}', steps__ask__query={"x": "input.x"})


def test_a_url_has_a_bound() -> None:
    rest = len(filled('"x"')) - 1
    assert len(filled(f'"{"x" * (MAX_URL_BYTES - rest)}"')) == MAX_URL_BYTES
    with pytest.raises(RequestInvalidError, match="8,192"):
        filled(f'"{"x" * (MAX_URL_BYTES - rest + 1)}"')


def test_a_body_is_canonical_and_has_a_bound() -> None:
    given = '{"caseId":"c-1","x":{"b":1.0,"a":"\\u00e9"}}'
    assert made(given, steps__ask__body="input.x").body == '{"a":"é","b":1}'.encode()
    with pytest.raises(RequestInvalidError, match="131,072"):
        made(f'{{"caseId":"c-1","x":"{"x" * 70_000}"}}', steps__ask__body=["input.x", "input.x"])


@pytest.mark.parametrize("member", ["parameters__case", "query__wait", "body__at"])
def test_a_mapping_that_gives_nothing_makes_no_command(member: str) -> None:
    with pytest.raises(MappingError):
        made('{"caseId":"c-1"}', None, **{f"steps__ask__{member}": "input.nothing"})


def test_no_fault_repeats_what_was_received() -> None:
    for given in ('["secret"]', f'"{"secret" * 2000}"'):
        with pytest.raises(RequestInvalidError) as raised:
            filled(given)
        assert "secret" not in str(raised.value)

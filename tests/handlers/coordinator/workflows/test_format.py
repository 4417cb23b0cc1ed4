from __future__ import annotations

from typing import Any

import pytest

from handlers.coordinator.workflows.format import MAX_DEADLINE_SECONDS, MAX_STEPS, check_format
from tests.handlers.coordinator.workflows.building import ASKING, asking

STEP = ASKING["steps"]["done"]


def faults(**changes: Any) -> list[tuple[str, str]]:
    return [(".".join(map(str, fault.path)), fault.message) for fault in check_format(asking(**changes))]


def test_a_workflow_with_every_member_has_its_form() -> None:
    assert faults() == []


def test_a_call_needs_neither_parameters_nor_query_nor_body() -> None:
    assert faults(steps__ask__parameters=..., steps__ask__query=..., steps__ask__body=...) == []


@pytest.mark.parametrize(
    "member",
    [
        *ASKING,
        *(f"triggers__case-created__{name}" for name in ASKING["triggers"]["case-created"]),
        *(f"steps__ask__{name}" for name in ("type", "connection", "method", "path", "next")),
        *(f"steps__{step}__{name}" for step in ("decide", "pause", "done") for name in ASKING["steps"][step]),
    ],
)
def test_each_other_member_must_be_there(member: str) -> None:
    above, _, name = member.replace("__", ".").rpartition(".")
    assert (above, f"the member {name} is missing") in faults(**{member: ...})


@pytest.mark.parametrize(
    "above", ["", "triggers__case-created__", "steps__ask__", "steps__decide__", "steps__pause__", "steps__done__"]
)
def test_a_member_that_is_not_known_is_refused(above: str) -> None:
    assert faults(**{f"{above}nxt": 1}) == [(f"{above}nxt".replace("__", "."), "no such member is known here")]


@pytest.mark.parametrize(
    ("member", "value", "message"),
    [
        ("id", 5, "must be text"),
        ("id", "", "must have at least 1 character"),
        ("id", "a" * 65, "must have at most 64 characters"),
        ("id", "a\nb", "must be without control characters"),
        ("id", "..", "and not '.' or '..'"),
        ("id", ".", "and not '.' or '..'"),
        ("version", 1, "must be text (in quotes"),
        ("version", "", "must have at least 1 character"),
        ("deadlineSeconds", "60", "must be a whole number"),
        ("deadlineSeconds", 1.5, "must be a whole number"),
        ("deadlineSeconds", True, "must be a whole number"),
        ("deadlineSeconds", 0, "must be at least 1"),
        ("deadlineSeconds", MAX_DEADLINE_SECONDS + 1, "must be at most 315360000"),
        ("input", [], "must be true or false or an object"),
        ("triggers", [], "must be an object"),
        ("triggers__case-created", None, "must be an object"),
        ("triggers__case-created__source", "", "must be visible ASCII"),
        ("triggers__case-created__source", "urn:é", "must be visible ASCII"),
        ("triggers__case-created__type", " a", "must be visible ASCII"),
        ("triggers__case-created__type", "a" * 2049, "must have at most 2048 characters"),
        ("triggers__case-created__dataschema", 5, "must be text"),
        ("start", 5, "must be text"),
        ("start", "1st", "must be a letter and at most 63 more"),
        ("steps__ask__type", "ask", "must be one of wait-until, call, choose, finish"),
        ("steps__ask__method", "get", "must be one of GET, POST, PUT, PATCH, DELETE"),
        ("steps__ask__path", "cases", "must begin with a slash"),
        ("steps__ask__path", "/a b", "must begin with a slash"),
        ("steps__ask__path", "/a?b=c", "must begin with a slash"),
        ("steps__ask__path", "/a%2f", "must begin with a slash"),
        ("steps__ask__path", "/{a", "must begin with a slash"),
        ("steps__ask__path", "/{a-b}", "must begin with a slash"),
        ("steps__ask__parameters", "input", "must be an object"),
        ("steps__ask__parameters__case", 5, "must be text"),
        (
            "steps__ask__query__wait",
            [],
            "must be null or true or false or a number or text",
        ),
        ("steps__decide__cases", {}, "must be a list"),
        ("steps__decide__cases", [], "must have at least 1 item"),
        ("steps__decide__else", None, "must be text"),
        ("steps__pause__until", 5, "must be text"),
        ("steps__done__outcome", "", "must be a letter"),
        ("outcomes__decided", "object", "must be true or false or an object"),
    ],
)
def test_each_member_has_its_type_and_bounds(member: str, value: Any, message: str) -> None:
    [(path, found)] = faults(**{member: value})
    assert path == member.replace("__", ".")
    assert message in found


@pytest.mark.parametrize("name", ["a", "a" * 64, "...", "..a", ".a", "a/b c", "ä\U0001f600"])
def test_ids_are_what_the_path_parameters_of_the_operations_take(name: str) -> None:
    assert faults(id=name, triggers={name: ASKING["triggers"]["case-created"]}) == []


@pytest.mark.parametrize(
    ("member", "name", "message"),
    [
        ("triggers", "a" * 65, "the name must have at most 64 characters"),
        ("triggers", "..", "the name must be without control characters"),
        ("steps", "a.b", "the name must be a letter"),
        ("steps", "a" * 65, "the name must be a letter"),
        ("outcomes", "é", "the name must be a letter"),
    ],
)
def test_names_have_their_form_too(member: str, name: str, message: str) -> None:
    value = next(iter(ASKING[member].values())) if member != "steps" else STEP
    [(path, found)] = faults(**{member: {**ASKING[member], name: value}})
    assert path == f"{member}.{name}"
    assert message in found


def test_a_workflow_has_a_bounded_number_of_steps() -> None:
    assert faults(steps={f"s{number}": STEP for number in range(MAX_STEPS)}) == []
    [(path, message)] = faults(steps={f"s{number}": STEP for number in range(MAX_STEPS + 1)})
    assert (path, message) == ("steps", "must have at most 200 members")


@pytest.mark.parametrize("definition", [None, [], "text", 5, True])
def test_what_is_no_object_is_no_workflow(definition: Any) -> None:
    [fault] = check_format(definition)
    assert (fault.path, fault.message) == ((), "must be an object")


def test_a_case_has_its_two_members() -> None:
    found = faults(steps__decide__cases=[{"when": "true", "nxt": "done"}])
    assert found == [
        ("steps.decide.cases.0", "the member next is missing"),
        ("steps.decide.cases.0.nxt", "no such member is known here"),
    ]

from __future__ import annotations

from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from handlers.coordinator.workflows.members import closed, faults_of, named

WORD = "^[a-z]+$"
VALIDATOR = Draft202012Validator(
    closed({"name": {"type": "string", "pattern": WORD}}, {"sizes": named({"pattern": WORD}, {"minimum": 1}, 2)})
)


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        ({}, (), "the member name is missing"),
        ({"name": "a", "nme": 1}, ("nme",), "no such member is known here"),
        ({"name": 1}, ("name",), "must be text (in quotes, where it looks like something else)"),
        ({"name": "A"}, ("name",), "must be small letters"),
        ({"name": "a", "sizes": {"B": 1}}, ("sizes", "B"), "the name must be small letters"),
        ({"name": "a", "sizes": {"b": 0}}, ("sizes", "b"), "must be at least 1"),
        ({"name": "a", "sizes": {"b": 1, "c": 1, "d": 1}}, ("sizes",), "must have at most 2 members"),
    ],
)
def test_what_breaks_a_form_is_told_with_its_place(value: Any, path: tuple[str, ...], message: str) -> None:
    [fault] = faults_of(VALIDATOR, value, {WORD: "must be small letters"})
    assert (fault.path, fault.message) == (path, message)

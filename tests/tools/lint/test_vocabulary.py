from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from tools.lint.vocabulary import EXTENSIONS

REFUSAL = {"status": 404, "title": "Nothing", "type": "urn:example:nothing"}


def accepts(name: str, value: Any) -> bool:
    return jsonschema_rs.Draft202012Validator(EXTENSIONS[name].schema, validate_formats=True).is_valid(value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-problems", {"a.b": REFUSAL}),
        (
            "x-problems",
            {"A": REFUSAL | {"headers": {"Retry-After": 5, "Allow": None, "X": "y"}, "members": ["errors"]}},
        ),
        ("x-problem", "a.b"),
        ("x-listeners", ["join", "control"]),
        ("x-principal", {}),
        ("x-principal", {"joinId": {"type": "string", "description": "Whose it is."}}),
        ("x-body-limit", 65536),
        ("x-canonical-json", True),
        ("x-item-schema", {"$ref": "#/components/schemas/InstallEvent"}),
    ],
)
def test_an_extension_takes_what_it_is_for(name: str, value: Any) -> None:
    assert accepts(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-problems", {}),
        ("x-problems", {"a": {"status": 404, "title": "Nothing"}}),
        ("x-problems", {"a": REFUSAL | {"status": 200}}),
        ("x-problems", {"a": REFUSAL | {"type": "no uri"}}),
        ("x-problems", {"a": REFUSAL | {"headers": {"Allow": True}}}),
        ("x-problems", {"a": REFUSAL | {"members": []}}),
        ("x-problems", {"a": REFUSAL | {"detail": "fixed"}}),
        ("x-problem", ["a.b"]),
        ("x-listeners", []),
        ("x-listeners", ["public"]),
        ("x-listeners", ["join", "join"]),
        ("x-principal", {"joinId": {"type": "boolean", "description": "Whose it is."}}),
        ("x-principal", {"joinId": {"type": "string"}}),
        ("x-body-limit", 0),
        ("x-body-limit", "64 KiB"),
        ("x-canonical-json", False),
        ("x-item-schema", {"type": "object"}),
    ],
)
def test_an_extension_takes_nothing_else(name: str, value: Any) -> None:
    assert not accepts(name, value)

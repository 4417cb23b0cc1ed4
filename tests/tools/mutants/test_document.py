from __future__ import annotations

from typing import Any, Final

import pytest

from tools.mutants.document import GONE, Change, at, changed, operations, pointer, resolved

DOCUMENT: Final[dict[str, Any]] = {
    "paths": {"/a/{b}": {"parameters": [], "get": {"operationId": "getA", "list": [{"$ref": "#/parts/a~1b"}]}}},
    "parts": {"a/b": {"$ref": "#/parts/c"}, "c": {"minimum": 1}},
}


def test_a_change_sets_one_place_and_leaves_the_document_as_it_was() -> None:
    after = changed(DOCUMENT, Change(("parts", "c", "minimum"), 2, "1 made 2"))
    assert after["parts"]["c"] == {"minimum": 2}
    assert DOCUMENT["parts"]["c"] == {"minimum": 1}


def test_a_change_takes_away_a_member_or_an_element() -> None:
    assert changed(DOCUMENT, Change(("parts", "c"), GONE, "dropped"))["parts"].keys() == {"a/b"}
    place = ("paths", "/a/{b}", "get", "list", "0")
    assert changed(DOCUMENT, Change(place, GONE, "dropped"))["paths"]["/a/{b}"]["get"]["list"] == []


def test_references_are_followed_to_the_end() -> None:
    assert resolved(DOCUMENT, ("paths", "/a/{b}", "get", "list", "0")) == ("parts", "c")
    assert resolved(DOCUMENT, ("parts", "c")) == ("parts", "c")


def test_a_place_is_written_as_a_json_pointer() -> None:
    assert pointer(("paths", "/a/{b}", "x~y")) == "/paths/~1a~1{b}/x~0y"
    with pytest.raises(LookupError):
        at(DOCUMENT, ("parts", "d"))


def test_operations_are_what_has_an_operation_id() -> None:
    assert list(operations(DOCUMENT)) == [("getA", ("paths", "/a/{b}", "get"))]

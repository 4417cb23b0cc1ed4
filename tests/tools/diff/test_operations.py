from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.tools.diff.conftest import compared, document, pairs

PAIRS = pairs("operations.yaml")
PATH = "/things/{id}"
BASE = {
    "operationId": "getThing",
    "responses": {"200": {"description": "", "content": {"application/json": {"schema": {"type": "string"}}}}},
}
MISSING = {"description": "", "content": {"application/json": {"schema": {"maxLength": 9}}}}


def put_upon(base: Any, patch: Any) -> Any:
    if not (isinstance(base, Mapping) and isinstance(patch, Mapping)):
        return patch
    return {**base, **{name: put_upon(base.get(name), value) for name, value in patch.items()}}


def made(patch: Mapping[str, Any], whole: bool) -> dict[str, Any]:
    operation = put_upon(BASE, {} if whole else patch)
    parameter = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    base = document(paths={PATH: {"parameters": [parameter], "get": operation}})
    if whole:
        made: dict[str, Any] = put_upon(base, patch)
        return made
    return base | {"components": {"responses": {"Missing": MISSING}}}


@pytest.mark.parametrize("pair", PAIRS, ids=[pair["it"] for pair in PAIRS])
def test_a_pair_has_its_changes(pair: dict[str, Any]) -> None:
    whole = pair.get("document", False)
    changes = compared(*(made(pair.get(side, {}), whole) for side in ("old", "new"))).changes
    below = "" if whole else f"paths.{PATH}.get."
    told = {f"{each.verdict} {each.direction} {each.place.written('things.yaml')}": each for each in changes}
    expected = {" ".join([*each.split()[:2], below + each.split()[2]]) for each in pair["changes"]}
    assert expected <= told.keys()
    assert {name for name, each in told.items() if each.verdict != "safe"} <= expected


def test_there_are_pairs_enough_and_none_twice() -> None:
    assert len({pair["it"] for pair in PAIRS}) == len(PAIRS) >= 60

from __future__ import annotations

from typing import Any

import pytest

from tests.tools.diff.conftest import compared, document, pairs, worst

PAIRS = pairs("schemas.yaml")
BELOW = {
    "request": "paths./things.put.requestBody.content.application/json.schema",
    "answer": "paths./things.get.responses.200.content.application/json.schema",
}


def asking_and_giving(schema: Any, components: Any) -> dict[str, Any]:
    content = {"content": {"application/json": {"schema": schema}}}
    paths = {
        "get": {"operationId": "getThings", "responses": {"200": {"description": "", **content}}},
        "put": {"operationId": "putThings", "requestBody": content, "responses": {"204": {"description": ""}}},
    }
    return document(paths={"/things": paths}, components={"schemas": components})


@pytest.mark.parametrize("pair", PAIRS, ids=[pair["it"] for pair in PAIRS])
def test_a_pair_has_its_verdict_in_each_direction(pair: dict[str, Any]) -> None:
    components = pair.get("components", {})
    changes = compared(*(asking_and_giving(pair[side], components) for side in ("old", "new"))).changes
    for direction, below in BELOW.items():
        told = [change for change in changes if change.place.written("things.yaml").startswith(below)]
        found = worst([change for change in told if change.direction in {direction, "both"}])
        verdict, _, way = pair.get(direction, "").partition(" ")
        assert (found.verdict if found else "") == verdict, (direction, told)
        if found is not None and way:
            assert {change.place.written("things.yaml") for change in told if change.verdict == verdict} & {
                f"{below}.{way}"
            }, (direction, told)
    assert all(change.message.endswith((".", "!")) for change in changes)


def test_there_are_pairs_enough_and_none_twice() -> None:
    assert len({pair["it"] for pair in PAIRS}) == len(PAIRS) >= 60

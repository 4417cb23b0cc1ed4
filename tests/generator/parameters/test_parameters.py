from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from tests.generator.parameters.generated import archive
from tests.generator.parameters.generated.archive.operations import find_papers as op

PARAMETERS = {(parameter.location, parameter.name): parameter for parameter in op.OPERATION.parameters}


def contract_at(pointer: str) -> Any:
    value = json.loads(Path(archive.__file__).with_name("contract.json").read_text("utf-8"))
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


def least() -> op.Request:
    return op.Request(shelf="a", number=1, colour="red", x_version="1.0", trace_id="0" * 32)


def test_an_optional_parameter_is_unset_unless_its_schema_has_a_default() -> None:
    request = least()
    assert (request.sealed, request.tone, request.level, request.x_reader, request.x_since) == (UNSET,) * 5
    assert (request.limit, request.order, request.open) == (20, "oldest", False)


def test_a_required_parameter_has_to_be_given() -> None:
    with pytest.raises(TypeError, match="colour"):
        op.Request(shelf="a", number=1, x_version="1.0", trace_id="0" * 32)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        (("path", "shelf"), "string"),
        (("path", "number"), "integer"),
        (("query", "limit"), "integer"),
        (("query", "open"), "boolean"),
        (("query", "colour"), "string"),
        (("header", "X-Reader"), "integer"),
        (("header", "X-Since"), "string"),
    ],
)
def test_the_table_tells_each_place_and_kind(place: tuple[str, str], kind: str) -> None:
    assert PARAMETERS[place[0], place[1]].kind == kind  # type: ignore[index]


def test_each_pointer_leads_to_the_schema_in_the_contract() -> None:
    for parameter in op.OPERATION.parameters:
        schema = contract_at(parameter.pointer)
        assert schema.get("type", "string") == parameter.kind or "$ref" in schema


def test_a_shared_parameter_is_pointed_to_where_it_stands() -> None:
    assert PARAMETERS["header", "X-Reader"].pointer == "/components/parameters/Reader/schema"
    assert PARAMETERS["path", "shelf"].pointer == "/paths/~1shelves~1{shelf}~1papers~1{number}/parameters/0/schema"


def test_an_operation_replaces_a_parameter_of_its_path() -> None:
    assert PARAMETERS["query", "sealed"].kind == "boolean"


def test_the_same_name_in_another_place_gets_a_field_of_its_own() -> None:
    assert PARAMETERS["path", "number"].field == "number"
    assert PARAMETERS["query", "number"].field == "query_number"


def test_a_parameter_may_have_a_problem_and_a_default_of_its_own() -> None:
    limit = PARAMETERS["query", "limit"]
    assert (limit.problem, limit.default) == ("limit.invalid", 20)
    assert PARAMETERS["query", "level"].problem is None

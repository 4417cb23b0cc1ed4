from __future__ import annotations

import importlib
import pkgutil

import msgspec
import pytest

from tests.generator.names import generated
from tests.generator.names.generated import odd_names
from tests.generator.names.generated.odd_names.models import Thing
from tests.generator.names.generated.odd_names.operations import import_, operations_
from tests.generator.names.generated.odd_names.problems import OddNames, OddNamesProblem
from tests.generator.names.generated.odd_names.service import Service
from tools.generator.names import pascal, snake


@pytest.mark.parametrize(
    ("name", "field", "class_name"),
    [
        ("listRuns", "list_runs", "ListRuns"),
        ("X-Coordinator-Run-Id", "x_coordinator_run_id", "XCoordinatorRunId"),
        ("event.too-large", "event_too_large", "EventTooLarge"),
        ("JOIN_ENDED", "join_ended", "JoinEnded"),
        ("Last-Event-ID", "last_event_id", "LastEventId"),
        ("HTTPServer", "http_server", "HttpServer"),
        ("p0", "p0", "P0"),
        ("sha256", "sha256", "Sha256"),
        ("getV2Run", "get_v2_run", "GetV2Run"),
        ("class", "class_", "Class"),
        ("str", "str_", "Str"),
        ("2nd", "field_2nd", "2nd"),
        ("größe", "gr_e", "GrE"),
        ("--", "", ""),
    ],
)
def test_names_are_turned_in_one_way(name: str, field: str, class_name: str) -> None:
    assert (snake(name), pascal(name)) == (field, class_name)


def test_every_odd_module_can_be_imported() -> None:
    names = [info.name for info in pkgutil.walk_packages(generated.__path__, f"{generated.__name__}.")]
    assert len([importlib.import_module(name) for name in names]) == 11


def test_keywords_and_names_that_annotations_need_get_an_underscore() -> None:
    fields = {parameter.name: parameter.field for parameter in import_.OPERATION.parameters}
    assert (fields["class"], fields["str"]) == ("class_", "str_")
    assert operations_.OPERATION.answers[0].headers == (("Body", "header_body"), ("from", "from_"))


def test_a_name_that_is_taken_says_where_it_comes_from() -> None:
    fields = {parameter.name: parameter.field for parameter in import_.OPERATION.parameters}
    assert (fields["body"], fields["principal"], fields["Class"]) == ("query_body", "query_principal", "header_class_")
    assert fields["accept"] == "query_accept"


def test_operations_with_odd_names_are_fields_of_the_service() -> None:
    assert [operation.name for operation in odd_names.operations.OPERATIONS] == list(Service.__dataclass_fields__)
    assert list(Service.__dataclass_fields__) == ["import_", "operations_", "get_v2_things", "open_"]


def test_a_code_like_a_builtin_a_schema_or_a_class_of_operations_becomes_another_name() -> None:
    assert [problem.__name__ for problem in import_.OPERATION.problems] == [
        "NotImplementedProblem",
        "ThingProblem",
        "RequestProblem",
        "OddNames",
        "Problem3Times",
    ]
    assert issubclass(OddNames, OddNamesProblem)


def test_odd_members_keep_their_names_on_the_wire() -> None:
    value = {"class": "a", "camelCase": 1, "with-dash": "b", "2nd": "c", "list": ["d"], "more": ["e"]}
    assert msgspec.to_builtins(msgspec.convert(value, Thing)) == value


def test_quotes_and_backslashes_of_a_description_survive() -> None:
    assert (odd_names.__doc__ or "").startswith('Odd "names" \\ and """quotes"""')

from __future__ import annotations

from pathlib import Path

import pytest

from tools.lint.document import read
from tools.lint.grammar import Tree, target_of


@pytest.fixture
def tree() -> Tree:
    return Tree(read(Path(__file__).with_name("library.yaml")))


def test_every_object_is_found_by_its_kind(tree: Tree) -> None:
    assert [node.value["operationId"] for node in tree.every("operation")] == ["lendBook", "getLoan", "followLoan"]
    assert {node.name for node in tree.every("media")} == {
        "application/json",
        "application/problem+json",
        "text/event-stream",
    }
    assert [node.name for node in tree.every("example")] == ["OpenLoan"]


def test_a_schema_is_found_under_every_keyword_that_holds_one(tree: Tree) -> None:
    lending = ("components", "schemas", "Lending")
    below = {node.pointer[3:] for node in tree.every("schema") if node.pointer[:3] == lending}
    assert below >= {("properties", "pages"), ("if",), ("if", "properties", "pages"), ("then",)}


def test_data_is_no_part_of_the_grammar(tree: Tree) -> None:
    assert not [node for node in tree if "example" in node.pointer]


def test_references_are_followed_to_what_they_mean(tree: Tree) -> None:
    get = next(node for node in tree.every("operation") if node.value["operationId"] == "getLoan")
    assert [parameter.value["name"] for parameter in tree.parameters(get)] == ["loan"]
    refused = tree.child(get, "responses", "401")
    assert refused is not None
    assert refused.pointer == ("components", "responses", "Refused")


def test_the_parameters_of_a_path_are_those_of_its_operations(tmp_path: Path, library: str) -> None:
    shared = "  /loans:\n    parameters:\n      - $ref: '#/components/parameters/Loan'\n"
    path = tmp_path / "library.yaml"
    path.write_text(library.replace("  /loans:\n", shared, 1), "utf-8")
    tree = Tree(read(path))
    post = next(tree.every("operation"))
    assert [parameter.value["name"] for parameter in tree.parameters(post)] == ["loan", "lent-at"]


def test_a_validator_knows_references_and_formats(tree: Tree) -> None:
    loan = next(node for node in tree.every("schema") if node.name == "Loan")
    validator = tree.validator(loan)
    assert validator.is_valid({"loan": 1, "returned": "2026-04-15T09:30:00Z"})
    assert not validator.is_valid({"loan": 1, "returned": "yesterday"})


def test_a_reference_spells_its_pointer_percent_encoded() -> None:
    assert target_of("#/paths/~1runs~1%7Brun%7D/get") == ("paths", "/runs/{run}", "get")

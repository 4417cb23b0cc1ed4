from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tools.diff.conftest import compared, document
from tools.diff import report
from tools.diff.documents import load
from tools.diff.report import Compared, may_break

SPEC = Path(__file__).parents[3] / "spec"

# An edit of a document of the project (case 15 among them), and what is told beside harmless changes.
EDITS = [
    (
        ("join.yaml", "components.schemas.NodeRole.enum", ["control", "compute"]),
        ["breaking request components.schemas.NodeRole.enum", "safe answer components.schemas.NodeRole.enum"],
    ),
    (
        ("join.yaml", "components.schemas.NodeRole.enum", ["control", "compute", "storage", "witness"]),
        ["risky answer components.schemas.NodeRole.enum", "safe request components.schemas.NodeRole.enum"],
    ),
    (
        ("installer.yaml", "components.schemas.InstallEvent.properties.status.enum", ["started", "failed"]),
        ["safe answer components.schemas.InstallEvent.properties.status.enum"],
    ),
    (
        ("installer.yaml", "components.schemas.InstallEvent.properties.outcome.enum", ["succeeded", "failed", "cut"]),
        ["risky answer components.schemas.InstallEvent.properties.outcome.enum"],
    ),
    (
        ("installer.yaml", "paths./v1/installer/config.put.requestBody.x-body-limit", 1024),
        ["breaking request paths./v1/installer/config.put.requestBody.x-body-limit"],
    ),
    (
        ("installer.yaml", "components.schemas.Config.additionalProperties", True),
        [
            "risky answer components.schemas.Config.additionalProperties",
            "safe request components.schemas.Config.additionalProperties",
        ],
    ),
    (
        ("installer.yaml", "components.schemas.Problem.required", ["type", "title", "status", "code"]),
        ["breaking answer components.schemas.Problem.required"],
    ),
    (
        ("coordinator.yaml", "x-problems.admission.held.status", 423),
        ["breaking answer x-problems.admission.held.status"],
    ),
]


@pytest.fixture(scope="module")
def spec() -> Any:
    return load(str(SPEC), SPEC)


def ways(root: Any, path: str) -> Iterator[tuple[Any, str]]:
    """Yield the object that holds the value at `path` and the value's name; names may have dots in them."""
    for name in root:
        if path == name:
            yield root, name
        elif path.startswith(f"{name}."):
            yield from ways(root[name], path.removeprefix(f"{name}."))


def edited(spec: Any, file: str, path: str, value: Any) -> Compared:
    """Compare a document of the project with itself where `path` has another value."""
    document = copy.deepcopy(spec[file])
    ((holder, name),) = ways(document, path)
    holder[name] = value
    (found,) = report.compare({file: spec[file]}, {file: document})
    return found


def test_the_documents_of_the_project_do_not_differ_from_themselves(spec: Any) -> None:
    found = report.compare(spec, copy.deepcopy(spec))
    assert [each.changes for each in found] == [{}, {}, {}]
    assert list(report.lines(found)) == ["no change"]


@pytest.mark.parametrize(("edit", "told"), EDITS, ids=[" ".join(map(str, edit)) for edit, _ in EDITS])
def test_an_edit_of_a_document_of_the_project_is_told(spec: Any, edit: tuple[str, str, Any], told: list[str]) -> None:
    found = edited(spec, *edit)
    changes = [f"{each.verdict} {each.direction} {each.place.written(edit[0])}" for each in found.changes]
    assert changes[: len(told)] == told
    assert {each.verdict for each in found.changes} == {each.split()[0] for each in told}
    assert found.allowed is not any(each.startswith("breaking") for each in told)


def test_a_change_of_a_component_is_told_once_with_the_operations_that_use_it(spec: Any) -> None:
    change, names = next(iter(edited(spec, *EDITS[0][0]).changes.items()))
    assert names == {"register", "approveNodeJoin"}
    assert change.message == 'Refuses "storage", accepted before.'


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        ("1.4.2", "2.0.0", True),
        ("1.4.2", "1.5.0", False),
        ("1.4.2", "1.4.2", False),
        ("2.0.0", "1.0.0", False),
        ("0.3.0", "0.4.0", True),
        ("0.3.0", "0.3.1", False),
        ("0.3.0", "1.0.0", True),
        ("0.3.0", "0.2.0", False),
        ("1.0.0", "2.0.0-rc.1", True),
        ("2026-01", "2026-02", False),
        (None, "1.0.0", False),
    ],
)
def test_a_version_announces_what_breaks(old: str | None, new: str, allowed: bool) -> None:
    assert may_break(old, new) is allowed


def test_one_document_is_compared_with_another_whatever_their_names() -> None:
    (found,) = report.compare({"old.json": document()}, {"new.yaml": document("1.1.0")})
    assert (found.name, found.old, found.new, found.changes) == ("new.yaml", "1.0.0", "1.1.0", {})
    assert list(report.lines([found])) == ["new.yaml: 1.0.0 -> 1.1.0", "no change"]


def test_a_document_may_refer_to_pieces_beside_it() -> None:
    schema = {"$ref": "pieces.yaml#/Name"}
    content = {"content": {"application/json": {"schema": schema}}}
    operation = {"operationId": "put", "requestBody": content, "responses": {"204": {"description": ""}}}
    root = document(paths={"/things": {"put": operation}})
    sides = ({"things.yaml": root, "pieces.yaml": {"Name": {"maxLength": length}}} for length in (9, 8))
    (found,) = report.compare(*sides)
    (change,) = found.changes
    assert (change.verdict, change.place.written("things.yaml")) == ("breaking", "pieces.yaml#Name.maxLength")


def test_a_reference_that_leads_nowhere_is_never_passed_over() -> None:
    content = {"content": {"application/json": {"schema": {"$ref": "absent.yaml#/Name"}}}}
    operation = {"operationId": "put", "requestBody": content, "responses": {"204": {"description": ""}}}
    root = document(paths={"/things": {"put": operation}})
    (change,) = compared(root, copy.deepcopy(root)).changes
    assert change.verdict == "risky"

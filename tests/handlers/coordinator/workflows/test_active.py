from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from handlers.coordinator import workflows
from handlers.coordinator.execution.connection import connections
from handlers.coordinator.workflows.active import ActivePackage, input_of_event, input_of_start
from handlers.coordinator.workflows.digest import digest_of
from handlers.coordinator.workflows.package import RefusedPackageError, load
from storage.admission import NewRun
from storage.refusals import Refusal, Refused
from storage.workflows import Definition
from tests.handlers.coordinator.workflows.building import asking

DEMO = Path(workflows.__file__).parent / "demo"
REGISTRY: dict[str, Any] = {
    "baseUrl": "https://registry.example",
    "methods": ["POST"],
    "paths": ["/cases/{id}/decision"],
}
EVENT: dict[str, Any] = {
    "causation": {"hop": 0, "root": "7c0f3a52-5b1e-4d7e-9a41-2f6d8c1b9e30"},
    "data": {"caseId": "c-1", "more": [1.5]},
    "dataschema": "urn:gatehouse:demo:case-created-v1",
    "id": "7c0f3a52-5b1e-4d7e-9a41-2f6d8c1b9e30",
    "source": "urn:gatehouse:demo",
    "subject": {"recordReference": "r", "recordRevision": 1},
    "time": "2026-01-02T03:04:05Z",
    "type": "case-created-v1",
}


def active(*definitions: Any, **options: Any) -> ActivePackage:
    snapshot = rfc8785.dumps({"format": 1, "workflows": list(definitions)}).decode()
    configured = connections(options.pop("connections", {"registry": REGISTRY}))
    return ActivePackage.load(snapshot, configured, **options)


def made(event: Any, mapping: Any = "event.data", schema: Any = True) -> str | Refusal:
    definition = asking(**{"triggers__case-created__input": mapping, "input": schema})
    return input_of_event(event, active(definition).triggers["case-decision", "case-created"])


def test_the_demo_makes_its_input_of_the_case_that_was_created() -> None:
    receiver = {"baseUrl": "http://127.0.0.1:8099", "methods": ["POST"], "paths": ["/notices"]}
    package = ActivePackage.load(load(DEMO).snapshot, connections({"demo-receiver": receiver}))
    binding = package.triggers["case-follow-up", "case-created"]
    assert input_of_event(EVENT, binding) == '{"caseId":"c-1"}'
    others: list[Any] = [{}, {"caseId": 5}, {"caseId": None}, [], "c-1", None]
    for data in others:
        assert input_of_event({**EVENT, "data": data}, binding) is Refusal.INPUT_INVALID


def test_a_binding_has_all_that_a_new_run_is_made_of() -> None:
    package = active(asking(), asking(id="other", version="7"))
    assert set(package.workflows) == {"case-decision", "other"}
    assert set(package.triggers) == {("case-decision", "case-created"), ("other", "case-created")}
    binding = package.triggers["other", "case-created"].workflow
    assert binding is package.workflows["other"]
    assert binding.new_run("{}") == NewRun(
        workflow_version="7",
        definition_digest=digest_of(asking(id="other", version="7")),
        binding_digest=digest_of({"registry": REGISTRY}),
        input="{}",
        deadline_seconds=3600,
        first_step="ask",
    )
    assert package.digest == package.package.digest


def test_the_binding_digest_stands_for_the_connections_that_are_needed_alone() -> None:
    def digest(configured: dict[str, Any]) -> str:
        return active(asking(), connections=configured).workflows["case-decision"].binding_digest

    known = digest({"registry": REGISTRY})
    assert known == digest(
        {"other": {"baseUrl": "https://other.example"}, "registry": dict(reversed(REGISTRY.items()))}
    )
    assert known == digest({"registry": {**REGISTRY, "timeoutSeconds": 6}})
    assert known != digest({"registry": {**REGISTRY, "recovery": "same-command"}})


def test_a_connection_that_is_not_configured_is_a_conflict_of_the_workflows_that_need_it() -> None:
    package = active(asking(), connections={"other": REGISTRY})
    assert package.workflows["case-decision"].conflict == Refused(Refusal.BINDING_CONFLICT)
    assert active(asking()).workflows["case-decision"].conflict is None


@pytest.mark.parametrize("change", [{"methods": ["GET"]}, {"paths": ["/cases/{id}"]}, {"methods": []}])
def test_a_call_that_its_connection_does_not_permit_is_a_conflict(change: dict[str, Any]) -> None:
    package = active(asking(), connections={"registry": {**REGISTRY, **change}})
    assert package.workflows["case-decision"].conflict == Refused(Refusal.BINDING_CONFLICT)


def test_a_definition_that_is_retained_otherwise_is_refused_alone_and_before_all_else() -> None:
    redefined = [Definition("case-decision", "1", "sha256:" + "0" * 64)]
    package = active(asking(), asking(id="other"), redefined=redefined, connections={})
    assert package.workflows["case-decision"].conflict == Refused(Refusal.DEFINITION_REFUSED)
    assert package.workflows["other"].conflict == Refused(Refusal.BINDING_CONFLICT)


@pytest.mark.parametrize("member", ["source", "type", "dataschema"])
def test_an_event_of_another_source_type_or_dataschema_is_not_the_triggers(member: str) -> None:
    event = {**EVENT, member: EVENT[member] + "x"}
    assert made(event) is Refusal.EVENT_INVALID
    assert made({**event, "data": None}, "event.data.nothing") is Refusal.EVENT_INVALID


@pytest.mark.parametrize(
    ("mapping", "schema"),
    [
        ("event.data.nothing", True),
        ("1 / 0", True),
        ("event.data", {"required": ["nothing"]}),
        ("event.data.caseId", {"format": "date-time"}),
        ("event.data", False),
        ({"a": "event.data", "b": 2}, {"properties": {"b": {"type": "string"}}}),
    ],
)
def test_what_the_mapping_or_the_schema_refuses_makes_no_input(mapping: Any, schema: Any) -> None:
    assert made(EVENT, mapping, schema) is Refusal.INPUT_INVALID


def test_the_input_is_canonical_json() -> None:
    data: dict[str, Any] = {"b": 1.0, "a": [0.000001, 1e-7, "\U0001f600"], "\ufb33": 1, "\U0001f600": 2}
    text = made({**EVENT, "data": data})
    assert isinstance(text, str)
    assert text.encode() == rfc8785.dumps(data)
    assert text.startswith('{"a":[0.000001,1e-7,')


def test_an_input_has_at_most_as_many_bytes_as_an_event() -> None:
    assert isinstance(made({**EVENT, "data": "x" * 131_070}), str)
    assert made({**EVENT, "data": "x" * 131_071}) is Refusal.INPUT_INVALID
    assert made({**EVENT, "data": "x" * 70_000}, ["event.data", "event.data"]) is Refusal.INPUT_INVALID


def test_a_number_that_canonical_json_does_not_give_back_exactly_makes_no_input() -> None:
    assert made({**EVENT, "data": 2**53 - 1}) == "9007199254740991"
    for number in (2**53, 1e16, 1e300):
        assert made({**EVENT, "data": number}) is Refusal.INPUT_INVALID


def test_an_input_brought_by_hand_is_held_to_the_same_rules() -> None:
    binding = active(asking()).workflows["case-decision"]
    assert input_of_start({"n": 60.0, "caseId": "c-1"}, binding) == '{"caseId":"c-1","n":60}'
    for value in ({}, None, {"caseId": "c-1", "n": 2**53}, {"caseId": "x" * 131_072}):
        assert input_of_start(value, binding) is Refusal.INPUT_INVALID
    deep: Any = 1
    for _ in range(64):
        deep = [deep]
    assert input_of_start({"caseId": "c-1", "deep": deep}, binding) is Refusal.INPUT_INVALID


def test_a_snapshot_with_faults_is_not_loaded() -> None:
    with pytest.raises(RefusedPackageError):
        active(asking(version=1))


def test_a_package_is_read_once_and_then_only_looked_up() -> None:
    package = active(asking())
    assert ("case-decision", "other") not in package.triggers
    assert "other" not in package.workflows
    assert json.loads(package.package.snapshot)["workflows"] == [asking()]

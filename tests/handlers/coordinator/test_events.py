from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from handlers.coordinator.events import MAX_EVENT_BYTES, REFUSAL_DETAILS, REFUSALS
from handlers.coordinator.signature import sign
from tests.support.contract import documented
from tests.support.deliveries import Delivery, envelope
from tests.support.gatehouse import Gatehouse

INVALID = (400, "event.invalid")
OTHER = "00000000-0000-4000-8000-000000000002"
ROOT = "00000000-0000-4000-8000-000000000003"


def test_each_refusal_of_storage_has_a_documented_problem_and_words_for_it() -> None:
    assert REFUSALS.keys() == REFUSAL_DETAILS.keys()
    raised = {make("detail") for make in REFUSALS.values()}
    known = {(answer.status, answer.code) for answer in documented() if answer.operation == "admitEvent"}
    assert {(problem.status, problem.code) for problem in raised} <= known


def test_an_event_starts_a_run_that_can_be_looked_at(server: Gatehouse) -> None:
    answer = server.deliver()
    assert answer.status == 204
    run = server.operate("GET", f"/v1/runs/{answer.run}").json
    assert run["workflowId"] == "case-follow-up"
    assert run["state"] == "admitted"


def test_the_run_is_durable_before_the_answer_leaves(own_server: Gatehouse) -> None:
    delivery = Delivery()
    run = own_server.deliver(delivery).run
    own_server.kill()
    own_server.start()
    assert own_server.operate("GET", f"/v1/runs/{run}").status == 200
    assert own_server.deliver(delivery).run == run


def test_an_event_leaves_one_row_in_each_table_and_one_line_in_the_audit(own_server: Gatehouse) -> None:
    before = own_server.rows()
    event = envelope(data={"caseId": "a secret of the case"})
    run = own_server.deliver(Delivery(event=event)).run
    assert {table: count - before[table] for table, count in own_server.rows().items()} == dict.fromkeys(before, 1)
    line = (own_server.state / "audit.jsonl").read_text().splitlines()[-1]
    assert json.loads(line)["subject"] == run
    assert "a secret of the case" not in line + own_server.log


@pytest.mark.parametrize(
    "event",
    [
        envelope(causation={"hop": 1, "parent": OTHER, "root": OTHER}),
        envelope(causation={"hop": 8, "parent": OTHER, "root": ROOT}),
        envelope(subject={"recordReference": "", "recordRevision": 9_007_199_254_740_991}),
    ],
)
def test_an_event_at_the_bounds_of_the_document_is_taken(event: dict[str, Any], server: Gatehouse) -> None:
    assert server.deliver(Delivery(event=event)).status == 204


@pytest.mark.parametrize(
    "event",
    [
        envelope(causation={"hop": 0, "root": OTHER}),
        envelope(causation={"hop": 0, "root": OTHER, "parent": OTHER}),
        envelope(id=OTHER, causation={"hop": 0, "root": OTHER, "parent": None}),
        envelope(id=OTHER, causation={"hop": 0, "root": OTHER, "parent": ROOT}),
        envelope(causation={"hop": 1, "root": ROOT}),
        envelope(causation={"hop": 1, "root": ROOT, "parent": None}),
        envelope(id=OTHER, causation={"hop": 1, "root": ROOT, "parent": OTHER}),
        envelope(id=OTHER, causation={"hop": 1, "root": OTHER, "parent": ROOT}),
        envelope(id=OTHER.replace("8", "a"), causation={"hop": 1, "root": ROOT, "parent": OTHER.replace("8", "A")}),
        envelope(causation={"hop": 9, "root": ROOT, "parent": OTHER}),
        envelope(causation={"hop": -1, "root": ROOT, "parent": OTHER}),
        envelope(causation={"hop": True, "root": ROOT, "parent": OTHER}),
        envelope(causation={"hop": "1", "root": ROOT, "parent": OTHER}),
        envelope(causation={"hop": 1, "root": "root", "parent": OTHER}),
        envelope(causation={"hop": 1, "root": ROOT, "parent": OTHER, "more": 1}),
        envelope(causation={}),
        envelope(causation=[]),
        envelope(causation=None),
    ],
)
def test_an_event_whose_chain_cannot_be_is_refused(event: dict[str, Any], server: Gatehouse) -> None:
    assert server.deliver(Delivery(event=event)).outcome == INVALID


@pytest.mark.parametrize(
    "changes",
    [
        {"subject": {"recordReference": "case/1", "recordRevision": 0}},
        {"subject": {"recordReference": "case/1", "recordRevision": 9_007_199_254_740_992.0}},
        {"subject": {"recordReference": "case/1", "recordRevision": 1.5}},
        {"subject": {"recordReference": "case/1"}},
        {"subject": {"recordReference": None, "recordRevision": 1}},
        {"subject": {"recordReference": "case/1", "recordRevision": 1, "more": 1}},
        {"subject": None},
        {"data": None},
        {"more": 1},
    ],
)
def test_an_envelope_that_is_not_as_documented_is_refused(changes: dict[str, Any], server: Gatehouse) -> None:
    assert server.deliver(Delivery(event=envelope(**changes))).outcome == INVALID


@pytest.mark.parametrize("name", ["id", "source", "type", "time", "dataschema"])
def test_each_header_is_equal_to_its_member(name: str, server: Gatehouse) -> None:
    other = {"id": OTHER, "time": "2026-08-30T00:00:01Z"}.get(name, "urn:another")
    answer = server.deliver(Delivery(changes={f"ce-{name}": other}))
    assert answer.outcome == INVALID
    assert "header" in answer.json["detail"]


def test_an_id_in_other_letters_than_its_header_is_not_equal(server: Gatehouse) -> None:
    event = envelope(id="abcdefab-cdef-4abc-8def-000000000001")
    assert server.deliver(Delivery(event=event, changes={"ce-id": event["id"].upper()})).outcome == INVALID


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ce-id", "no uuid"),
        ("ce-id", "00000000000040008000000000000001"),
        ("ce-id", "{00000000-0000-4000-8000-000000000001}"),
        ("ce-time", "yesterday"),
        ("Idempotency-Key", "x" * 257),
    ],
)
def test_a_parameter_that_is_not_as_documented_is_refused(name: str, value: str, server: Gatehouse) -> None:
    answer = server.deliver(Delivery(changes={name: value}))
    assert answer.outcome == (400, "request.invalid")
    assert name in answer.json["detail"]
    assert value not in answer.json["detail"]


@pytest.mark.parametrize("version", [None, "1", "1.1", "0.3", "", " 1.0 1.0"])
def test_the_version_of_cloudevents_is_the_one_that_is_documented(version: str | None, server: Gatehouse) -> None:
    assert server.deliver(unsigned={"ce-specversion": version}).outcome == (400, "request.invalid")


def test_a_key_of_256_characters_is_taken(server: Gatehouse) -> None:
    assert server.deliver(Delivery(changes={"Idempotency-Key": uuid4().hex * 8})).status == 204


def test_an_event_may_have_131072_bytes_and_not_one_more(server: Gatehouse) -> None:
    def of_size(size: int) -> Delivery:
        event = envelope(data={"caseId": "C-1", "filler": ""})
        missing = size - len(Delivery(event=event).body)
        return Delivery(event=event | {"data": {"caseId": "C-1", "filler": "x" * missing}})

    assert len(of_size(MAX_EVENT_BYTES).body) == 131_072
    assert server.deliver(of_size(MAX_EVENT_BYTES)).status == 204
    assert server.deliver(of_size(MAX_EVENT_BYTES + 1)).outcome == (413, "event.too-large")


def test_the_input_is_what_the_mapping_makes_of_the_event(server: Gatehouse) -> None:
    unfit: list[Any] = [{}, {"caseId": 1}, {"caseId": None}, {"caseid": "C-1"}, [], "C-1", 1, False]
    for data in unfit:
        assert server.deliver(Delivery(event=envelope(data=data))).outcome == (400, "input.invalid")
    more = {"caseId": "C-1", "more": {"anything": [1, None]}}
    assert server.deliver(Delivery(event=envelope(data=more))).status == 204


def test_an_unknown_trigger_has_no_key_and_a_known_one_without_a_package_is_refused(server: Gatehouse) -> None:
    unknown = Delivery(path="/v1/events/case-follow-up/nothing")
    assert server.deliver(unknown).outcome == (401, "event.unauthenticated")
    unserved = replace(unknown, path="/v1/events/case-follow-up/unserved")
    assert server.deliver(unserved).outcome == (409, "deployment.refused")


def test_a_key_that_cannot_be_read_is_503_until_it_can(own_server: Gatehouse) -> None:
    file = own_server.state / "sources/demo.key"
    key = file.read_bytes()
    file.unlink()
    file.mkdir()
    refused = own_server.deliver(key=key)
    assert refused.outcome == (503, "event.source-unavailable")
    assert refused.header("Retry-After") == "5"
    file.rmdir()
    file.write_bytes(key)
    assert own_server.deliver(key=key).status == 204


def test_a_key_is_rotated_while_the_server_runs(own_server: Gatehouse) -> None:
    old, new = own_server.key, b"the next key of the demo source, 32+"
    (own_server.state / "sources/next.key").write_bytes(new)
    assert own_server.deliver(key=new).status == 401
    entry = {"workflow": "case-follow-up", "trigger": "case-created"}
    own_server.configure(events=[entry | {"keyFiles": ["sources/next.key", "sources/demo.key"]}])
    assert own_server.deliver(key=new).status == 204
    assert own_server.deliver(key=old).status == 204
    own_server.configure(events=[entry | {"keyFiles": ["sources/next.key"]}])
    assert own_server.deliver(key=new).status == 204
    assert own_server.deliver(key=old).status == 401


def test_the_trace_of_the_sender_is_kept(server: Gatehouse) -> None:
    trace = uuid4().hex
    answer = server.deliver(unsigned={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
    assert answer.header("X-Request-Id") == trace


def test_neither_body_nor_key_nor_signature_is_logged(server: Gatehouse) -> None:
    delivery = Delivery(event=envelope(data={"caseId": "never to be logged"}), changes={"Idempotency-Key": "nor this"})
    headers = delivery.headers(server.key)
    assert server.send("POST", delivery.path, headers, delivery.body).status == 204
    assert server.deliver(delivery, key=bytes(32)).status == 401
    signature = sign(server.key, headers, method="POST", target=delivery.path, body=delivery.body)
    for secret in ("never to be logged", "nor this", signature, server.key.hex()):
        assert secret not in server.log

from __future__ import annotations

from handlers.coordinator import events, runs
from handlers.coordinator.conflicts import CONFLICT_DETAILS
from storage.refusals import Refusal
from tests.support.contract import places, resolved
from tests.support.deliveries import Delivery
from tests.support.gatehouse import Gatehouse, NewServer
from tests.support.packages import connection, workflow


def codes(operation: str, status: str) -> set[str]:
    found = resolved(places()[operation].content["responses"][status])
    return set(found["content"]["application/problem+json"]["schema"]["allOf"][1]["properties"]["code"]["enum"])


def test_a_conflict_is_the_same_problem_for_an_event_and_for_a_start_by_hand() -> None:
    for refusal, detail in CONFLICT_DETAILS.items():
        by_event, by_hand = events.REFUSALS[refusal](detail), runs.REFUSALS[refusal](detail)
        assert type(by_event) is type(by_hand)
        assert events.REFUSAL_DETAILS[refusal] == runs.REFUSAL_DETAILS[refusal] == detail


def test_the_conflicts_are_those_that_the_document_has_beside_a_key_that_is_in_use() -> None:
    known = {events.REFUSALS[refusal](detail).code for refusal, detail in CONFLICT_DETAILS.items()}
    assert known | {"idempotency.key-reused"} == codes("admitEvent", "409") == codes("startRun", "409")
    assert Refusal.KEY_REUSED not in CONFLICT_DETAILS


def test_a_redefinition_refuses_its_own_workflow_alone(new_server: NewServer) -> None:
    server = new_server()
    server.apply(workflow(deadline_seconds=60), workflow("another"), force=True)
    server.start()
    assert server.deliver().outcome == (409, "definition.refused")
    assert server.begin({"flow": "another", "input": {"caseId": "C-1"}}, "a key").status == 201


def test_a_redefinition_passes_under_another_version(new_server: NewServer) -> None:
    server = new_server()
    server.apply(workflow(deadline_seconds=60), force=True)
    server.start()
    assert server.deliver().outcome == (409, "definition.refused")
    server.apply(workflow(version="2", deadline_seconds=60))
    assert server.deliver().outcome == (409, "deployment.activation-changed")
    assert server.deliver().status == 204


def test_a_live_run_with_another_binding_stands_in_the_way_until_it_has_ended(new_server: NewServer) -> None:
    server = new_server()
    server.configure(connections={"crm": connection("https://crm.example")})
    server.apply(workflow(version="2", connection="crm"), workflow("another"))
    server.start()
    event = Delivery()
    run = server.deliver(event).run
    server.configure(connections={"crm": connection("https://other.example")})
    server.restart()
    assert server.deliver().outcome == (409, "binding.live-conflict")
    assert server.deliver(event).run == run
    assert server.begin({"flow": "another", "input": {"caseId": "C-1"}}, "a key").status == 201
    assert server.operate("POST", f"/v1/runs/{run}/cancel", {"reason": "A test wants it."}).status == 200
    assert server.deliver().status == 204


def test_the_first_package_of_all_is_met_by_the_second_delivery(new_server: NewServer) -> None:
    server = new_server()
    for file in ("gatehouse.db", "audit.jsonl"):
        (server.state / file).unlink()
    server.start()
    delivery = Delivery()
    assert server.deliver(delivery).outcome == (409, "deployment.refused")
    server.apply(workflow())
    assert server.deliver(delivery).outcome == (409, "deployment.activation-changed")
    assert server.deliver(delivery).status == 204


def test_a_conflict_leaves_nothing_and_the_event_is_admitted_once_it_is_gone(own_server: Gatehouse) -> None:
    delivery = Delivery()
    assert own_server.hold().status == 200
    before = own_server.rows()
    assert own_server.deliver(delivery).outcome == (409, "admission.held")
    assert own_server.rows() == before
    assert own_server.release_admission().status == 200
    assert own_server.release_execution().status == 200
    assert own_server.deliver(delivery).status == 204

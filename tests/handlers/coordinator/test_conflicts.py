from __future__ import annotations

from handlers.coordinator import events, runs
from handlers.coordinator.conflicts import CONFLICT_DETAILS
from storage.refusals import Refusal
from tests.support.contract import DOCUMENT, places


def codes(operation: str, status: str) -> set[str]:
    response = places()[operation].content["responses"][status]
    found = DOCUMENT["components"]["responses"][response["$ref"].rpartition("/")[2]] if "$ref" in response else response
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

from __future__ import annotations

import pytest

from handlers.coordinator.execution.doubt import in_doubt, leaves_doubt
from storage.execution.records import AttemptResult, Recovery
from tests.handlers.coordinator.execution.positions import RECOVERIES, attempts, command_of, flow, reading, registry


@pytest.mark.parametrize("recovery", RECOVERIES)
@pytest.mark.parametrize("result", ["unanswered", "interrupted", "failed-there", "too-large", "unreadable"])
def test_a_mutation_that_may_have_been_taken_leaves_doubt(recovery: Recovery, result: AttemptResult) -> None:
    assert leaves_doubt(command_of(flow(), registry(recovery)), result)
    assert not leaves_doubt(command_of(reading(), registry(recovery)), result)


@pytest.mark.parametrize(
    ("recovery", "doubt"),
    [("same-command", False), ("same-command-and-receipt", False), ("hold-after-dispatch", True)],
)
def test_an_answer_that_asks_to_come_again_is_no_proof_where_no_key_protects(recovery: Recovery, doubt: bool) -> None:
    assert leaves_doubt(command_of(flow(), registry(recovery)), "retryable") is doubt


def test_what_was_not_sent_leaves_no_doubt() -> None:
    for recovery in RECOVERIES:
        assert not leaves_doubt(command_of(flow(), registry(recovery)), "not-connected")


@pytest.mark.parametrize(
    ("results", "doubt"),
    [
        ([], False),
        (["not-connected", "retryable"], False),
        (["unanswered"], True),
        (["unanswered", "retryable", "not-connected"], True),
        (["unanswered", "receipt-unavailable"], True),
        (["unanswered", "receipt-missing"], False),
        (["unanswered", "receipt-missing", "not-connected"], False),
        (["unanswered", "receipt-missing", "interrupted"], True),
        (["unanswered", "receipt-expired"], True),
    ],
)
def test_doubt_lasts_until_a_receipt_is_missing(results: list[AttemptResult], doubt: bool) -> None:
    assert in_doubt(command_of(flow(), registry("same-command-and-receipt")), attempts(results)) is doubt


def test_without_a_command_there_is_no_doubt() -> None:
    assert not in_doubt(None, ())

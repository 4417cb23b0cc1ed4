from __future__ import annotations

import pytest

from storage.execution.doubt import in_doubt, leaves_doubt
from storage.execution.records import Attempt, AttemptKind, AttemptResult, Recovery
from tests.storage.execution.work import command

RECOVERIES: tuple[Recovery, ...] = ("same-command", "same-command-and-receipt", "hold-after-dispatch")


@pytest.mark.parametrize("recovery", RECOVERIES)
def test_a_mutation_that_may_have_been_taken_leaves_doubt_and_a_read_never_does(recovery: Recovery) -> None:
    results: tuple[AttemptResult | None, ...] = (
        None,
        "unanswered",
        "interrupted",
        "failed-there",
        "too-large",
        "unreadable",
    )
    for result in results:
        assert leaves_doubt(command(recovery=recovery), result)
        assert not leaves_doubt(command(recovery="read-again", method="GET"), result)


def test_an_answer_that_asks_to_come_again_is_no_proof_where_no_key_protects() -> None:
    doubts = {recovery: leaves_doubt(command(recovery=recovery), "retryable") for recovery in RECOVERIES}
    assert doubts == {"same-command": False, "same-command-and-receipt": False, "hold-after-dispatch": True}


def test_what_was_not_sent_leaves_no_doubt() -> None:
    assert not any(leaves_doubt(command(recovery=recovery), "not-connected") for recovery in RECOVERIES)
    assert not in_doubt(None, ())


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
    def attempt(number: int, result: AttemptResult) -> Attempt:
        kind: AttemptKind = "receipt" if result.startswith("receipt") else "send"
        return Attempt(number=number, kind=kind, started_at=1, ended_at=2, result=result, http_status=None)

    attempts = [attempt(number, result) for number, result in enumerate(results, 1)]
    assert in_doubt(command(recovery="same-command-and-receipt"), attempts) is doubt

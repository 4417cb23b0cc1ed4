from __future__ import annotations

import random
from typing import get_args

import pytest

from storage.execution.doubt import forgettable, in_doubt, leaves_doubt
from storage.execution.records import MOST_ATTEMPTS, Attempt, AttemptKind, AttemptResult, Recovery
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
    attempts = [attempt(number, result) for number, result in enumerate(results, 1)]
    assert in_doubt(command(recovery="same-command-and-receipt"), attempts) is doubt


@pytest.mark.parametrize("seed", range(20))
def test_what_is_forgotten_of_the_attempts_changes_no_doubt(seed: int) -> None:
    chance = random.Random(seed)
    # Of some of these there are long rows of one alone, longer than what is kept.
    results = chance.choices(get_args(AttemptResult), k=4)
    what = command(recovery=chance.choice(RECOVERIES))
    whole: list[Attempt] = []
    kept: list[Attempt] = []
    for number in range(1, 4 * MOST_ATTEMPTS):
        result = chance.choice(results) if chance.random() < 0.02 else results[number // (MOST_ATTEMPTS + 20)]
        gone = forgettable(what, kept)
        kept = [each for each in kept if each not in gone]
        whole.append(attempt(number, result))
        kept.append(whole[-1])
        assert in_doubt(what, kept) is in_doubt(what, whole)
        assert kept[-MOST_ATTEMPTS:] == whole[-MOST_ATTEMPTS:]
        assert len(kept) <= MOST_ATTEMPTS + 2


def attempt(number: int, result: AttemptResult) -> Attempt:
    kind: AttemptKind = "receipt" if result.startswith("receipt") else "send"
    return Attempt(number=number, kind=kind, started_at=1, ended_at=2, result=result, http_status=None)

"""What is not known of a command: whether the receiver has it, as the attempts tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from storage.execution.records import MOST_ATTEMPTS, Attempt, AttemptResult, Command

_UNKNOWN: Final[frozenset[AttemptResult | None]] = frozenset(
    {None, "failed-there", "interrupted", "too-large", "unanswered", "unreadable"}
)


def leaves_doubt(command: Command, result: AttemptResult | None) -> bool:
    """Whether a sending that ended so (None: it did not end) may have had the command's effect.

    A read has none. Of hold-after-dispatch, nothing that reached the receiver is sure to be without.
    """
    if command.method == "GET":
        return False
    return result in _UNKNOWN or (result == "retryable" and command.recovery == "hold-after-dispatch")


def in_doubt(command: Command | None, attempts: Iterable[Attempt]) -> bool:
    """Whether the effect of a command is unknown: a sending left doubt, and no receipt was missing since."""
    if command is None:
        return False
    doubt = False
    for attempt in attempts:
        if attempt.kind == "send":
            doubt = doubt or leaves_doubt(command, attempt.result)
        elif attempt.result == "receipt-missing":
            doubt = False
    return doubt


def forgettable(command: Command | None, attempts: Sequence[Attempt]) -> list[Attempt]:
    """The attempts that need not be kept any more: all but the newest, and the last sending that explains a doubt."""
    old = attempts[:-MOST_ATTEMPTS]
    if command is None or not in_doubt(command, attempts):
        return list(old)
    explaining = [each for each in old if each.kind == "send" and leaves_doubt(command, each.result)][-1:]
    return [each for each in old if each not in explaining]

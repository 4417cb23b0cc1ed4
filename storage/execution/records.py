"""What is known of a run that is carried out, and the moves by which it goes on: plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

Recovery: TypeAlias = Literal["read-again", "same-command", "same-command-and-receipt", "hold-after-dispatch"]
StepType: TypeAlias = Literal["wait-until", "call", "choose", "finish"]
AttemptKind: TypeAlias = Literal["send", "receipt"]
AttemptResult: TypeAlias = Literal[
    "completed",
    "refused",
    "redirected",
    "retryable",
    "not-connected",
    "unanswered",
    "failed-there",
    "too-large",
    "unreadable",
    "receipt-found",
    "receipt-missing",
    "receipt-expired",
    "receipt-unavailable",
    "interrupted",
]
FailureCode: TypeAlias = Literal[
    "deadline.passed",
    "call.refused",
    "call.redirected",
    "response.too-large",
    "response.invalid",
    "mapping.failed",
    "request.invalid",
    "wait.invalid",
    "output.invalid",
]

# An executor that has died so often in a row in one step has been brought down by it: `tries` beyond this is a doubt.
MOST_TRIES: Final = 5

# So many attempts at a step are kept, the newest: a call may be tried again each minute, for years.
MOST_ATTEMPTS: Final = 100


class Claim(NamedTuple):
    """A run in an executor's hands; `seq` is never given twice, so that a claim which was lost is known by it."""

    run_id: str
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What is sent, byte for byte the same each time; the bearer token alone is added at each sending."""

    key: str
    connection: str
    recovery: Recovery
    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes | None


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a completed call or wait left; `body` is canonical JSON text, a wait has neither status nor body.

    `ended_at` is epoch milliseconds.
    """

    status: int | None
    body: str | None
    ended_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try of a step; times are epoch milliseconds, `result` is None while it is under way."""

    number: int
    kind: AttemptKind
    started_at: int
    ended_at: int | None
    result: AttemptResult | None
    http_status: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """What came of an attempt."""

    result: AttemptResult
    http_status: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a run is: all that its next move is decided by. Times are epoch milliseconds, `input` is JSON text.

    `results` are those of completed calls and waits, by step; `command` and `attempts` are the present step's, and
    every attempt has ended: one in which an executor died is `interrupted`. `repeat_accepted`: a person wants the step
    tried again, whatever is not known of it and however late it is. `tries` counts how often the step was taken up
    since something came of it, this time included.
    """

    run_id: str
    workflow_id: str
    definition_digest: str
    binding_digest: str
    input: str
    admitted_at: int
    deadline_at: int
    step: str
    cancel_requested: bool
    restore_review_required: bool
    repeat_accepted: bool
    tries: int
    results: Mapping[str, StepResult]
    command: Command | None
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True)
class Advance:
    """The step is completed, `next` follows; a choice has no result."""

    next: str
    result: StepResult | None


@dataclass(frozen=True, slots=True)
class Wait:
    """The step goes on at `due_at`; `blocked`: what this process is made of keeps it from going on before."""

    due_at: int
    blocked: bool = False


@dataclass(frozen=True, slots=True)
class Doubt:
    """What the step has done is not known; recovery tries at `due_at`, None waits for a person."""

    due_at: int | None


@dataclass(frozen=True, slots=True)
class End:
    """The run is over: completed with an outcome and its output (JSON text), or failed with a code.

    `result` is the last step's where that was completed all the same.
    """

    state: Literal["completed", "failed"]
    outcome: str | None
    output: str | None
    failure_code: FailureCode | None
    result: StepResult | None = None


Move: TypeAlias = Advance | Wait | Doubt | End

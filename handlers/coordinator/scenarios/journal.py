"""A journal of one run in memory, for a virtual clock: what storage/execution/journal.py is to many, durably."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from storage.admission import NewRun
from storage.execution.doubt import in_doubt
from storage.execution.records import (
    MOST_TRIES,
    Advance,
    Attempt,
    AttemptEnd,
    AttemptKind,
    Claim,
    Command,
    Doubt,
    End,
    FailureCode,
    Move,
    Position,
    StepResult,
    StepType,
    Wait,
)
from storage.refusals import Refusal
from storage.runs import RunState

_ENDED: Final = frozenset({"completed", "failed", "cancelled"})


@dataclass(slots=True)
class RunRecord:
    """The run as it stands; `path` are the steps that it has reached, times are epoch milliseconds."""

    step: str
    due_at: int | None
    state: RunState = "admitted"
    path: list[str] = field(default_factory=list)
    uncertain: bool = False
    cancel_requested: bool = False
    repeat_accepted: bool = False
    tries: int = 0
    results: dict[str, StepResult] = field(default_factory=dict)
    command: Command | None = None
    attempts: tuple[Attempt, ...] = ()
    step_type: StepType | None = None
    outcome: str | None = None
    output: str | None = None
    failure_code: FailureCode | None = None
    ended_at: int | None = None


class MemoryJournal:
    """The journal of one run, admitted at `clock()`; a JournalPort that is never on hold and loses nothing."""

    def __init__(self, run_id: str, workflow_id: str, admitted: NewRun, clock: Callable[[], int]) -> None:
        self._run_id = run_id
        self._workflow_id = workflow_id
        self._admitted = admitted
        self._admitted_at = clock()
        self._deadline_at = self._admitted_at + admitted.deadline_seconds * 1000
        self._clock = clock
        self._seq = 0
        self._claimed = False
        self.run = RunRecord(step=admitted.first_step, due_at=self._admitted_at)

    def claim(self) -> Claim:
        """Take the run into hand, as an executor does that finds it due."""
        self._seq += 1
        self._claimed = True
        self.run.state = "running"
        self.run.due_at = None
        return Claim(self._run_id, self._seq)

    def cancel(self) -> None:
        """Cancel the run: at once where nobody has it in hand, else by what that comes to next."""
        if self.run.state not in _ENDED:
            self.run.cancel_requested = True
            if not self._claimed:
                self._cancel()

    def retry_same(self, *, accept_repeat: bool) -> Refusal | None:
        """Let an uncertain run, or one that waits at a call, be due at once; or say why not."""
        run = self.run
        waits_at_call = run.state == "waiting" and run.step_type == "call"
        if not (run.state == "uncertain" or waits_at_call):
            return Refusal.RETRY_REFUSED
        if not accept_repeat and run.tries > MOST_TRIES:
            return Refusal.EVALUATION_UNCERTAIN
        held = run.command is not None and run.command.recovery == "hold-after-dispatch"
        if not accept_repeat and held and self._in_doubt():
            return Refusal.MUTATION_UNCERTAIN
        self._wait(self._clock())
        run.repeat_accepted = True
        return None

    async def take_up(self, claim: Claim) -> Position | None:
        """Begin the present step, or go on with it; None where the claim does not stand, or ends by this."""
        if not self._stands(claim):
            return None
        run = self.run
        self._end_attempt(AttemptEnd(result="interrupted", http_status=None))
        if run.cancel_requested:
            self._cancel()
            return None
        run.tries += 1
        if run.step not in run.path:
            run.path.append(run.step)
        return Position(
            run_id=self._run_id,
            workflow_id=self._workflow_id,
            definition_digest=self._admitted.definition_digest,
            binding_digest=self._admitted.binding_digest,
            input=self._admitted.input,
            admitted_at=self._admitted_at,
            deadline_at=self._deadline_at,
            step=run.step,
            cancel_requested=run.cancel_requested,
            restore_review_required=False,
            repeat_accepted=run.repeat_accepted,
            tries=run.tries,
            results=dict(run.results),
            command=run.command,
            attempts=run.attempts,
        )

    async def dispatch(
        self, claim: Claim, *, step_type: StepType, kind: AttemptKind, command: Command | None
    ) -> int | None:
        """Keep the command, begin an attempt and return its number; None where nothing may be sent."""
        if not self._stands(claim):
            return None
        run = self.run
        if run.cancel_requested:
            self._cancel()
            return None
        run.step_type = step_type
        run.command = run.command or command
        run.tries = 0
        number = len(run.attempts) + 1
        attempt = Attempt(
            number=number, kind=kind, started_at=self._clock(), ended_at=None, result=None, http_status=None
        )
        run.attempts = (*run.attempts, attempt)
        return number

    async def settle(
        self, claim: Claim, *, step_type: StepType | None, move: Move, attempt: AttemptEnd | None = None
    ) -> bool:
        """End the attempt under way and make the move; True where the run goes on under this claim."""
        if not self._stands(claim):
            return False
        if attempt is not None and not self._end_attempt(attempt):
            return False
        self.run.step_type = step_type or self.run.step_type
        return self._make(move)

    def _stands(self, claim: Claim) -> bool:
        return self._claimed and claim == (self._run_id, self._seq)

    def _in_doubt(self) -> bool:
        return in_doubt(self.run.command, self.run.attempts)

    def _end_attempt(self, end: AttemptEnd) -> bool:
        """End the attempt under way, and tell if one is; what a person accepted is used up unless nothing was sent."""
        attempts = self.run.attempts
        if not attempts or attempts[-1].ended_at is not None:
            return False
        ended = replace(attempts[-1], ended_at=self._clock(), result=end.result, http_status=end.http_status)
        self.run.attempts = (*attempts[:-1], ended)
        self.run.repeat_accepted = self.run.repeat_accepted and end.result == "not-connected"
        return True

    def _make(self, move: Move) -> bool:
        match move:
            case Advance():
                self._complete(move.result)
                if not self.run.cancel_requested:
                    self._begin(move.next)
                    return True
                self._end("cancelled", uncertain=False)
            case End(state="completed"):
                self._finish(move)
            case _ if self.run.cancel_requested:
                self._cancel()
            case End():
                self._finish(move)
            case Wait():
                self._wait(move.due_at)
            case Doubt():
                self._doubt(move)
        return False

    def _begin(self, step: str) -> None:
        run = self.run
        run.step, run.step_type, run.command, run.attempts = step, None, None, ()
        run.tries, run.repeat_accepted, run.uncertain = 0, False, False

    def _complete(self, result: StepResult | None) -> None:
        if result is not None:
            self.run.results[self.run.step] = result

    def _finish(self, end: End) -> None:
        self._complete(end.result)
        self.run.outcome, self.run.output, self.run.failure_code = end.outcome, end.output, end.failure_code
        self._end(end.state, uncertain=False)

    def _wait(self, due_at: int) -> None:
        """Wait at the present step, or stay uncertain there."""
        self.run.tries = 0
        self._let_go(due_at, uncertain=self._in_doubt())

    def _doubt(self, move: Doubt) -> None:
        # A doubt for a person keeps the tries, by which a retry finds out what the doubt is about.
        if move.due_at is not None:
            self.run.tries = 0
        self._let_go(move.due_at, uncertain=True)

    def _let_go(self, due_at: int | None, *, uncertain: bool) -> None:
        """Let go of the run until it is due, which is at its deadline at the latest."""
        self.run.state = "uncertain" if uncertain else "waiting"
        self.run.uncertain = uncertain
        self.run.due_at = None if due_at is None else min(due_at, self._deadline_at)
        self._claimed = False

    def _cancel(self) -> None:
        """End the run as cancelled; it stays uncertain where the present step may have had an effect."""
        self._end("cancelled", uncertain=self._in_doubt())

    def _end(self, state: RunState, *, uncertain: bool) -> None:
        self.run.state, self.run.uncertain = state, uncertain
        self.run.due_at, self.run.ended_at = None, self._clock()
        self._claimed = False

"""How a run comes along within a write transaction: every way that leads from one state to another is here."""

from __future__ import annotations

import hashlib
from typing import Any, Final, Literal
from uuid import UUID

import sqlalchemy as sa

from storage.execution.doubt import forgettable, in_doubt
from storage.execution.records import (
    MOST_ATTEMPTS,
    Advance,
    Attempt,
    AttemptEnd,
    AttemptKind,
    Claim,
    Command,
    Doubt,
    End,
    Move,
    Position,
    StepResult,
    StepType,
    Wait,
)
from storage.execution.rows import (
    ATTEMPTS,
    CLAIMS,
    COMMANDS,
    RUNS,
    STEPS,
    attempts_at,
    command_of,
    command_values,
    results_of,
)
from storage.transaction import Transaction

# What every entry of the journal asks and writes is built once.
_RUN: Final[sa.Select[Any]] = (
    sa.select(
        *(RUNS.c[name] for name in ("run_id", "workflow_id", "definition_digest", "binding_digest", "step", "state")),
        *(RUNS.c[name] for name in ("admitted_at", "deadline_at", "ended_at", "uncertain", "cancel_requested")),
        *(RUNS.c[name] for name in ("restore_review_required", "blocked", "input")),
        STEPS.c.state.label("step_state"),
        STEPS.c.type.label("step_type"),
        sa.func.coalesce(STEPS.c.tries, 0).label("tries"),
        sa.func.coalesce(STEPS.c.repeat_accepted, sa.false()).label("repeat_accepted"),
        CLAIMS.c.seq,
    )
    .select_from(
        RUNS.outerjoin(STEPS, sa.and_(STEPS.c.run_id == RUNS.c.run_id, STEPS.c.step == RUNS.c.step)).outerjoin(
            CLAIMS, CLAIMS.c.run_id == RUNS.c.run_id
        )
    )
    .where(RUNS.c.run_id == sa.bindparam("of_run"))
)
_PLACE: Final = (
    sa.select(sa.func.count() + 1).select_from(STEPS).where(STEPS.c.run_id == sa.bindparam("of_run")).scalar_subquery()
)
_SET_RUN: Final = RUNS.update().where(RUNS.c.run_id == sa.bindparam("of_run"))
_SET_STEP: Final = STEPS.update().where(
    STEPS.c.run_id == sa.bindparam("of_run"), STEPS.c.step == sa.bindparam("of_step")
)
_END_ATTEMPT: Final = ATTEMPTS.update().where(
    ATTEMPTS.c.run_id == sa.bindparam("of_run"),
    ATTEMPTS.c.step == sa.bindparam("of_step"),
    ATTEMPTS.c.ended_at.is_(None),
)
_FORGET_ATTEMPT: Final = ATTEMPTS.delete().where(
    ATTEMPTS.c.run_id == sa.bindparam("of_run"),
    ATTEMPTS.c.step == sa.bindparam("of_step"),
    ATTEMPTS.c.number == sa.bindparam("of_number"),
)
_DROP_CLAIM: Final = CLAIMS.delete().where(CLAIMS.c.run_id == sa.bindparam("of_run"))
_BEGIN_STEP: Final = STEPS.insert().values(place=_PLACE)


def standing(connection: sa.Connection, run_id: UUID) -> sa.Row[Any] | None:
    """A run with its present step and the number of its claim, None where there is no such run."""
    return connection.execute(_RUN, {"of_run": run_id}).first()


def standing_run(connection: sa.Connection, run_id: UUID) -> sa.Row[Any]:
    """A run that is there, as for standing."""
    return connection.execute(_RUN, {"of_run": run_id}).one()


def position(connection: sa.Connection, run: sa.Row[Any]) -> Position:
    """Where a run stands."""
    return Position(
        run_id=str(run.run_id),
        workflow_id=run.workflow_id,
        definition_digest=run.definition_digest,
        binding_digest=run.binding_digest,
        input=run.input,
        admitted_at=run.admitted_at,
        deadline_at=run.deadline_at,
        step=run.step,
        cancel_requested=run.cancel_requested,
        restore_review_required=run.restore_review_required,
        repeat_accepted=bool(run.repeat_accepted),
        tries=run.tries,
        results=results_of(connection, run.run_id),
        command=command_of(connection, run.run_id, run.step),
        attempts=attempts_at(connection, run.run_id, run.step),
    )


class Progress:
    """One run as a write transaction changes it; `step_type` is told by who can read the definition."""

    def __init__(self, transaction: Transaction, run: sa.Row[Any], step_type: StepType | None = None) -> None:
        self.run = run
        self._transaction = transaction
        self._connection = transaction.connection
        self._step_type = step_type or run.step_type

    @classmethod
    def of(cls, transaction: Transaction, run_id: UUID) -> Progress | None:
        """The run of this id, whoever has it in hand."""
        run = standing(transaction.connection, run_id)
        return None if run is None else cls(transaction, run)

    @classmethod
    def one(cls, transaction: Transaction, run_id: UUID) -> Progress:
        """A run that is there."""
        return cls(transaction, standing_run(transaction.connection, run_id))

    @classmethod
    def held(cls, transaction: Transaction, claim: Claim, step_type: StepType | None = None) -> Progress | None:
        """The run of a claim, None where the claim does not stand."""
        run = standing(transaction.connection, UUID(claim.run_id))
        return cls(transaction, run, step_type) if run is not None and run.seq == claim.seq else None

    def in_doubt(self) -> bool:
        """Whether the effect of the present step is unknown."""
        command = command_of(self._connection, self.run.run_id, self.run.step)
        return command is not None and in_doubt(command, self.attempts())

    def attempts(self) -> tuple[Attempt, ...]:
        """The attempts of the present step."""
        return attempts_at(self._connection, self.run.run_id, self.run.step)

    def interrupt(self) -> None:
        """End the attempt in which an executor died, where there is one."""
        if self.run.step_state is not None:
            self.end_attempt(AttemptEnd(result="interrupted", http_status=None))

    def take_up(self) -> Position:
        """Begin the present step or go on with it; the position counts this try."""
        if self.run.step_state is None:
            self._begin_step()
        else:
            self._set_step(state="running", tries=self.run.tries + 1)
        return position(self._connection, standing_run(self._connection, self.run.run_id))

    def prepare(self, command: Command) -> None:
        """Store what the step sends, where nothing was stored before."""
        run_id, step = self.run.run_id, self.run.step
        if command_of(self._connection, run_id, step) is not None:
            return
        self._connection.execute(COMMANDS.insert().values(run_id=run_id, step=step, **command_values(command)))
        digest = None if command.body is None else f"sha256:{hashlib.sha256(command.body).hexdigest()}"
        told: dict[str, object] = {
            "body": digest,
            "connection": command.connection,
            "key": command.key,
            "method": command.method,
        }
        self._transaction.record("call.prepared", str(run_id), told)

    def begin_attempt(self, kind: AttemptKind) -> int:
        """Begin an attempt and return its number: something came of taking the step up."""
        number = self._insert_attempt(kind=kind, started_at=self._transaction.now)
        self._set_step(tries=0)
        return number

    def end_attempt(self, end: AttemptEnd) -> bool:
        """End the attempt under way, and tell if one is; what a person accepted is used up unless nothing was sent."""
        values = {"ended_at": self._transaction.now, "result": end.result, "http_status": end.http_status}
        ended = self._connection.execute(_END_ATTEMPT, self._present | values).rowcount > 0
        if ended and self.run.repeat_accepted and end.result != "not-connected":
            self._set_step(repeat_accepted=False)
        return ended

    def add_attempt(self, kind: AttemptKind, started_at: int, end: AttemptEnd) -> None:
        """Add an attempt that was made by no executor."""
        self._insert_attempt(
            kind=kind,
            started_at=started_at,
            ended_at=self._transaction.now,
            result=end.result,
            http_status=end.http_status,
        )

    def move(self, move: Move) -> bool:
        """Make a move; True where the run goes on under its claim."""
        match move:
            case End(state="completed"):
                self._end(move)
            case _ if self.run.cancel_requested:
                self._cancel_by(move)
            case Advance():
                return self._advance(move)
            case Wait():
                self._wait(move.due_at, blocked=move.blocked)
            case Doubt():
                self._doubt(move)
            case End():
                self._end(move)
        return False

    def release(self) -> None:
        """Let go of a run that may not go on now, to be taken up again at once when it may."""
        if self.run.cancel_requested:
            self.cancel({})
        else:
            self._wait(self._transaction.now, blocked=self.run.blocked)

    def retry(self, *, repeat_accepted: bool) -> None:
        """Let a run that nobody has in hand be due at once; who accepts a repeat has reviewed what a restore lost."""
        self._wait(self._transaction.now, blocked=False)
        self._set_step(repeat_accepted=True)
        if repeat_accepted:
            self._set_run(restore_review_required=False)

    def cancel(self, told: dict[str, object]) -> None:
        """End the run as cancelled; it stays uncertain where the present step may have had an effect."""
        uncertain = self.in_doubt()
        self._set_step(state="cancelled", ended_at=self._transaction.now)
        self._set_ended("cancelled", told, uncertain=uncertain)

    def _cancel_by(self, move: Move) -> None:
        """End the run as cancelled after what the move tells of the step is recorded."""
        if isinstance(move, Advance):
            self._complete_step(move.result)
            self._set_ended("cancelled", {}, uncertain=False)
        else:
            self.cancel({})

    def _advance(self, move: Advance) -> bool:
        self._complete_step(move.result)
        goes_on = self.run.seq is not None and not self._transaction.switches.execution_held
        if goes_on:
            self._set_run(step=move.next, uncertain=False)
        else:
            self._let_go("waiting", self._transaction.now, step=move.next, uncertain=False, blocked=False)
        return goes_on

    def _wait(self, due_at: int, *, blocked: bool) -> None:
        """Wait at the present step, or stay uncertain there."""
        uncertain = self.in_doubt()
        state: Literal["uncertain", "waiting"] = "uncertain" if uncertain else "waiting"
        self._set_step(state=state, tries=0)
        self._let_go(state, due_at, uncertain=uncertain, blocked=blocked)

    def _doubt(self, move: Doubt) -> None:
        if not self.run.uncertain:
            self._transaction.record("run.uncertain", str(self.run.run_id), {"step": self.run.step})
        # A doubt for a person keeps the tries, by which a retry finds out what the doubt is about.
        self._set_step(state="uncertain", tries=self.run.tries if move.due_at is None else 0)
        self._let_go("uncertain", move.due_at, uncertain=True, blocked=False)

    def _end(self, move: End) -> None:
        if move.state == "completed" or move.result is not None:
            self._complete_step(move.result)
        else:
            self._set_step(state="failed", ended_at=self._transaction.now, tries=0)
        told: dict[str, object] = (
            {"outcome": move.outcome} if move.state == "completed" else {"failureCode": move.failure_code}
        )
        self._set_ended(
            move.state, told, uncertain=False, outcome=move.outcome, output=move.output, failure_code=move.failure_code
        )

    def _complete_step(self, result: StepResult | None) -> None:
        found = result or StepResult(None, None, self._transaction.now)
        self._set_step(
            state="completed",
            tries=0,
            repeat_accepted=False,
            status=found.status,
            body=found.body,
            ended_at=found.ended_at,
        )

    def _let_go(self, state: Literal["uncertain", "waiting"], due_at: int | None, **values: object) -> None:
        """Let go of the run until it is due, which is at its deadline at the latest."""
        due = None if due_at is None else min(due_at, self.run.deadline_at)
        self._set_run(state=state, next_due_at=due, **values)
        self._drop_claim()

    def _set_ended(
        self,
        state: Literal["completed", "failed", "cancelled"],
        told: dict[str, object],
        **values: object,
    ) -> None:
        self._set_run(
            state=state,
            ended_at=self._transaction.now,
            next_due_at=None,
            blocked=False,
            restore_review_required=False,
            **values,
        )
        self._drop_claim()
        self._transaction.record(f"run.{state}", str(self.run.run_id), told)

    @property
    def _present(self) -> dict[str, object]:
        return {"of_run": self.run.run_id, "of_step": self.run.step}

    def _begin_step(self) -> None:
        of_run = {"of_run": self.run.run_id, "run_id": self.run.run_id, "step": self.run.step}
        self._connection.execute(_BEGIN_STEP, of_run | {"state": "running", "tries": 1, "repeat_accepted": False})

    def _insert_attempt(self, **values: object) -> int:
        """Add an attempt to the present step, in place of the oldest that can be spared, and return its number."""
        attempts = self.attempts()
        number = attempts[-1].number + 1 if attempts else 1
        own = {"run_id": self.run.run_id, "step": self.run.step, "number": number}
        self._connection.execute(ATTEMPTS.insert(), own | values)
        if len(attempts) > MOST_ATTEMPTS:
            command = command_of(self._connection, self.run.run_id, self.run.step)
            for old in forgettable(command, attempts):
                self._connection.execute(_FORGET_ATTEMPT, self._present | {"of_number": old.number})
        return number

    def _set_step(self, **values: object) -> None:
        self._connection.execute(_SET_STEP, self._present | {"type": self._step_type} | values)

    def _set_run(self, **values: object) -> None:
        self._connection.execute(_SET_RUN, {"of_run": self.run.run_id, **values})

    def _drop_claim(self) -> None:
        self._connection.execute(_DROP_CLAIM, {"of_run": self.run.run_id})

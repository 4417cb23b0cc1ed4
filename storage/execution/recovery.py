"""What a person does about a run that does not go on by itself: the same command again, or asking the receiver."""

from __future__ import annotations

from dataclasses import dataclass

from storage.execution.records import Advance, Command
from storage.refusals import Refused
from storage.runs import Run
from storage.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class UncertainCall:
    """A call whose effect is not known; `mark` is for `reconciled`, which finds by it that the run has moved."""

    run: Run
    command: Command
    mark: str


class Recoveries:
    """Every method raises Unavailable, Overloaded, AuditUnavailable and Unstorable; a run that is not there is None.

    `readable`: whether the caller can read the definition of the run.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def retry_same(
        self, run_id: str, *, reason: str, accept_repeat: bool, readable: bool
    ) -> Run | Refused | None:
        """Let an uncertain run, or one that waits at a call, be due at once.

        RETRY_REFUSED for any other, then EXECUTION_HELD, DEFINITION_INCOMPATIBLE and, unless a repeat is accepted,
        REVIEW_REQUIRED, EVALUATION_UNCERTAIN, MUTATION_UNCERTAIN.
        """
        raise NotImplementedError

    async def uncertain_call(self, run_id: str, *, readable: bool) -> UncertainCall | Refused | None:
        """The call that reconciling is about.

        RECONCILE_REFUSED where the run is not uncertain or nothing was sent, then EXECUTION_HELD,
        DEFINITION_INCOMPATIBLE, RECONCILE_UNSUPPORTED.
        """
        raise NotImplementedError

    async def reconciled(self, run_id: str, mark: str, *, reason: str, advance: Advance) -> Run | Refused | None:
        """Complete the step by what the receiver told, and let the run be due at once.

        RECONCILE_RACED where the run has moved since `mark` was given, EXECUTION_HELD.
        """
        raise NotImplementedError

"""Admission of signed events: one identity, one run, whatever is redelivered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from storage.admission import Births, NewRun, RunStatements
from storage.identifiers import hex_digits, hyphenated
from storage.refusals import Refusal, Refused
from storage.statements import Spelling, table
from storage.tables import AdmissionRow
from storage.transaction import Transaction
from storage.writer import Writer

# What asks for admission needs NewRun too, whose rules admission.py shares with runs begun by hand.
__all__ = ["Admissions", "Admitted", "Candidate", "NewRun", "Outcome"]


class Candidate(NamedTuple):
    """One verified delivery of an event, with all that was found out about it before the transaction.

    `event_id` is 32 lower-case hex digits and `event_digest` the `sha256:` digest of the exact body. `activation` is
    the digest of the package that this process had loaded. `fault` is what steps 7 to 9 found, `conflict` what loading
    the package found (DEFINITION_REFUSED or BINDING_CONFLICT); both count only for a new identity. `run` is None where
    there is a fault or the package serves no such trigger.
    """

    workflow: str
    trigger: str
    source: str
    event_id: str
    idempotency_key: str
    event_digest: str
    run: NewRun | None
    activation: str | None
    fault: Refused | None = None
    conflict: Refused | None = None


class Admitted(NamedTuple):
    """The identity stands for this run (a UUIDv7, lower case, hyphens); `new` is False for a redelivery."""

    run_id: str
    new: bool


Outcome: TypeAlias = Admitted | Refused
_Identity: TypeAlias = tuple[str, str, str, str]


class Admissions:
    """The door by which events become runs."""

    def __init__(self, writer: Writer, spelling: Spelling, runs: RunStatements, *, recovery_only: bool) -> None:
        self._writer = writer
        self._runs = runs
        self._recovery_only = recovery_only
        self._statements = IdentityStatements(spelling)

    async def admit(self, candidate: Candidate) -> Outcome:
        """Admit one event exactly once; returns after the commit is durable.

        Raises Unavailable, Overloaded, AuditUnavailable or Unstorable.
        """
        return await self._writer.submit(self._admit_many, candidate)

    def _admit_many(self, transaction: Transaction, candidates: Sequence[Candidate]) -> list[Outcome]:
        """Decide every candidate in order, then write all that is new.

        A batch of any size takes ten statements. Each lets go of the interpreter's lock, and a busy event loop may keep
        that for as long as its switch interval: hence no statement an item, and none that only one item needs.
        """
        known = _Known(self._statements.known.execute(transaction.cursor, _lookups(candidates)))
        births = Births(transaction, self._runs, recovery_only=self._recovery_only)
        births.foresee(candidates)
        outcomes: list[Outcome] = []
        rows: list[object] = []
        for candidate in candidates:
            decided = known.outcome(candidate) or births.decide(candidate)
            if isinstance(decided, NewRun):
                run_id = births.add(candidate.workflow, decided)
                known.add(candidate, run_id)
                rows += (*_identity(candidate), candidate.idempotency_key, candidate.event_digest, run_id)
                decided = Admitted(hyphenated(run_id), new=True)
                transaction.record("run.admitted", decided.run_id, _told(candidate))
            outcomes.append(decided)
        births.write()
        self._statements.insert.execute(transaction.cursor, rows)
        return outcomes


class IdentityStatements:
    """The SQL over many identities, spelled for one dialect."""

    def __init__(self, spelling: Spelling) -> None:
        admissions = table(AdmissionRow).c
        scope = [admissions.workflow, admissions.trigger, admissions.source]
        unique = [admissions.event_id, admissions.idempotency_key]
        found = ", ".join(f"a.{spelling.name(column)}" for column in admissions)
        self.insert = spelling.insert(list(admissions))
        # Each half is answered by one of the two unique indexes; CROSS JOIN keeps SQLite from turning its loops around.
        self.known = spelling.select(
            [*scope, *unique],
            " UNION ALL ".join(
                f"SELECT {found} FROM item CROSS JOIN admissions a WHERE "  # noqa: S608 - all names are the table's
                + " AND ".join(f"a.{spelling.name(each)} = item.{spelling.name(each)}" for each in [column, *scope])
                for column in unique
            ),
        )


class _Known:
    """The identities and keys that stand already, those of earlier batches and those of this one."""

    def __init__(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self._runs: dict[_Identity, tuple[str, str]] = {}
        self._keys: set[tuple[str, str, str, str]] = set()
        for workflow, trigger, source, event_id, key, event_digest, run_id in rows:
            self._runs[workflow, trigger, source, hex_digits(event_id)] = event_digest, hex_digits(run_id)
            self._keys.add((workflow, trigger, source, key))

    def outcome(self, candidate: Candidate) -> Outcome | None:
        """What the identity or the key decides by itself; None for a new identity under an unused key."""
        known = self._runs.get(_identity(candidate))
        if known is not None:
            event_digest, run_id = known
            if event_digest == candidate.event_digest:
                return Admitted(hyphenated(run_id), new=False)
            return Refused(Refusal.KEY_REUSED)
        return Refused(Refusal.KEY_REUSED) if _key(candidate) in self._keys else None

    def add(self, candidate: Candidate, run_id: str) -> None:
        """Note an identity that this batch admits, for those after it."""
        self._runs[_identity(candidate)] = candidate.event_digest, run_id
        self._keys.add(_key(candidate))


def _identity(candidate: Candidate) -> _Identity:
    return candidate.workflow, candidate.trigger, candidate.source, candidate.event_id


def _key(candidate: Candidate) -> tuple[str, str, str, str]:
    return candidate.workflow, candidate.trigger, candidate.source, candidate.idempotency_key


def _lookups(candidates: Sequence[Candidate]) -> list[object]:
    parameters: list[object] = []
    for candidate in candidates:
        parameters += (*_identity(candidate), candidate.idempotency_key)
    return parameters


def _told(candidate: Candidate) -> dict[str, object]:
    """What the audit tells of an admission: whose event it was, never what it held."""
    return {
        "eventDigest": candidate.event_digest,
        "eventId": candidate.event_id,
        "source": candidate.source,
        "trigger": candidate.trigger,
        "workflow": candidate.workflow,
    }

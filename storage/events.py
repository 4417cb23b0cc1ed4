"""Admission of signed events: one identity, one run, whatever is redelivered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from storage.refusals import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """The run that a new identity would begin; `input` is canonical JSON, `deadline_seconds` count from admission."""

    workflow_version: str
    definition_digest: str
    binding_digest: str
    input: str
    deadline_seconds: int
    first_step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
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


@dataclass(frozen=True, slots=True)
class Admitted:
    """The identity stands for this run (a UUIDv7, lower case, hyphens); `new` is False for a redelivery."""

    run_id: str
    new: bool


Outcome: TypeAlias = Admitted | Refused


class Admissions:
    """The door by which events become runs."""

    async def admit(self, candidate: Candidate) -> Outcome:
        """Admit one event exactly once; returns after the commit is durable.

        Raises Unavailable, Overloaded or AuditUnavailable.
        """
        raise NotImplementedError

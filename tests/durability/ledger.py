"""What a producer knows of its events, and the proof that a server's state agrees with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol
from uuid import UUID

from storage import verification
from tests.support import load
from tests.support.deliveries import Delivery
from tests.support.gatehouse import Gatehouse
from tests.support.load import Outcomes

_RUNS: Final = "SELECT event_id, run_id FROM admissions"

# Each admission leaves exactly one of each.
_COUNTS: Final = (
    "SELECT count(*) FROM admissions",
    "SELECT count(DISTINCT run_id) FROM admissions",
    "SELECT count(*) FROM runs",
    "SELECT count(DISTINCT run_id) FROM outbox",
    "SELECT count(*) FROM outbox",
    "SELECT count(DISTINCT subject) FROM audit WHERE action = 'run.admitted'",
    "SELECT count(*) FROM audit WHERE action = 'run.admitted'",
)


class Connection(Protocol):
    """A connection to a database, of whichever kind."""

    def execute(self, query: Any, /) -> Iterable[Any]: ...


class Ledger:
    """The run of every event that was acknowledged."""

    def __init__(self) -> None:
        self.runs: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self.runs)

    def send(self, server: Gatehouse, deliveries: Sequence[Delivery], **how: Any) -> Outcomes:
        """Send deliveries, as `load.send` does, and note what was acknowledged."""
        requests = [load.signed(delivery, server.key) for delivery in deliveries]
        outcomes = load.send(server.port, requests, **how)
        self.note(deliveries, outcomes)
        return outcomes

    def note(self, deliveries: Sequence[Delivery], outcomes: Outcomes) -> None:
        """Note what was acknowledged; fails where an event was acknowledged before with another run."""
        for delivery, answer in zip(deliveries, outcomes, strict=True):
            if answer is not None and answer.status == 204:
                event = delivery.event["id"]
                assert self.runs.setdefault(event, answer.run) == answer.run

    def redeliver(self, server: Gatehouse, deliveries: Sequence[Delivery]) -> None:
        """Deliver again; fails unless every one is acknowledged, and with the run it was acknowledged with before."""
        assert statuses(self.send(server, deliveries)) == {204}

    def prove(self, server: Gatehouse) -> int:
        """Do what `compare` does, and verify the audit chain and its file."""
        admitted = self.compare(server)
        audit = verification.verify(
            f"sqlite:///{server.state / 'gatehouse.db'}", node="local", audit_file=server.state / "audit.jsonl"
        )
        assert audit.faults == ()
        assert audit.lines == audit.rows
        assert "Traceback" not in server.log
        return admitted

    def compare(self, server: Gatehouse) -> int:
        """Return how many events are admitted; fails where an acknowledged run is lost or what is stored disagrees."""
        with server.database() as connection:
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            return self.compare_rows(connection)

    def compare_rows(self, connection: Connection) -> int:
        """Do the part of `compare` that any database can do."""
        stored = {str(UUID(str(event))): str(UUID(str(run))) for event, run in connection.execute(_RUNS)}
        assert self.runs.items() <= stored.items()
        assert {count for query in _COUNTS for (count,) in connection.execute(query)} == {len(stored)}
        return len(stored)


def verify(server: Gatehouse) -> None:
    """Fail unless the command finds every chain of the audit and this server's file whole."""
    done = server.run("audit", "verify", "--state", str(server.state), "--json")
    assert done.returncode == 0, done.stdout + done.stderr


def statuses(outcomes: Outcomes) -> set[int | None]:
    """Which statuses came, None for an answer that did not."""
    return {None if answer is None else answer.status for answer in outcomes}


def problems(outcomes: Outcomes) -> set[tuple[int, str, str | None]]:
    """The status, code and Retry-After of every answer that is not a success."""
    return {
        (answer.status, answer.code, answer.header("Retry-After"))
        for answer in outcomes
        if answer is not None and answer.status != 204
    }

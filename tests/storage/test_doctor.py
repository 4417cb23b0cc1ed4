from __future__ import annotations

from uuid import UUID

import pytest
import sqlalchemy as sa

from storage.connections import engine
from storage.database import Storage
from storage.doctor import ActivePackage, Report
from storage.execution.records import Doubt
from storage.execution.rows import OUTBOX
from storage.holds import HoldState
from storage.runs import RUNS
from tests.storage.work import PACKAGE, admit

pytestmark = pytest.mark.anyio

NO_RUNS = dict.fromkeys(("admitted", "running", "waiting", "uncertain", "completed", "failed", "cancelled"), 0)


async def test_the_report_of_a_fresh_storage_counts_nothing(storage: Storage) -> None:
    active = await storage.workflows.active()
    assert active is not None
    assert await storage.doctor.report() == Report(
        holds=HoldState(False, False),
        activation=ActivePackage(PACKAGE.digest, active.applied_at),
        runs=NO_RUNS,  # type: ignore[arg-type]
        oldest_due_at=None,
        uncertain=0,
        backlog=0,
    )


async def test_the_report_tells_how_runs_holds_and_outbox_stand(storage: Storage, url: str) -> None:
    run_ids = [(await admit(storage)).run_id for _ in range(6)]
    await storage.holds.restore("restored")
    await storage.runs.cancel(run_ids[0], "over")
    writing = engine(url, "write")
    with writing.begin() as connection:
        for run_id, values in zip(
            run_ids[1:4],
            (
                {"state": "waiting", "next_due_at": 2000},
                {"state": "waiting", "next_due_at": 1000},
                {"state": "uncertain", "uncertain": True},
            ),
            strict=True,
        ):
            connection.execute(sa.update(RUNS).where(RUNS.c.run_id == UUID(run_id)).values(values))
        connection.execute(OUTBOX.delete().where(OUTBOX.c.seq <= 2))
    writing.dispose()
    report = await storage.doctor.report()
    assert report.holds == HoldState(True, True)
    assert report.runs == NO_RUNS | {"admitted": 2, "waiting": 2, "uncertain": 1, "cancelled": 1}
    assert (report.oldest_due_at, report.uncertain, report.backlog) == (1000, 1, 2)


async def test_what_is_uncertain_of_a_run_that_was_cancelled_is_nothing_to_be_done_any_more(storage: Storage) -> None:
    run_id = (await admit(storage)).run_id
    [claim] = await storage.execution.claims.take("local", 1)
    await storage.execution.journal.take_up(claim)
    await storage.execution.journal.settle(claim, step_type="call", move=Doubt(None))
    assert (await storage.doctor.report()).uncertain == 1
    await storage.runs.cancel(run_id, "over")
    assert (await storage.doctor.report()).uncertain == 0

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from storage.audit import AUDIT
from storage.connections import engine
from storage.database import Storage
from storage.events import Admitted, Candidate, Outcome
from storage.execution.rows import OUTBOX
from storage.refusals import Refusal, Refused
from storage.runs import RUNS
from storage.statements import CHUNK, table
from storage.tables import AdmissionRow
from tests.storage.work import (
    NEW_RUN,
    OTHER_PACKAGE,
    admit,
    at_once,
    candidate,
    open_storage,
    rows,
)

pytestmark = pytest.mark.anyio

ADMISSIONS = table(AdmissionRow)
KEY_REUSED = Refused(Refusal.KEY_REUSED)


def admitted(outcomes: list[Outcome]) -> list[Admitted]:
    return [outcome for outcome in outcomes if isinstance(outcome, Admitted)]


def same_event(event: Candidate, **changes: object) -> Candidate:
    return candidate(event_id=event.event_id, event_digest=event.event_digest, **changes)


async def test_a_new_event_begins_a_run(storage: Storage) -> None:
    outcome = await admit(storage)
    assert outcome.new
    run = await storage.runs.get(outcome.run_id)
    assert run is not None
    assert run.run_id == outcome.run_id
    assert (run.workflow_id, run.workflow_version) == ("case-follow-up", "1")
    assert (run.definition_digest, run.binding_digest) == (NEW_RUN.definition_digest, NEW_RUN.binding_digest)
    assert (run.state, run.step) == ("admitted", "wait")
    assert run.deadline_at - run.admitted_at == 3_600_000
    assert (run.uncertain, run.cancel_requested, run.restore_review_required) == (False, False, False)
    assert (run.next_due_at, run.outcome, run.output, run.failure_code) == (None, None, None, None)


async def test_an_admission_is_one_row_in_each_of_four_tables(storage: Storage, url: str) -> None:
    event = candidate()
    [outcome] = admitted(await at_once(storage, event))
    [run], [identity], [work] = rows(url, RUNS), rows(url, ADMISSIONS), rows(url, OUTBOX)
    assert run.input == NEW_RUN.input
    assert str(run.run_id) == str(identity.run_id) == str(work.run_id) == outcome.run_id
    assert (identity.event_id.hex, identity.event_digest) == (event.event_id, event.event_digest)
    assert (work.kind, work.created_at) == ("admitted", run.admitted_at)
    told = rows(url, AUDIT)[-1]
    assert (told.action, told.subject, told.at) == ("run.admitted", outcome.run_id, run.admitted_at)
    assert event.event_digest in told.body
    assert NEW_RUN.input not in told.body


async def test_the_same_event_again_is_the_same_run(storage: Storage) -> None:
    event = candidate()
    [first] = admitted(await at_once(storage, event))
    assert await storage.admissions.admit(event) == Admitted(first.run_id, new=False)


async def test_the_same_event_under_another_key_is_the_same_run_and_the_first_key_stays(storage: Storage) -> None:
    event = candidate()
    [first] = admitted(await at_once(storage, event))
    again = same_event(event, idempotency_key="another")
    assert await storage.admissions.admit(again) == Admitted(first.run_id, new=False)
    assert (await admit(storage, idempotency_key="another")).new
    assert await storage.admissions.admit(candidate(idempotency_key=event.idempotency_key)) == KEY_REUSED


async def test_the_same_event_with_other_bytes_is_refused(storage: Storage) -> None:
    event = candidate()
    await storage.admissions.admit(event)
    assert await storage.admissions.admit(candidate(event_id=event.event_id)) == KEY_REUSED


async def test_a_key_that_stands_for_another_event_is_refused(storage: Storage) -> None:
    event = candidate()
    await storage.admissions.admit(event)
    assert await storage.admissions.admit(candidate(idempotency_key=event.idempotency_key)) == KEY_REUSED


@pytest.mark.parametrize("member", ["workflow", "trigger", "source"])
async def test_an_identity_and_a_key_count_within_workflow_trigger_and_source(storage: Storage, member: str) -> None:
    event = candidate()
    [first] = admitted(await at_once(storage, event))
    elsewhere = same_event(event, idempotency_key=event.idempotency_key, **{member: "another"})
    [second] = admitted(await at_once(storage, elsewhere))
    assert second.new
    assert second.run_id != first.run_id


async def test_200_deliveries_of_one_event_at_once_are_one_run(storage: Storage, url: str) -> None:
    outcomes = admitted(await at_once(storage, *[candidate()] * 200))
    assert len(outcomes) == 200
    assert len({outcome.run_id for outcome in outcomes}) == 1
    assert [outcome.new for outcome in outcomes] == [True] + [False] * 199
    assert len(rows(url, RUNS)) == 1


async def test_in_one_batch_the_first_of_an_identity_wins_and_the_others_are_compared_with_it(
    storage: Storage, url: str
) -> None:
    one, other = candidate(), candidate()
    changed = candidate(event_id=one.event_id)
    borrowed = candidate(idempotency_key=other.idempotency_key)
    outcomes = await at_once(storage, one, changed, other, one, borrowed, same_event(one))
    [first, second, third, fourth] = admitted([outcomes[0], outcomes[2], outcomes[3], outcomes[5]])
    assert (first.new, second.new) == (True, True)
    assert third == fourth == Admitted(first.run_id, new=False)
    assert outcomes[1] == outcomes[4] == KEY_REUSED
    assert len(rows(url, RUNS)) == 2


async def test_a_batch_that_repeats_the_last_one_backwards_stores_nothing_new(storage: Storage, url: str) -> None:
    events = [candidate() for _ in range(20)]
    first = admitted(await at_once(storage, *events))
    again = admitted(await at_once(storage, *reversed(events)))
    assert [outcome.run_id for outcome in reversed(again)] == [outcome.run_id for outcome in first]
    assert not any(outcome.new for outcome in again)
    assert len(rows(url, RUNS)) == 20


async def test_a_batch_of_more_rows_than_one_statement_holds_is_stored_whole(storage: Storage, url: str) -> None:
    known = [candidate() for _ in range(CHUNK + 1)]
    await at_once(storage, *known)
    events = [candidate() for _ in range(3 * CHUNK)]
    outcomes = admitted(await at_once(storage, *events, *known))
    assert [outcome.new for outcome in outcomes] == [True] * len(events) + [False] * len(known)
    assert len(rows(url, RUNS)) == len(events) + len(known)
    assert [row.seq for row in rows(url, AUDIT)] == list(range(1, len(rows(url, AUDIT)) + 1))


async def test_run_ids_rise_in_the_order_of_admission(storage: Storage) -> None:
    outcomes = admitted(await at_once(storage, *(candidate() for _ in range(50))))
    assert [outcome.run_id for outcome in outcomes] == sorted(outcome.run_id for outcome in outcomes)


async def test_a_refused_event_leaves_no_trace(storage: Storage, url: str) -> None:
    before = len(rows(url, AUDIT))
    refused = candidate(run=None, fault=Refused(Refusal.EVENT_INVALID))
    assert await at_once(storage, refused, refused) == [refused.fault, refused.fault]
    assert (rows(url, RUNS), rows(url, ADMISSIONS), rows(url, OUTBOX)) == ([], [], [])
    assert len(rows(url, AUDIT)) == before
    assert (await admit(storage, event_id=refused.event_id)).new


async def test_an_admitted_event_is_found_again_whatever_holds_and_packages_are_now(
    storage: Storage, url: str, audit_file: Path
) -> None:
    event = candidate()
    [first] = admitted(await at_once(storage, event))
    again = Admitted(first.run_id, new=False)
    await storage.holds.restore("restored")
    assert await storage.admissions.admit(event) == again
    await storage.workflows.apply(OTHER_PACKAGE.digest, OTHER_PACKAGE.snapshot, OTHER_PACKAGE.definitions)
    assert await storage.admissions.admit(same_event(event, run=None)) == again
    fault = Refused(Refusal.EVENT_TOO_LARGE)
    assert await storage.admissions.admit(same_event(event, run=None, fault=fault)) == again
    async with open_storage(url, audit_file, recovery_only=True) as recovering:
        assert await recovering.admissions.admit(event) == again


async def test_a_hold_counts_for_what_arrives_after_it_in_the_same_batch(storage: Storage) -> None:
    before, _, after = await asyncio.gather(
        storage.admissions.admit(candidate()),
        storage.holds.restore("restored"),
        storage.admissions.admit(candidate()),
    )
    assert isinstance(before, Admitted)
    assert after == Refused(Refusal.HELD)


async def test_holds_and_activation_set_by_another_process_are_seen_by_the_next_batch(
    storage: Storage, url: str, audit_file: Path
) -> None:
    await admit(storage)
    async with open_storage(url, audit_file) as other:
        await other.holds.restore("restored")
        assert await storage.admissions.admit(candidate()) == Refused(Refusal.HELD)
        await other.holds.release_restore("done")
        await other.holds.release_admission(
            recovery_reference="r", admission_history_complete=True, prior_deployment_fenced=True
        )
        await admit(storage)
        await other.workflows.apply(OTHER_PACKAGE.digest, OTHER_PACKAGE.snapshot, OTHER_PACKAGE.definitions)
        assert await storage.admissions.admit(candidate()) == Refused(Refusal.ACTIVATION_CHANGED)
        await admit(storage, activation=OTHER_PACKAGE.digest)


async def test_two_processes_that_admit_the_same_events_make_one_run_of_each(
    storage: Storage, url: str, audit_file: Path
) -> None:
    events = [candidate() for _ in range(100)]
    async with open_storage(url, audit_file) as other:
        tasks = [one.admissions.admit(event) for event in events for one in (storage, other)]
        outcomes = admitted(list(await asyncio.gather(*tasks)))
    assert len(outcomes) == 200
    assert [one.run_id for one in outcomes[::2]] == [one.run_id for one in outcomes[1::2]]
    assert sum(outcome.new for outcome in outcomes) == 100
    assert len(rows(url, RUNS)) == 100


async def test_a_reader_that_goes_on_after_the_last_outbox_row_it_saw_misses_none(
    storage: Storage, url: str, audit_file: Path
) -> None:
    """Case 12: numbers are given in the order in which they become visible, also by two processes at once."""
    seen: list[int] = []
    done = threading.Event()

    def follow() -> None:
        following = engine(url, "read")
        ended = False
        while not ended:
            ended = done.is_set()
            with following.connect() as connection, connection.begin():
                later = sa.select(OUTBOX.c.seq).where(OUTBOX.c.seq > (seen[-1] if seen else 0)).order_by(OUTBOX.c.seq)
                seen.extend(connection.scalars(later))
        following.dispose()

    async def admit_some(one: Storage) -> None:
        for _ in range(40):
            await at_once(one, *(candidate() for _ in range(5)))

    reader = threading.Thread(target=follow)
    reader.start()
    with contextlib.ExitStack() as stack:
        stack.callback(reader.join)
        stack.callback(done.set)
        async with open_storage(url, audit_file) as other:
            await asyncio.gather(admit_some(storage), admit_some(other))
    assert seen == [row.seq for row in rows(url, OUTBOX)]
    assert len(seen) == 400


async def test_an_outbox_number_is_not_given_again_after_its_row_was_taken(storage: Storage, url: str) -> None:
    await admit(storage)
    taking = engine(url, "write")
    with taking.begin() as connection:
        connection.execute(OUTBOX.delete())
    taking.dispose()
    await admit(storage)
    [work] = rows(url, OUTBOX)
    assert work.seq == 2

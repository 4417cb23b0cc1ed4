from __future__ import annotations

from pathlib import Path

import pytest

from storage.database import Storage
from storage.events import Admitted
from storage.refusals import Refusal, Refused
from tests.storage.work import admit, at_once, candidate, digest, new_run, open_storage, start

pytestmark = pytest.mark.anyio

KEY_REUSED = Refused(Refusal.KEY_REUSED)


class TestOrderOfDecisions:
    """Where two rules of ARCHITECTURE.md, step 10, both refuse, the earlier one answers."""

    async def test_another_bytes_of_a_known_identity_come_before_a_fault(self, storage: Storage) -> None:
        event = candidate()
        await storage.admissions.admit(event)
        fault = Refused(Refusal.EVENT_TOO_LARGE)
        assert await storage.admissions.admit(candidate(event_id=event.event_id, run=None, fault=fault)) == KEY_REUSED

    async def test_a_reused_key_comes_before_a_fault(self, storage: Storage) -> None:
        event = candidate()
        await storage.admissions.admit(event)
        reused = candidate(idempotency_key=event.idempotency_key, run=None, fault=Refused(Refusal.INPUT_INVALID))
        assert await storage.admissions.admit(reused) == KEY_REUSED

    async def test_a_fault_comes_before_recovery_only(self, url: str, audit_file: Path) -> None:
        fault = Refused(Refusal.EVENT_INVALID, "source")
        async with open_storage(url, audit_file, recovery_only=True) as recovering:
            assert await recovering.admissions.admit(candidate(run=None, fault=fault, activation=None)) == fault

    async def test_recovery_only_comes_before_the_admission_hold(
        self, storage: Storage, url: str, audit_file: Path
    ) -> None:
        await storage.holds.restore("restored")
        async with open_storage(url, audit_file, recovery_only=True) as recovering:
            assert await recovering.admissions.admit(candidate()) == Refused(Refusal.RECOVERY_ONLY)

    async def test_the_admission_hold_comes_before_the_execution_hold(self, storage: Storage) -> None:
        await storage.holds.restore("restored")
        assert await storage.admissions.admit(candidate()) == Refused(Refusal.HELD)

    async def test_the_execution_hold_comes_before_a_missing_package(self, url: str, audit_file: Path) -> None:
        async with open_storage(url, audit_file) as empty:
            await empty.holds.restore("restored")
            await empty.holds.release_admission(
                recovery_reference="r", admission_history_complete=True, prior_deployment_fenced=True
            )
            assert await empty.admissions.admit(candidate()) == Refused(Refusal.EXECUTION_HELD)

    async def test_a_missing_package_comes_before_a_stale_process(self, url: str, audit_file: Path) -> None:
        async with open_storage(url, audit_file) as empty:
            assert await empty.admissions.admit(candidate()) == Refused(Refusal.DEPLOYMENT_REFUSED)

    async def test_a_stale_process_comes_before_the_conflicts_of_its_package(self, storage: Storage) -> None:
        stale = candidate(activation=digest("older"), conflict=Refused(Refusal.DEFINITION_REFUSED))
        assert await storage.admissions.admit(stale) == Refused(Refusal.ACTIVATION_CHANGED)

    @pytest.mark.parametrize("why", [Refusal.DEFINITION_REFUSED, Refusal.BINDING_CONFLICT])
    async def test_a_conflict_of_the_package_comes_before_a_live_run_with_another_binding(
        self, storage: Storage, why: Refusal
    ) -> None:
        await admit(storage)
        both = candidate(run=new_run(binding_digest=digest("new")), conflict=Refused(why, "which"))
        assert await storage.admissions.admit(both) == Refused(why, "which")

    async def test_a_trigger_that_the_package_lacks_is_refused(self, storage: Storage) -> None:
        assert await storage.admissions.admit(candidate(run=None)) == Refused(Refusal.DEPLOYMENT_REFUSED)

    async def test_a_stale_process_answers_so_where_its_package_had_no_such_trigger(self, storage: Storage) -> None:
        for activation in (None, digest("older")):
            stale = candidate(run=None, activation=activation)
            assert await storage.admissions.admit(stale) == Refused(Refusal.ACTIVATION_CHANGED)

    async def test_what_a_stale_process_found_wrong_with_an_event_is_void(self, storage: Storage) -> None:
        stale = candidate(run=None, activation=digest("older"), fault=Refused(Refusal.INPUT_INVALID))
        assert await storage.admissions.admit(stale) == Refused(Refusal.ACTIVATION_CHANGED)
        await storage.holds.restore("restored")
        assert await storage.admissions.admit(stale) == Refused(Refusal.HELD)


class TestLiveConflict:
    """A live run keeps its workflow to the binding it is pinned to."""

    @pytest.mark.parametrize("binding", ["sha256:" + "0" * 64, "sha256:" + "f" * 64])
    async def test_another_binding_is_refused_while_a_run_is_live(self, storage: Storage, binding: str) -> None:
        live = await admit(storage)
        other = candidate(run=new_run(binding_digest=binding))
        assert await storage.admissions.admit(other) == Refused(Refusal.BINDING_LIVE_CONFLICT)
        await admit(storage)
        await admit(storage, workflow="another", run=other.run)
        assert await storage.runs.cancel(live.run_id, "over") is not None
        assert await storage.admissions.admit(other) == Refused(Refusal.BINDING_LIVE_CONFLICT)

    async def test_another_binding_is_taken_once_no_run_is_live(self, storage: Storage) -> None:
        live = await admit(storage)
        await storage.runs.cancel(live.run_id, "over")
        await admit(storage, run=new_run(binding_digest=digest("new")))

    async def test_within_one_batch_the_first_binding_counts(self, storage: Storage) -> None:
        new = new_run(binding_digest=digest("new"))
        outcomes = await at_once(
            storage, candidate(), candidate(run=new), candidate(), candidate(workflow="w", run=new)
        )
        assert [isinstance(outcome, Admitted) for outcome in outcomes] == [True, False, True, True]
        assert outcomes[1] == Refused(Refusal.BINDING_LIVE_CONFLICT)


async def test_a_run_begun_by_hand_is_refused_in_the_same_order(storage: Storage, url: str, audit_file: Path) -> None:
    fault, conflict = Refused(Refusal.WORKFLOW_NOT_SERVED), Refused(Refusal.BINDING_CONFLICT, "which")
    assert await storage.runs.start(start(run=None, fault=fault)) == fault
    assert await storage.runs.start(start(conflict=conflict)) == conflict
    assert await storage.runs.start(start(activation=None, run=None, fault=fault)) == Refused(
        Refusal.ACTIVATION_CHANGED
    )
    await storage.holds.restore("restored")
    assert await storage.runs.start(start(conflict=conflict)) == Refused(Refusal.HELD)
    async with open_storage(url, audit_file, recovery_only=True) as recovering:
        assert await recovering.runs.start(start()) == Refused(Refusal.RECOVERY_ONLY)


async def test_a_run_begun_by_hand_is_held_to_the_binding_of_a_live_one(storage: Storage) -> None:
    await admit(storage)
    other = start(run=new_run(binding_digest=digest("new")))
    assert await storage.runs.start(other) == Refused(Refusal.BINDING_LIVE_CONFLICT)

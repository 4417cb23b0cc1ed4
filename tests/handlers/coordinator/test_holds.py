from __future__ import annotations

import pytest

from tests.support.gatehouse import Gatehouse, NewServer

REQUIRED = (409, "restore.hold-required")
UNRESOLVED = (409, "restore.unresolved")


@pytest.fixture(scope="module")
def holding(new_server: NewServer) -> Gatehouse:
    server = new_server()
    server.start()
    return server


@pytest.fixture
def free(holding: Gatehouse) -> Gatehouse:
    """A server on which nothing is held yet."""
    holding.release_execution()
    holding.release_admission()
    return holding


def held(admission: bool, execution: bool) -> dict[str, bool]:
    return {"admissionHeld": admission, "executionHeld": execution}


def test_a_restore_holds_both_and_each_hold_has_its_own_release(free: Gatehouse) -> None:
    assert free.hold().json == held(True, True)
    assert free.hold().json == held(True, True)
    assert free.deliver().outcome == (409, "admission.held")
    assert free.release_execution().json == held(True, False)
    assert free.deliver().outcome == (409, "admission.held")
    assert free.release_admission().json == held(False, False)
    assert free.deliver().status == 204


def test_admission_may_be_released_first(free: Gatehouse) -> None:
    assert free.hold().status == 200
    assert free.release_admission().json == held(False, True)
    assert free.deliver().outcome == (409, "execution.held")
    assert free.release_execution().json == held(False, False)
    assert free.deliver().status == 204


def test_a_hold_that_does_not_stand_cannot_be_released(free: Gatehouse) -> None:
    assert free.release_execution().outcome == REQUIRED
    assert free.release_admission().outcome == REQUIRED
    assert free.release_admission(priorDeploymentFenced=False).outcome == REQUIRED
    assert free.hold().status == 200
    assert free.release_execution().status == 200
    assert free.release_execution().outcome == REQUIRED


@pytest.mark.parametrize("missing", ["admissionHistoryComplete", "priorDeploymentFenced"])
def test_admission_stays_held_until_both_conditions_are_vouched_for(missing: str, free: Gatehouse) -> None:
    assert free.hold().status == 200
    assert free.release_admission(**{missing: False}).outcome == UNRESOLVED
    assert free.deliver().outcome == (409, "admission.held")


def test_holds_outlast_the_process(free: Gatehouse) -> None:
    assert free.hold().status == 200
    free.restart()
    assert free.deliver().outcome == (409, "admission.held")


def test_each_change_of_a_hold_is_in_the_audit_with_its_reason(free: Gatehouse) -> None:
    before = len(audit(free))
    for answer in (
        free.hold(),
        free.hold(),
        free.release_execution(),
        free.release_admission(),
    ):
        assert answer.status == 200
    told = audit(free)[before:]
    assert sum("A test wants it." in line for line in told) == 2
    assert sum("INC-1" in line for line in told) == 1


def audit(server: Gatehouse) -> list[str]:
    return (server.state / "audit.jsonl").read_text().splitlines()


@pytest.mark.parametrize("path", ["/v1/restore-hold", "/v1/release-restore-hold"])
@pytest.mark.parametrize(
    "value",
    [{}, {"reason": ""}, {"reason": "x" * 257}, {"reason": 1}, {"reason": None}, {"reason": "x", "more": 1}, []],
)
def test_a_reason_has_1_to_256_characters(path: str, value: object, server: Gatehouse) -> None:
    assert server.operate("POST", path, value).outcome == (400, "request.reason-invalid")


@pytest.mark.parametrize(
    "changes",
    [
        {"recoveryReference": ""},
        {"recoveryReference": "x" * 257},
        {"admissionHistoryComplete": 1},
        {"priorDeploymentFenced": "true"},
        {"priorDeploymentFenced": None},
        {"more": 1},
    ],
)
def test_a_release_of_admission_that_is_not_as_documented_is_refused(
    changes: dict[str, object], server: Gatehouse
) -> None:
    assert server.release_admission(**changes).outcome == (400, "request.invalid")


def test_a_reason_is_counted_in_characters_and_may_hold_any(free: Gatehouse) -> None:
    for reason in ("😀" * 256, "\0", "\ud7ff\ue000", " "):
        answer = free.operate("POST", "/v1/restore-hold", {"reason": reason})
        assert answer.json == held(True, True)

from __future__ import annotations

import pytest

from handlers.installer.install import install_model
from storage.database import Storage
from storage.installer.records import NO_ATTEMPT, Attempt, StepRecord
from tests.handlers.installer.machine import CONFIG, INSTALL, NODE_YAML, Machine, errors, outcome
from tests.storage.installer.work import append, failed, line, step

pytestmark = pytest.mark.anyio


async def test_before_the_first_attempt_there_is_none(machine: Machine) -> None:
    answer = await machine.ask("GET", INSTALL)
    assert answer.status_code == 200
    assert answer.json() == {
        "attempt": 0,
        "state": "idle",
        "steps": [],
        "startedAt": None,
        "endedAt": None,
        "detail": None,
        "lastEventId": 0,
    }


async def test_without_a_config_nothing_is_installed(machine: Machine) -> None:
    assert errors(await machine.ask("POST", INSTALL)) == [("", "is not stored yet")]
    assert (await machine.ask("GET", INSTALL)).json()["attempt"] == 0


async def test_an_attempt_begins_and_is_shown_where_the_answer_says(machine: Machine) -> None:
    await machine.put_yaml(NODE_YAML)
    answer = await machine.ask("POST", INSTALL)
    told = answer.json()
    assert (answer.status_code, answer.headers["Location"]) == (202, INSTALL)
    assert (told["attempt"], told["state"], told["endedAt"], told["detail"]) == (1, "running", None, None)
    assert told["steps"] == [
        {"name": name, "status": "waiting", "startedAt": None, "endedAt": None} for name in ("one", "two")
    ]
    assert (await machine.ask("GET", answer.headers["Location"])).json() == told


async def test_one_attempt_runs_at_a_time(machine: Machine, storage: Storage) -> None:
    await machine.put(CONFIG)
    assert (await machine.ask("POST", INSTALL)).status_code == 202
    assert outcome(await machine.ask("POST", INSTALL)) == (409, "INSTALL_RUNNING")
    await append(storage, 1, step("one", "started"), line(step="one"), step("one", "failed", "no"), failed("no luck"))
    told = (await machine.ask("GET", INSTALL)).json()
    assert (told["attempt"], told["state"], told["detail"], told["lastEventId"]) == (1, "failed", "no luck", 4)
    assert [each["status"] for each in told["steps"]] == ["failed", "waiting"]
    again = (await machine.ask("POST", INSTALL)).json()
    assert (again["attempt"], again["state"], again["lastEventId"]) == (2, "running", 4)


async def test_a_body_to_start_with_is_not_asked_for_and_does_no_harm(machine: Machine) -> None:
    await machine.put(CONFIG)
    answer = await machine.ask("POST", INSTALL, ("Content-Type", "text/plain"), content=b"go")
    assert answer.status_code == 202


def test_times_are_told_as_all_answers_have_them() -> None:
    steps = (StepRecord("a", "succeeded", 1_000, 2_001), StepRecord("b", "running", 2_001, None))
    attempt = Attempt(
        attempt=7, state="running", steps=steps, started_at=999, ended_at=None, detail=None, last_event_id=2**63 - 1
    )
    model = install_model(attempt)
    assert (model.started_at, model.ended_at) == ("1970-01-01T00:00:00.999Z", None)
    assert (model.steps[0].ended_at, model.steps[1].started_at) == ("1970-01-01T00:00:02.001Z",) * 2
    assert model.last_event_id == 2**63 - 1
    assert install_model(NO_ATTEMPT).state == "idle"

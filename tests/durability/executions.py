"""Runs that a real server carries out: workflows that call receivers, and what an operator sees of their runs."""

from __future__ import annotations

import contextlib
import os
import signal
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.support import executors, packages
from tests.support.gatehouse import PATIENCE_SECONDS, Gatehouse, wait_for
from tests.support.packages import Workflow

ENDED: Final = frozenset({"completed", "failed", "cancelled"})
WHY: Final = {"reason": "A test wants it."}

# How long a call waits for its answer, in seconds, where a test waits for that time to pass.
SHORT: Final = 0.8


def connection(url: str, recovery: str | None = None, **settings: Any) -> dict[str, Any]:
    """The settings of a connection that permits every method below every path that these tests use."""
    own: dict[str, Any] = {"baseUrl": url, "methods": ["GET"], "paths": ["/{how}/{name}"]}
    if recovery is not None:
        own |= {"recovery": recovery, "methods": ["GET", "POST", "PUT"]}
    if recovery == "same-command-and-receipt":
        own["receiptPath"] = "/receipts/{key}"
    return own | settings


def call(connection: str, method: str, how: str, then: str, body: Any = None) -> dict[str, Any]:
    """A step that calls `/how/name`; `how` is CEL, the name is the input's."""
    own = {} if body is None else {"body": body}
    asked = {"connection": connection, "method": method, "path": "/{how}/{name}"}
    return {"type": "call", **asked, "parameters": {"how": how, "name": "input.name"}, **own, "next": then}


def workflow(name: str, steps: Mapping[str, Any], *, version: str = "1", deadline_seconds: int = 86_400) -> Workflow:
    """A workflow whose input and outcomes may be any objects; it starts with its first step."""
    outcomes = {step["outcome"]: True for step in steps.values() if step["type"] == "finish"}
    own = {"start": next(iter(steps)), "steps": dict(steps), "outcomes": outcomes, "input": True}
    return packages.workflow(name, version=version, deadline_seconds=deadline_seconds, triggers=()) | own


def start(server: Gatehouse, flow: str, key: str | None = None, **value: Any) -> str:
    """Start a run and return its id, by a second request where the first one has met a new package."""
    request = {"flow": flow, "input": value}, key or f"k-{uuid.uuid4()}"
    answer = server.begin(*request)
    if answer.code == "deployment.activation-changed":
        answer = server.begin(*request)
    assert answer.status in {200, 201}, answer
    return answer.run


def show(server: Gatehouse, run: str) -> Any:
    """The run as the operator sees it."""
    answer = server.operate("GET", f"/v1/runs/{run}")
    assert answer.status == 200, answer
    return answer.json


def inspect(server: Gatehouse, run: str) -> Any:
    """The run with its steps, as the operator sees them."""
    answer = server.operate("GET", f"/v1/runs/{run}/inspect")
    assert answer.status == 200, answer
    return answer.json


def results(server: Gatehouse, run: str, step: str) -> list[str | None]:
    """How each attempt of a step ended."""
    steps = {each["step"]: each for each in inspect(server, run)["steps"]}
    return [attempt["result"] for attempt in steps[step]["attempts"]] if step in steps else []


def reach(server: Gatehouse, run: str, condition: Callable[[Any], bool], *, seconds: float = PATIENCE_SECONDS) -> Any:
    """Return the run once the condition holds of it; fails after `seconds`."""
    seen: list[Any] = []

    def holds() -> bool:
        seen[:] = [show(server, run)]
        return condition(seen[0])

    try:
        wait_for(holds, seconds)
    except AssertionError as error:
        raise AssertionError(f"the run stays {seen}; {inspect(server, run)['steps']}") from error
    return seen[0]


def end(server: Gatehouse, run: str) -> Any:
    """Return the run once it has ended."""
    return reach(server, run, lambda found: found["state"] in ENDED)


def for_a_person(found: Any) -> bool:
    """Whether a run waits for a person."""
    return found["state"] == "uncertain" and found["nextDueAt"] is None


def retry(server: Gatehouse, run: str, *, repeat: bool | None = None) -> tuple[int, str]:
    """Retry the same command, with `repeat` as whether to accept that its effect may be repeated."""
    body = WHY if repeat is None else WHY | {"acceptRepeat": repeat}
    return server.operate("POST", f"/v1/runs/{run}/retry-same", body).outcome


def reconcile(server: Gatehouse, run: str) -> tuple[int, str]:
    """Ask the receiver what became of the command."""
    return server.operate("POST", f"/v1/runs/{run}/reconcile", WHY).outcome


def executor(server: Gatehouse) -> int | None:
    """The process that carries runs out for this server, None while there is none."""
    for process in Path("/proc").glob("[0-9]*"):
        # Any of them may end meanwhile.
        with contextlib.suppress(OSError):
            if (process / "comm").read_text().strip() == executors.name(server.pid):
                return int(process.name)
            parent = int((process / "stat").read_text().rpartition(") ")[2].split()[1])
            if parent == server.pid and b"tools.executor" in (process / "cmdline").read_bytes():
                return int(process.name)
    return None


def kill_executor(server: Gatehouse) -> None:
    """End the executor, once there is one, as a power cut would."""
    os.kill(wait_for(lambda: executor(server)), signal.SIGKILL)


def settle(server: Gatehouse, runs: Sequence[str], *, seconds: float = PATIENCE_SECONDS) -> dict[str, Any]:
    """Return the runs by id once each has ended or waits for a person; fails where none comes so far for `seconds`."""

    def settled(found: Any) -> bool:
        return found["state"] in ENDED or for_a_person(found)

    return {run: reach(server, run, settled, seconds=seconds) for run in runs}

"""What a person or a machine sees of a run that is followed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tools.commands.changes import Changes

# How a run, and a step of it, may have ended.
ENDED: Final = frozenset({"completed", "failed", "cancelled"})
# What a person is told of a run that cannot go on as the server is configured.
BLOCKED: Final = (
    "blocked until its deadline: its connections have to be configured as at its admission, and its workflow to be"
    " readable by this version; it is looked at again when the server starts"
)
# What an operator may do about a run that is uncertain and not taken up by itself, by its recovery.
_ACTS: Final = {
    "same-command": "runs retry or cancel",
    "same-command-and-receipt": "runs reconcile, retry or cancel",
}
_OTHER_ACTS: Final = "runs retry --accept-repeat or cancel"
# What a machine is told of a run when it changes.
_FACTS: Final = ("state", "step", "nextDueAt", "uncertain", "cancelRequested", "outcome", "output", "failureCode")


class RunStory(Changes):
    """Tells each change of a run, its steps and their attempts once."""

    def inspection(self, inspection: Mapping[str, Any]) -> None:
        """Tell what is new in the answer of inspectRun; the end of the run comes last."""
        run = inspection["run"]
        ended = run["state"] in ENDED
        if not ended:
            self._run(inspection)
        for step in inspection["steps"]:
            self._step(step)
        if ended:
            self._run(inspection)

    def _run(self, inspection: Mapping[str, Any]) -> None:
        run, recovery = inspection["run"], inspection["recovery"]
        facts = {name: run[name] for name in _FACTS} | {"recovery": recovery}
        if self.new("run", facts):
            self.tell({"event": "run", "runId": run["runId"]} | facts, f"run {run['runId']}: {_told(inspection)}")

    def _step(self, step: Mapping[str, Any]) -> None:
        over = step["state"] in ENDED
        if not over:
            self._state(step)
        for attempt in step["attempts"]:
            if self.new(f"attempt {attempt['number']} of {step['step']}", attempt):
                value = {"event": "attempt", "step": step["step"]} | attempt
                self.tell(value, f"  {step['step']}, attempt {_attempt(attempt)}")
        if over:
            self._state(step)

    def _state(self, step: Mapping[str, Any]) -> None:
        name, kind, state = step["step"], step["type"], step["state"]
        if self.new(f"step {name}", state):
            self.tell({"event": "step", "step": name, "type": kind, "state": state}, f"step {name} ({kind}): {state}")


def stuck(inspection: Mapping[str, Any]) -> str | None:
    """Tell why a run does not go on by itself, and what a person may do about it; None where it does, or has ended."""
    run, recovery = inspection["run"], inspection["recovery"]
    if _blocked(inspection):
        return BLOCKED
    if run["state"] == "uncertain" and run["nextDueAt"] is None:
        return f"waits for an operator: {_ACTS.get(recovery, _OTHER_ACTS)}"
    return None


def _blocked(inspection: Mapping[str, Any]) -> bool:
    """Whether a run waits without a time to be waited for, nor for another attempt: then it is due at its deadline."""
    run = inspection["run"]
    kinds = {step["step"]: step["type"] for step in inspection["steps"]}
    waits = run["state"] == "waiting" and inspection["recovery"] is None and kinds.get(run["step"]) != "wait-until"
    return waits and run["nextDueAt"] == run["deadlineAt"]


def _attempt(attempt: Mapping[str, Any]) -> str:
    status = "" if attempt["httpStatus"] is None else f" ({attempt['httpStatus']})"
    return f"{attempt['number']}: {attempt['result'] or 'under way'}{status}"


def _told(inspection: Mapping[str, Any]) -> str:
    run, recovery = inspection["run"], inspection["recovery"]
    state, step = run["state"], run["step"]
    if state == "completed":
        return f"completed: {run['outcome']} {json.dumps(run['output'], ensure_ascii=False)}"
    if state == "failed":
        return f"failed at {step}: {run['failureCode']}"
    text = state if step is None else f"{state} at {step}"
    if state == "cancelled":
        return f"{text}, which may have been accepted" if run["uncertain"] else text
    if recovery is not None:
        text += f" ({recovery})"
    if told := stuck(inspection):
        text += f", {told}"
    elif run["nextDueAt"] is not None:
        text += f", due {run['nextDueAt']}"
    return f"{text}; its end was asked for" if run["cancelRequested"] else text

"""What a person or a machine sees of a join, on the node as it goes on and with the operator who follows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tools.commands.changes import Changes

_STATES: Final = {
    "pending": "waits for an operator's approval",
    "joining": "its turn has come",
    "joined": "joined",
}


class Progress(Changes):
    """Tells each change of a join once."""

    def state(self, registration: Mapping[str, Any]) -> None:
        """Tell in which state the join is, where in line, and why it has ended where that was not the good end."""
        state, position, failure = (registration[name] for name in ("state", "position", "failure"))
        if not self.new("", (state, position)):
            return
        text = f"approved, number {position} in line" if state == "approved" else _STATES.get(state, state)
        if failure is not None:
            text += (f" at step {failure['step']}" if failure["step"] else "") + _aside(failure["reason"])
        value = {name: registration[name] for name in ("joinId", "state", "position", "failure")}
        self.tell({"event": "state"} | value, f"join {registration['joinId']}: {text}")

    def rafts(self, registration: Mapping[str, Any]) -> None:
        """Tell how far the node has come in each raft, and what stands in its way."""
        for raft in registration["rafts"]:
            name, state, error = raft["name"], raft["state"], raft["error"]
            if self.new(f"raft {name}", (state, error)) and (state, error) != ("absent", None):
                value = {"event": "raft", "raft": name, "state": state, "error": error}
                self.tell(value, f"raft {name}: {state}{_aside(error)}")

    def step(self, step: str, status: str, message: str | None) -> None:
        """Tell how far a step is."""
        if self.new(f"step {step}", (status, message)):
            value = {"event": "step", "step": step, "status": status, "message": message}
            self.tell(value, f"{step}: {status}{_aside(message)}")

    def knows_step(self, step: str) -> bool:
        """Whether anything was told of a step."""
        return self.knows(f"step {step}")

    def line(self, step: str | None, message: str, facts: Mapping[str, Any] | None = None) -> None:
        """Tell a log line; `facts` is what a machine is told beside it."""
        # A message may hold several lines, and each has to be seen as one of this node.
        text = "\n".join(f"  {step or '-'} | {line}" for line in message.split("\n"))
        self.tell({"event": "line", "step": step, "message": message, **(facts or {})}, text)

    def dropped(self, count: int) -> None:
        """Tell that lines came which are not kept any more."""
        self.tell({"event": "dropped", "lines": count}, f"  … {count} lines are not kept any more")


def _aside(message: str | None) -> str:
    # Lines of its own would look like lines of ours.
    return f" ({' '.join(message.splitlines())})" if message else ""

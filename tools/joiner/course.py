"""The course of a join on its node: registered, approved, its steps one after the other in its turn, joined."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from handlers.steps import leftover, runner
from handlers.steps.runner import StepFailed, Surroundings
from tools.commands.terminal import RefusedError
from tools.joiner.folder import Node, NodeFolder
from tools.joiner.founder import Founder, JoinEnded, Pace
from tools.joiner.pieces import Pieces
from tools.joiner.planfile import PlanFile
from tools.joiner.progress import Progress
from tools.joiner.reporter import Reporter

TOKEN_VARIABLE: Final = "GATEHOUSE_JOIN_TOKEN"  # noqa: S105 - the name of a variable
RAFT_STEP: Final = "raft:"
# Waiting for something that mostly comes at once begins with this.
FIRST_PAUSE_SECONDS: Final = 0.05

_ENDED_BADLY: Final = frozenset({"rejected", "failed", "expired"})

Registration: TypeAlias = Mapping[str, Any]


class Course:
    """One process's part in a join; another process may go on where it was."""

    def __init__(
        self, founder: Founder, folder: NodeFolder, node: Node, plan: PlanFile, progress: Progress, pace: Pace
    ) -> None:
        self._founder = founder
        self._folder = folder
        self._node = node
        self._plan = plan
        self._progress = progress
        self._pace = pace
        self._reporter = Reporter(founder, folder, progress, pace)

    async def run(self) -> None:
        """Go on until the node has joined; RefusedError tells why it has not."""
        await leftover.end(self._folder.mark_file, grace_seconds=runner.GRACE_SECONDS)
        registration = await self._registered()
        self._plan.fit(registration["plan"])
        await self._until(_has_turn)
        try:
            await self._turn()
        except JoinEnded:
            # The registration tells why, and it is the last word where the end was the good one.
            await self._until(_has_joined)

    async def _registered(self) -> Registration:
        """Return the folder's registration, or a new one where there is none or it has ended and a token is new."""
        if self._folder.join() is None:
            await self._founder.register()
        registration = await self._founder.registration()
        if registration["state"] in _ENDED_BADLY and self._founder.has_other_token:
            await self._founder.register()
            registration = await self._founder.registration()
        self._folder.be(self._node)
        return registration

    async def _until(self, ready: Callable[[Registration], bool]) -> Registration:
        """Ask for the registration until it is ready; RefusedError where the join has ended in any bad way."""
        pause = min(FIRST_PAUSE_SECONDS, self._pace.question)
        while True:
            registration = await self._founder.registration()
            self._progress.state(registration)
            self._progress.rafts(registration)
            if registration["state"] in _ENDED_BADLY:
                raise _failed(registration)
            if ready(registration):
                return registration
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._pace.question)

    async def _turn(self) -> None:
        """Run and report the steps; whichever of the two fails ends the other."""
        await self._reporter.resend()
        tasks = [asyncio.create_task(each) for each in (self._steps(), self._reporter.run())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _steps(self) -> None:
        registration = await self._until(_has_turn)
        for step in registration["steps"]:
            if step["status"] != "done":
                await self._step(step["step"])
        await self._until(_has_joined)

    async def _step(self, step: str) -> None:
        await self._reporter.step(step, "running")
        registration = await self._until(lambda now: _may_run(step, now))
        command = self._plan.commands.get(step)
        if command is not None:
            around = Surroundings(environment=_environment(registration, step), mark=self._folder.mark_file)
            try:
                await runner.run(command, around, Pieces(), lambda line: self._reporter.line(step, line))
            except StepFailed as failure:
                await self._reporter.step(step, "failed", str(failure))
                detail, reason = f"step {step} failed: {failure}", {"step": step, "reason": str(failure)}
                raise RefusedError(detail, _body(registration["joinId"], "failed", reason, detail)) from None
        await self._reporter.step(step, "done")


def _has_turn(registration: Registration) -> bool:
    return registration["state"] in ("joining", "joined")


def _has_joined(registration: Registration) -> bool:
    return bool(registration["state"] == "joined")


def _may_run(step: str, registration: Registration) -> bool:
    """Whether the node is where a step's command needs it: in its raft, or a voter of all of them."""
    states = {f"{RAFT_STEP}{raft['name']}": raft["state"] for raft in registration["rafts"]}
    if step == "complete":
        return all(state == "voter" for state in states.values())
    return states.get(step, "voter") in ("learner", "promoting", "voter")


def _environment(registration: Registration, step: str) -> dict[str, str]:
    """Return what a step's command finds in its environment: that of the joiner but for the token, and the join."""
    environment = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
    environment |= {
        "GATEHOUSE_JOIN_ID": registration["joinId"],
        "GATEHOUSE_JOIN_NAME": registration["name"],
        "GATEHOUSE_JOIN_ADDRESS": registration["address"],
    }
    for raft in registration["rafts"]:
        if step == f"{RAFT_STEP}{raft['name']}":
            environment |= _raft_environment(registration["name"], raft)
    return environment


def _raft_environment(node: str, raft: Mapping[str, Any]) -> dict[str, str]:
    peers = raft["peers"]
    return {
        "GATEHOUSE_RAFT_NAME": raft["name"],
        # What etcd calls the initial cluster.
        "GATEHOUSE_RAFT_PEERS": ",".join(f"{peer['name']}={peer['peerUrl']}" for peer in peers),
        "GATEHOUSE_RAFT_PEER_URLS": ",".join(peer["peerUrl"] for peer in peers if peer["name"] == node),
    }


def _failed(registration: Registration) -> RefusedError:
    detail, failure = f"the join is {registration['state']}", registration["failure"]
    if failure is not None:
        detail += (f" at step {failure['step']}" if failure["step"] else "") + f": {failure['reason']}"
    return RefusedError(detail, _body(registration["joinId"], registration["state"], failure, detail))


def _body(join_id: str, state: str, failure: Mapping[str, Any] | None, detail: str) -> dict[str, Any]:
    return {"error": "join", "joinId": join_id, "state": state, "failure": failure, "detail": detail}

"""Kills servers and executors at seeded moments while they carry runs out, and proves that each run went its right way.

By hand: `python -m tests.durability.kills --kills 100 --workflows 500 --seed 1` prints the figures as JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from tests.durability.executions import (
    call,
    connection,
    end,
    executor,
    for_a_person,
    kill_executor,
    retry,
    settle,
    start,
    workflow,
)
from tests.durability.ledger import verify
from tests.support.gatehouse import CARRIED_OUT, Gatehouse, wait_for
from tests.support.receivers import Idempotent, Received, Receiver, Reply, of_json
from tests.support.wire import ConnectionEnded

FLOW: Final = "errand"
_SAID: Final = {"name": "input.name", "run": "run.id"}

# Every type of step, and every recovery. What a run does follows from its input, so that its right outcome is known.
ERRAND: Final = workflow(
    FLOW,
    {
        "pause": {
            "type": "wait-until",
            "until": "timestamp(run.admittedAt) + duration(input.pause)",
            "next": "look",
        },
        "look": call("states", "GET", "'states'", "which"),
        "which": {
            "type": "choose",
            "cases": [{"when": "steps.look.body.ready", "next": "tell"}],
            "else": "book",
        },
        "tell": call("notices", "POST", "'notices'", "book", _SAID),
        "book": call("bookings", "POST", "'bookings'", "whether", _SAID),
        "whether": {"type": "choose", "cases": [{"when": "input.orders", "next": "order"}], "else": "done"},
        "order": call("orders", "PUT", "'orders'", "ordered", _SAID),
        "ordered": {
            "type": "finish",
            "outcome": "ordered",
            "output": {"name": "input.name", "book": "steps.book.body.key", "order": "steps.order.body.key"},
        },
        "done": {
            "type": "finish",
            "outcome": "done",
            "output": {"name": "input.name", "book": "steps.book.body.key"},
        },
    },
)
_VICTIMS: Final = ("server", "executor", "both")
_MOMENTS: Final = ("held", "answered", "any", "admitting")
# How long a moment is waited for, which comes about unless all that was admitted has gone by.
_PATIENCE_SECONDS: Final = 20.0
# So long one run may take while executors go on dying.
_LONG_SECONDS: Final = 300.0


class Errand(NamedTuple):
    """One run that is to be, and what it is given."""

    number: int
    pause: str
    orders: bool

    @property
    def name(self) -> str:
        return f"n{self.number}"

    @property
    def ready(self) -> bool:
        return _is_ready(self.name)

    def keys(self, run: str) -> set[str]:
        """The keys of the commands that it takes."""
        steps = {"book", *(["tell"] if self.ready else []), *(["order"] if self.orders else [])}
        return {f"{run}.{step}" for step in steps}

    def outcome(self, run: str) -> tuple[str, str, dict[str, str]]:
        """The state, the outcome and the output in which the run has to end."""
        output = {"name": self.name, "book": f"{run}.book"}
        if self.orders:
            return "completed", "ordered", output | {"order": f"{run}.order"}
        return "completed", "done", output


class Trap:
    """A moment in a call: `sprung` once a request below `path` has come; where it `holds`, each is until `let_go`."""

    def __init__(self, path: str, *, holds: bool) -> None:
        self.sprung = threading.Event()
        self._go = threading.Event()
        self._path = path
        if not holds:
            self._go.set()

    def hold(self, received: Received) -> None:
        """Hold a request that was worked on and is about to be answered."""
        if received.target.startswith(self._path):
            self.sprung.set()
            self._go.wait()

    def let_go(self) -> None:
        """Hold nothing any more."""
        self._go.set()


class Services:
    """What the errands call: one receiver that answers each command by its key."""

    def __init__(self) -> None:
        self.memory = Idempotent()
        self.receiver = Receiver(self._answer)
        self._trap: Trap | None = None

    def __enter__(self) -> Self:
        self.receiver.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._trap is not None:
            self._trap.let_go()
        self.receiver.__exit__()

    @property
    def connections(self) -> dict[str, Any]:
        """The settings of the connections to it."""
        url = self.receiver.url
        return {
            "states": connection(url),
            "notices": connection(url, "same-command"),
            "bookings": connection(url, "same-command-and-receipt"),
            "orders": connection(url, "hold-after-dispatch"),
        }

    @property
    def by_key(self) -> dict[str, list[Received]]:
        """The commands that arrived."""
        return self.receiver.by_key

    def lay(self, trap: Trap) -> None:
        """Let a trap be the only one."""
        self._trap = trap

    def _answer(self, received: Received) -> Reply:
        if received.target.startswith("/states/"):
            reply = of_json({"ready": _is_ready(received.target.rpartition("/")[2])})
        else:
            reply = self.memory(received)
        if self._trap is not None:
            self._trap.hold(received)
        return reply


class Siege:
    """One server under kills, the errands that it was given, and their runs."""

    def __init__(self, server: Gatehouse, services: Services, seed: int) -> None:
        self.server = server
        self.services = services
        self.runs: dict[str, Errand] = {}
        self.moments: Counter[str] = Counter()
        self._chance = random.Random(seed)
        self._up = threading.Event()
        self._up.set()

    def endure(self, *, kills: int, workflows: int) -> None:
        """Admit so many errands, in as many lots as there are kills, and kill once within each lot."""
        errands = iter([self._errand(number) for number in range(workflows)])
        for lot in range(kills):
            size = workflows * (lot + 1) // kills - workflows * lot // kills
            self._kill_within([next(errands) for _ in range(size)])

    def admit(self, errands: Iterable[Errand]) -> None:
        """Start a run for each, while the server may be away for a while."""
        for errand in errands:
            self.runs[wait_for(partial(self._acknowledged, errand))] = errand

    def prove(self) -> dict[str, Any]:
        """Wait for the end of all runs, let a person accept what waits for one, and return the figures.

        Fails where a run is lost or ended in another way than its own, and where a command came in two forms or, over
        hold-after-dispatch, twice without a person.
        """
        found = settle(self.server, list(self.runs), seconds=_LONG_SECONDS)
        arrived = self.services.by_key
        waiting = [run for run, seen in found.items() if for_a_person(seen)]
        assert [run for run in self.runs if len(arrived.get(f"{run}.order", ())) > 1] == []
        assert {(self.runs[run].orders, found[run]["step"]) for run in waiting} <= {(True, "order")}
        for run in waiting:
            assert retry(self.server, run) == (409, "mutation.uncertain")
            assert retry(self.server, run, repeat=True) == (200, "")
        for run, errand in self.runs.items():
            ended = end(self.server, run)
            assert (ended["state"], ended["outcome"], ended["output"]) == errand.outcome(run)
        self._prove_commands()
        assert sum(self.server.operate("GET", "/v1/doctor").json["runs"].values()) == len(self.runs)
        verify(self.server)
        commands = self.services.by_key.values()
        return {
            "runs": len(self.runs),
            "kills": dict(self.moments),
            "commands": len(commands),
            "sentAgain": sum(len(sendings) > 1 for sendings in commands),
            "acceptedByAPerson": len(waiting),
        }

    def _prove_commands(self) -> None:
        arrived = self.services.by_key
        assert set(arrived) == {key for run, errand in self.runs.items() for key in errand.keys(run)}
        assert self.services.memory.conflicts == []
        assert [each for each in arrived.values() if len({received.command for received in each}) > 1] == []

    def _errand(self, number: int) -> Errand:
        pause = self._chance.choice(("0s", "0s", "1s", "3s"))
        return Errand(number, pause, self._chance.random() < 0.4)

    def _kill_within(self, errands: Sequence[Errand]) -> None:
        victim, moment = self._chance.choice(_VICTIMS), self._chance.choice(_MOMENTS)
        trap = Trap(self._chance.choice(_calls(errands)), holds=moment == "held")
        self.services.lay(trap)
        killing = threading.Thread(target=self._kill, args=[victim])
        if moment == "admitting":
            killing.start()
            self.admit(errands)
        else:
            self.admit(errands)
            if moment == "any":
                time.sleep(self._chance.uniform(0, 1.5))
            elif not trap.sprung.wait(_PATIENCE_SECONDS):
                moment = "missed"
            killing.start()
        self.moments[f"{victim} {moment}"] += 1
        killing.join()
        trap.let_go()

    def _kill(self, victim: str) -> None:
        if victim == "executor" or (victim == "both" and executor(self.server) is not None):
            kill_executor(self.server)
        if victim != "executor":
            self._up.clear()
            self.server.kill()
            self.server.start()
            self._up.set()

    def _acknowledged(self, errand: Errand) -> str | None:
        """Start an errand and return its run; None where the server is away, so that it has to be told again."""
        try:
            return start(self.server, FLOW, errand.name, name=errand.name, pause=errand.pause, orders=errand.orders)
        except (OSError, ConnectionEnded):
            # Its port is nobody's now: who goes on asking there meets others, or itself.
            self._up.wait(_PATIENCE_SECONDS)
            return None


@contextlib.contextmanager
def besieged(server: Gatehouse, seed: int) -> Iterator[Siege]:
    """Start a server that carries errands out."""
    with Services() as services:
        server.configure(connections=services.connections)
        server.apply(ERRAND)
        with server:
            wait_for(lambda: executor(server))
            yield Siege(server, services, seed)


def lay_siege(server: Gatehouse, *, kills: int, workflows: int, seed: int) -> dict[str, Any]:
    """Carry errands out on a server that is not started yet, under kills, and return the figures."""
    with besieged(server, seed) as siege:
        siege.endure(kills=kills, workflows=workflows)
        return siege.prove()


def main() -> None:
    """Do it by hand."""
    parser = argparse.ArgumentParser(prog="python -m tests.durability.kills", description=__doc__)
    for name, usual in (("--kills", 20), ("--workflows", 50), ("--seed", 1)):
        parser.add_argument(name, type=int, default=usual)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gatehouse-kills-") as folder:
        server = Gatehouse(Path(folder) / "state", environment=CARRIED_OUT)
        done = server.run("init", "--state", str(server.state))
        assert done.returncode == 0, done.stderr
        figures = lay_siege(server, kills=wanted.kills, workflows=wanted.workflows, seed=wanted.seed)
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")


def _calls(errands: Sequence[Errand]) -> list[str]:
    """The beginnings of the targets that these errands call."""
    told = ["/notices/"] if any(errand.ready for errand in errands) else []
    ordered = ["/orders/"] if any(errand.orders for errand in errands) else []
    return ["/states/", "/bookings/", *told, *ordered]


def _is_ready(name: str) -> bool:
    return int(name[1:]) % 2 == 0


if __name__ == "__main__":
    main()

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
import rfc8785

from tests.durability.executions import call, connection, end, executor, show, start, workflow
from tests.support.deliveries import Delivery, envelope, raw_envelope
from tests.support.gatehouse import CARRIED_OUT, Gatehouse, NewServer, wait_for
from tests.support.packages import Workflow
from tests.support.packages import workflow as triggered
from tests.support.receivers import Received, Receiver, Reply

LARGEST_EVENT: Final = 131_072
DEEP: Final = 10_000

# What is answered below `/how/`: all of it is JSON that a receiver may send.
ANSWERS: Final[dict[str, bytes]] = {
    "deep": b"[" * DEEP + b"]" * DEEP,
    "members": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "levels": b"[" * 64 + b"]" * 64,
    "numbers": b"1" * 200_000,
    "exponent": b"1e999",
    "list": json.dumps(list(range(40_000))).encode(),
    "text": json.dumps("x" * 100_000).encode(),
    "twice": b'{"a": 1, "a": 2}',
    "surrogate": b'"\\ud800"',
    "nothing": b"",
}
# A mapping of what was answered, and how the run has to end: with a failure code, or None where it completes.
MAPPINGS: Final[dict[tuple[str, str], tuple[Any, str | None]]] = {
    ("deep", "itself"): ("steps.ask.body", "response.invalid"),
    ("members", "itself"): ("steps.ask.body", "response.invalid"),
    ("levels", "wrapped"): ([[["steps.ask.body"]]], "mapping.failed"),
    ("numbers", "itself"): ("steps.ask.body", "response.invalid"),
    ("exponent", "itself"): ("steps.ask.body", "response.invalid"),
    ("list", "squared"): ("steps.ask.body.map(x, steps.ask.body)", "mapping.failed"),
    ("list", "many-times"): (["steps.ask.body.map(x, x + 1)"] * 128, "mapping.failed"),
    ("text", "many-times"): (["steps.ask.body"] * 128, "output.invalid"),
    ("text", "joined"): (" + ".join(["steps.ask.body"] * 60), "mapping.failed"),
    ("text", "searched"): ("steps.ask.body.contains('y')", None),
    ("twice", "itself"): ("steps.ask.body", "response.invalid"),
    ("surrogate", "itself"): ("steps.ask.body", "response.invalid"),
    ("nothing", "member"): ("steps.ask.body.a", "mapping.failed"),
}
FIELDS: Final = {"Content-Type": "application/json"}


def flow(how: str, name: str) -> str:
    return f"{how}-{name}"


def hostile(how: str, name: str, mapping: Any) -> Workflow:
    steps = {
        "ask": call("states", "GET", f"'{how}'", "done"),
        "done": {"type": "finish", "outcome": "done", "output": {"made": mapping}},
    }
    return workflow(flow(how, name), steps)


def plain() -> Workflow:
    """A workflow that ends at once with the case of its event."""
    finish = {"type": "finish", "outcome": "followed-up", "output": {"caseId": "input.caseId"}}
    return triggered(version="2") | {"start": "done", "steps": {"done": finish}}


@dataclass(frozen=True)
class World:
    """A server, and the process that carries its runs out."""

    server: Gatehouse
    executor: int

    def lives(self) -> bool:
        """Whether the executor is the one it was, and runs are carried out."""
        run = self.server.deliver().run
        return end(self.server, run)["state"] == "completed" and executor(self.server) == self.executor


def answer(received: Received) -> Reply:
    return Reply(fields=FIELDS, body=ANSWERS[received.target.split("/")[1]])


@pytest.fixture(scope="module")
def world(new_server: NewServer) -> Iterator[World]:
    made = new_server(environment=CARRIED_OUT)
    with Receiver(answer) as receiver:
        made.configure(connections={"states": connection(receiver.url, maxResponseBytes=1_048_576)})
        made.apply(plain(), *(hostile(how, name, mapping) for (how, name), (mapping, _) in MAPPINGS.items()))
        with made as server:
            yield World(server, wait_for(lambda: executor(server)))


def test_every_hostile_answer_and_mapping_ends_its_own_run_alone(world: World) -> None:
    runs = {pair: start(world.server, flow(*pair), name="n") for pair in MAPPINGS}
    found = {pair: end(world.server, run)["failureCode"] for pair, run in runs.items()}
    assert found == {pair: code for pair, (_, code) in MAPPINGS.items()}
    assert world.lives()


def test_the_largest_event_is_carried_out(world: World) -> None:
    spare = LARGEST_EVENT - len(rfc8785.dumps(envelope(data={"caseId": ""})))
    case = "C" * spare
    delivery = Delivery(event=envelope(data={"caseId": case}))
    assert len(delivery.body) == LARGEST_EVENT
    found = end(world.server, world.server.deliver(delivery).run)
    assert found["output"] == {"caseId": case}
    larger = Delivery(event=envelope(data={"caseId": case + "C"}))
    assert world.server.deliver(larger).outcome == (413, "event.too-large")
    assert world.lives()


@pytest.mark.parametrize(
    "data", [b"[" * DEEP + b"]" * DEEP, b'{"caseId":' * DEEP + b'"C"' + b"}" * DEEP], ids=["lists", "objects"]
)
def test_an_event_of_ten_thousand_levels_is_refused(world: World, data: bytes) -> None:
    event, body = raw_envelope(data)
    assert world.server.deliver(Delivery(event=event, body=body)).outcome == (400, "event.invalid")
    assert world.lives()


EXPLODING: Final[dict[str, Callable[[], Any]]] = {
    "deep": lambda: json.loads("[" * 200 + '"1"' + "]" * 200),
    "brackets": lambda: "(" * 2_000 + "1" + ")" * 2_000,
    "long": lambda: "1" + " + 1" * 50_000,
    "macros": lambda: "[1].map(a, [1].map(b, [1].map(c, a)))",
    "wide": lambda: ["input.a"] * 10_000,
}


@pytest.mark.parametrize("kind", list(EXPLODING))
def test_a_mapping_that_explodes_is_refused_before_it_can_be_carried_out(world: World, kind: str) -> None:
    finish = {"type": "finish", "outcome": "done", "output": EXPLODING[kind]()}
    folder = world.server.state.parent / "exploding"
    folder.mkdir(exist_ok=True)
    (folder / "exploding.yaml").write_text(json.dumps(workflow("exploding", {"done": finish})))
    refused = world.server.run("workflows", "apply", str(folder), "--state", str(world.server.state))
    assert refused.returncode == 1, refused
    assert "Traceback" not in refused.stderr
    assert world.lives()


def test_a_name_that_is_no_segment_of_a_path_fails_its_run(world: World) -> None:
    runs = [start(world.server, flow("twice", "itself"), name=name) for name in ("..", ".", "", None, ["a"])]
    assert [end(world.server, run)["failureCode"] for run in runs] == ["request.invalid"] * 5
    run = start(world.server, flow("text", "searched"), name="/../é?#%\\")
    assert end(world.server, run)["state"] == "completed"
    assert show(world.server, run)["output"] == {"made": False}

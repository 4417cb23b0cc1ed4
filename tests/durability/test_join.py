from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Any, Final

import pytest

from storage import verification
from tests.durability.conftest import on_postgresql
from tests.storage.postgresql import Server
from tests.support.effort import in_ci_alone, tries
from tests.support.gatehouse import Gatehouse, NewServer, wait_for
from tests.support.nodes import JSON, PLAN, RAFT, Node, assert_a_reader_misses_nothing, line, lines, step
from tests.support.wire import message

BATCHES: Final = 40
LINES: Final = 20


def kill_and_start(server: Gatehouse) -> None:
    server.kill()
    server.start()


def raft(node: Node) -> str:
    return str(node.server.registration(node.join_id)["rafts"][0]["state"])


def prove(server: Gatehouse) -> None:
    """Fail unless the database and the audit are whole, and the server's log has no fault."""
    with server.database() as connection:
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    audit = verification.verify(
        f"sqlite:///{server.state / 'gatehouse.db'}", node="local", audit_file=server.state / "audit.jsonl"
    )
    assert audit.faults == ()
    assert "Traceback" not in server.log


def test_after_a_kill_every_join_stands_where_it_stood_and_the_right_one_goes_on(server: Gatehouse) -> None:
    joined, failed, rejected = Node.in_turn(server), Node.registered(server), Node.registered(server)
    joined.finish()
    failed.approved()
    wait_for(lambda: failed.state == "joining")
    assert failed.report(step(RAFT, "running")).status == 204
    failed.fail()
    assert server.reject(rejected.join_id).status == 200
    joining, approved, pending = Node.in_turn(server), Node.registered(server).approved(), Node.registered(server)
    assert joining.report(step(RAFT, "running"), line("before the kill")).status == 204
    wait_for(lambda: raft(joining) == "learner")
    nodes = [joined, failed, rejected, joining, approved, pending]
    before = [server.registration(node.join_id) for node in nodes]
    assert [each["state"] for each in before] == [
        "joined",
        "failed",
        "rejected",
        "joining",
        "approved",
        "pending",
    ]

    kill_and_start(server)
    assert [server.registration(node.join_id) for node in nodes] == before
    for node in (joined, failed, rejected):
        assert node.report(line("never")).outcome == (409, "JOIN_ENDED")
    for node in (approved, pending):
        assert node.report(line("never")).outcome == (409, "JOIN_NOT_IN_TURN")
    joining.finish()
    assert [each["message"] for each in server.join_log(joining.join_id)["lines"]] == ["before the kill"]
    wait_for(lambda: approved.state == "joining")
    pending.approved()
    approved.finish()
    wait_for(lambda: pending.state == "joining")
    pending.leave()
    prove(server)


@pytest.mark.parametrize("seed", range(tries(5, elsewhere=1)))
def test_a_raft_change_that_a_kill_interrupts_is_carried_out_after_the_start(server: Gatehouse, seed: int) -> None:
    chance = random.Random(seed)
    node = Node.in_turn(server)
    following = Node.registered(server).approved()

    def kill_after(*events: Any) -> None:
        assert node.report(*events).status == 204
        time.sleep(chance.uniform(0, 0.005))
        kill_and_start(server)

    kill_after(step(RAFT, "running"))
    wait_for(lambda: raft(node) == "learner")
    done = [step(RAFT, "done"), step("services", "done"), step("complete", "running")]
    if seed % 2:
        kill_after(*done)
        wait_for(lambda: raft(node) == "voter")
    kill_after(step("services" if not seed % 2 else "complete", "failed"))
    assert node.report().outcome == (409, "JOIN_ENDED")
    wait_for(lambda: following.state == "joining")
    assert raft(node) == "removed"
    with server.database() as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM ledger_members")}
    assert node.request()["name"] not in names
    following.leave()
    prove(server)


@pytest.mark.parametrize("seed", range(tries(6, elsewhere=1)))
def test_a_kill_in_a_stream_of_batches_loses_no_acknowledged_line_and_doubles_none(
    server: Gatehouse, seed: int
) -> None:
    chance = random.Random(seed)
    node = Node.in_turn(server)
    killed_in = chance.randrange(5, BATCHES - 5)

    def send(numbers: range) -> None:
        with node.connect() as wire:
            for number in numbers:
                assert node.report(*lines(number * LINES, LINES), key=f"batch-{number}", over=wire).status == 204

    send(range(killed_in))
    body = json.dumps({"events": lines(killed_in * LINES, LINES)}).encode()
    with node.connect() as wire:
        fields = JSON | {"Idempotency-Key": f"batch-{killed_in}"}
        wire.write(message("POST", f"{node.path}/events", fields, body))
        time.sleep(chance.uniform(0, 0.01))
        kill_and_start(server)
    send(range(max(0, killed_in - 3), BATCHES))
    log = server.join_log(node.join_id)
    assert log["dropped"] == 0
    assert [each["message"] for each in log["lines"]] == [f"line {number}" for number in range(BATCHES * LINES)]
    assert [each["seq"] for each in log["lines"]] == list(range(1, BATCHES * LINES + 1))
    node.leave()
    prove(server)


def test_a_batch_that_the_audit_file_held_up_is_sent_again_and_the_raft_changes_follow(server: Gatehouse) -> None:
    node = Node.in_turn(server)
    events = [line("the only line"), step(RAFT, "running")]
    file = server.state / "audit.jsonl"
    file.rename(file.with_name("kept.jsonl"))
    file.mkdir()
    for _ in range(2):
        answer = node.report(*events, key="held-up")
        assert (answer.outcome, answer.header("Retry-After")) == ((503, "UNAVAILABLE"), "5")
    file.rmdir()
    file.with_name("kept.jsonl").rename(file)
    assert node.report(*events, key="held-up").status == 204
    wait_for(lambda: raft(node) == "learner")
    assert [each["message"] for each in server.join_log(node.join_id)["lines"]] == ["the only line"]
    node.finish()
    prove(server)


def report_and_leave(node: Node, events: list[Any], key: str) -> None:
    """Send a batch and go away without its answer."""
    body = json.dumps({"events": events}).encode()
    with node.connect() as wire:
        wire.write(message("POST", f"{node.path}/events", JSON | {"Idempotency-Key": key}, body))


def fail(node: Node) -> list[Any]:
    assert node.report(step("services", "running")).status == 204
    return [line("the last line"), step("services", "failed")]


def complete(node: Node) -> list[Any]:
    assert node.report(step(RAFT, "running")).status == 204
    wait_for(lambda: raft(node) == "learner")
    early = [step(name, "done") for name in PLAN[:-1]]
    assert node.report(*early, step("complete", "running")).status == 204
    wait_for(lambda: raft(node) == "voter")
    return [line("the last line"), step("complete", "done")]


ENDS: Final = [(fail, "failed"), (complete, "joined")]


def lose_both_answers(node: Node, prepare: Callable[[Node], list[Any]], end: str) -> list[Any]:
    """Report two batches without hearing of either, the second of which ends the join; return that one's events."""
    events = prepare(node)
    report_and_leave(node, [line("the first line")], "first")
    wait_for(lambda: node.server.join_log(node.join_id)["lines"])
    assert node.report(line("the first line"), key="first").status == 204
    report_and_leave(node, events, "last")
    wait_for(lambda: node.state == end)
    return events


def test_a_batch_that_ended_the_join_and_whose_answer_was_lost_is_sent_again_and_nothing_is_twice(
    server: Gatehouse,
) -> None:
    ended = {node: lose_both_answers(node, *how) for how in ENDS for node in [Node.in_turn(server)]}
    before = [server.registration(node.join_id) for node in ended]
    kill_and_start(server)
    for node, events in ended.items():
        for _ in range(2):
            assert node.report(*events, key="last").status == 204
            assert node.report(line("the first line"), key="first").status == 204
        assert node.report(*events, key="new").outcome == (409, "JOIN_ENDED")
        assert node.report(*events[:1], key="last").outcome == (409, "IDEMPOTENCY_KEY_REUSED")
        messages = [each["message"] for each in server.join_log(node.join_id)["lines"]]
        assert messages == ["the first line", "the last line"]
    assert [server.registration(node.join_id) for node in ended] == before
    prove(server)


@in_ci_alone
def test_a_reader_misses_no_line_on_postgresql_either(new_server: NewServer, postgresql: Server) -> None:
    with on_postgresql(new_server, postgresql.create("join")) as server:
        node = Node.in_turn(server)
        assert_a_reader_misses_nothing(node, batches=100)
        node.leave()

from __future__ import annotations

from pathlib import Path

from tests.durability.ledger import Ledger, problems, statuses
from tests.durability.process import no_file_beyond
from tests.support import load
from tests.support.gatehouse import Gatehouse, NewServer

UNAVAILABLE = (503, "service.unavailable", "5")


def largest(folder: Path) -> int:
    return max(file.stat().st_size for file in folder.iterdir())


def test_a_disk_that_fills_up_under_load_is_answered_503_until_there_is_room_again(
    server: Gatehouse, ledger: Ledger
) -> None:
    before = len(ledger)
    first, second = load.deliveries(500), load.deliveries(100)
    with no_file_beyond(server, largest(server.state) + 300_000):
        outcomes = ledger.send(server, first)
        assert statuses(outcomes) == {204, 503}
        assert problems(outcomes) == {UNAVAILABLE}
        assert problems(ledger.send(server, second)) == {UNAVAILABLE}
        assert server.send("GET", "/health").status == 200
        assert before < ledger.compare(server) < before + len(first)

    ledger.redeliver(server, [*first, *second])
    assert ledger.prove(server) == before + len(first) + len(second)


def test_a_disk_that_takes_nothing_at_all_is_answered_503_until_it_does(server: Gatehouse, ledger: Ledger) -> None:
    before = len(ledger)
    deliveries = load.deliveries(100)
    with no_file_beyond(server, 1):
        assert problems(ledger.send(server, deliveries)) == {UNAVAILABLE}
        assert server.send("GET", "/health").status == 200
        assert ledger.compare(server) == before

    ledger.redeliver(server, deliveries)
    assert ledger.prove(server) == before + len(deliveries)


def test_a_database_locked_by_another_process_is_answered_503_until_the_lock_is_gone(new_server: NewServer) -> None:
    ledger, deliveries = Ledger(), load.deliveries(200)
    impatient = new_server()
    impatient.configure(limits={"busyMilliseconds": 100})
    with impatient as server, server.database() as other:
        ledger.redeliver(server, deliveries[:100])
        other.execute("BEGIN EXCLUSIVE")
        assert problems(ledger.send(server, deliveries[100:])) == {UNAVAILABLE}
        assert server.send("GET", "/health").status == 200
        assert server.send("GET", "/ready").status == 200
        other.execute("ROLLBACK")

        assert ledger.compare(server) == 100
        ledger.redeliver(server, deliveries)
        assert ledger.prove(server) == len(deliveries)


def test_a_lock_that_ends_in_time_delays_answers_and_refuses_none(new_server: NewServer) -> None:
    ledger, deliveries = Ledger(), load.deliveries(64)
    patient = new_server()
    patient.configure(limits={"busyMilliseconds": 30_000})
    with patient as server, server.database() as other:
        other.execute("BEGIN EXCLUSIVE")
        with load.unanswered(server.port, [load.signed(delivery, server.key) for delivery in deliveries]) as wires:
            other.execute("ROLLBACK")
            ledger.note(deliveries, [wire.read() for wire in wires])
        assert len(ledger) == ledger.prove(server) == len(deliveries)

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.durability.ledger import Ledger, problems, statuses
from tests.support import load
from tests.support.gatehouse import Gatehouse

UNAVAILABLE = (503, "service.unavailable", "5")


@pytest.fixture
def file(server: Gatehouse) -> Path:
    return server.state / "gatehouse.db"


@pytest.fixture
def away(server: Gatehouse) -> Path:
    return server.state / "away.db"


def test_a_database_that_is_taken_away_and_brought_back_is_answered_503_meanwhile(
    server: Gatehouse, ledger: Ledger, file: Path, away: Path
) -> None:
    deliveries = load.deliveries(200)
    ledger.redeliver(server, deliveries[:100])
    file.rename(away)
    assert problems(ledger.send(server, deliveries[100:])) == {UNAVAILABLE}
    assert server.send("GET", "/health").status == 200
    assert server.send("GET", "/ready").outcome == UNAVAILABLE[:2]
    assert not file.exists()

    away.rename(file)
    assert server.send("GET", "/ready").status == 200
    ledger.redeliver(server, deliveries)
    assert ledger.prove(server) == len(ledger)


def test_a_database_taken_away_under_load_loses_nothing_that_was_acknowledged(
    server: Gatehouse, ledger: Ledger, file: Path, away: Path
) -> None:
    deliveries = load.deliveries(1_000)

    def move(answered: int) -> None:
        if answered == 300:
            file.rename(away)
        elif answered == 600:
            away.rename(file)

    outcomes = ledger.send(server, deliveries, watch=move)
    assert problems(outcomes) == {UNAVAILABLE}
    assert statuses(outcomes[-1:]) == {204}
    ledger.compare(server)
    ledger.redeliver(server, deliveries)
    assert ledger.prove(server) == len(ledger)


def test_a_database_restored_from_an_older_copy_sets_the_audit_file_aside_and_says_so(
    server: Gatehouse, ledger: Ledger, file: Path, tmp_path: Path
) -> None:
    audit = server.state / "audit.jsonl"
    server.stop()
    shutil.copy(file, tmp_path / "copy.db")
    server.start()
    Ledger().redeliver(server, load.deliveries(50))
    server.stop()
    ahead = audit.read_bytes()
    shutil.copy(tmp_path / "copy.db", file)

    server.start()
    (kept,) = server.state.glob("audit.jsonl.contradicts-*")
    assert kept.read_bytes() == ahead
    assert ahead.startswith(audit.read_bytes())
    told = [json.loads(line)["level"] for line in server.log.splitlines() if kept.name in line]
    assert told == ["error"]
    assert ledger.prove(server) == len(ledger)
    ledger.redeliver(server, load.deliveries(50))
    assert ledger.prove(server) == len(ledger)

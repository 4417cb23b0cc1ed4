from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.durability.ledger import Ledger, problems, statuses, verify
from tests.durability.process import no_file_beyond
from tests.support import load
from tests.support.gatehouse import Gatehouse

AUDIT_UNAVAILABLE = (503, "audit.response-unavailable", "5")


@pytest.fixture
def file(server: Gatehouse) -> Path:
    return server.state / "audit.jsonl"


def put_a_folder(file: Path) -> None:
    file.rename(file.with_name("kept.jsonl"))
    file.mkdir()


def bring_it_back(file: Path) -> None:
    file.rmdir()
    file.with_name("kept.jsonl").rename(file)


def link_to_a_full_disk(file: Path) -> None:
    file.unlink()
    file.symlink_to("/dev/full")


BROKEN = [
    pytest.param(put_a_folder, Path.rmdir, id="a folder, taken away"),
    pytest.param(put_a_folder, bring_it_back, id="a folder, and the file brought back"),
    pytest.param(link_to_a_full_disk, Path.unlink, id="a link to /dev/full"),
]


@pytest.mark.parametrize(("break_it", "mend_it"), BROKEN)
def test_an_audit_file_that_cannot_be_written_refuses_all_after_one_batch_until_it_can(
    server: Gatehouse, ledger: Ledger, file: Path, break_it: Callable[[Path], None], mend_it: Callable[[Path], None]
) -> None:
    before = len(ledger)
    stands, *refused = load.deliveries(200)
    ledger.redeliver(server, load.deliveries(10))
    break_it(file)
    assert problems(ledger.send(server, [stands])) == {AUDIT_UNAVAILABLE}
    assert ledger.compare(server) == before + 11

    assert problems(ledger.send(server, refused)) == {AUDIT_UNAVAILABLE}
    assert server.send("GET", "/health").status == 200
    assert ledger.compare(server) == before + 11

    mend_it(file)
    ledger.redeliver(server, [stands, *refused])
    assert ledger.prove(server) == before + 210
    verify(server)


def test_an_audit_file_that_is_removed_under_load_is_written_anew_and_whole(
    server: Gatehouse, ledger: Ledger, file: Path
) -> None:
    before = len(ledger)
    deliveries = load.deliveries(1_000)

    def remove(answered: int) -> None:
        if answered in {200, 500, 800}:
            file.unlink()

    outcomes = ledger.send(server, deliveries, watch=remove)
    assert statuses(outcomes) == {204, 503}
    assert problems(outcomes) == {AUDIT_UNAVAILABLE}
    assert ledger.compare(server) == before + len(deliveries)
    ledger.redeliver(server, deliveries)
    assert ledger.prove(server) == before + len(deliveries)


def test_an_audit_file_that_has_no_room_for_a_whole_line_keeps_no_part_of_it(
    server: Gatehouse, ledger: Ledger, file: Path
) -> None:
    ledger.redeliver(server, load.deliveries(300))
    before = len(ledger)
    stands, *refused = load.deliveries(100)
    # A start empties the log of the database, which then has more room than the audit file.
    server.restart()
    size = file.stat().st_size
    with no_file_beyond(server, size + 50):
        assert problems(ledger.send(server, [stands])) == {AUDIT_UNAVAILABLE}
        assert problems(ledger.send(server, refused)) == {AUDIT_UNAVAILABLE}
        assert file.stat().st_size == size
        assert ledger.compare(server) == before + 1

    ledger.redeliver(server, [stands, *refused])
    assert ledger.prove(server) == before + 100


def test_an_audit_file_cut_off_in_its_last_line_by_a_crash_is_whole_after_the_start(
    server: Gatehouse, ledger: Ledger, file: Path
) -> None:
    ledger.redeliver(server, load.deliveries(50))
    server.kill()
    with file.open("r+b") as opened:
        opened.truncate(file.stat().st_size - 40)
    server.start()
    assert ledger.prove(server) == len(ledger)

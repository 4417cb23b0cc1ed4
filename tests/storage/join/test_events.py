from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from storage.audit import AUDIT
from storage.database import Storage
from storage.join import events as join_events
from storage.join.events import KEYS_KEPT, LINES, LINES_KEPT, Log, LogLine, StoredLine
from storage.join.refusals import Refusal, Refused
from tests.storage.join.work import (
    DONE,
    RAFTS_CHANGED,
    REPEATED,
    approved,
    batch,
    finish,
    joining,
    lines,
    registered,
    report,
    reported,
    standing,
    step,
)
from tests.storage.work import open_storage, rows

pytestmark = pytest.mark.anyio

KEY_REUSED, ORDER = Refused(Refusal.KEY_REUSED), Refused(Refusal.STEP_ORDER)


def not_in_turn(state: Any, position: int | None) -> Refused:
    return Refused(Refusal.NOT_IN_TURN, state, position)


async def whole_log(storage: Storage, join_id: str) -> Log:
    found = await storage.join.events.log(join_id, after=0, limit=LINES_KEPT)
    assert found is not None
    return found


async def beats(storage: Storage) -> int:
    turn = await storage.join.rafts.turn()
    assert turn is not None
    return turn.beats


async def test_lines_are_kept_in_the_order_in_which_they_arrive(storage: Storage, url: str) -> None:
    join_id = await joining(storage)
    events: list[LogLine] = [(7, "services", "\x00 é \U0001f600"), (-5, None, ""), (7, None, "same")]
    before = len(rows(url, AUDIT))
    assert await report(storage, join_id, lines=events) == DONE
    assert await report(storage, join_id, lines=[(7, None, "same")] * 2) == DONE
    assert await whole_log(storage, join_id) == Log(
        [
            StoredLine(1, 7, "services", "\x00 é \U0001f600"),
            StoredLine(2, -5, None, ""),
            StoredLine(3, 7, None, "same"),
            StoredLine(4, 7, None, "same"),
            StoredLine(5, 7, None, "same"),
        ],
        0,
    )
    assert len(rows(url, AUDIT)) == before


async def test_of_10000_lines_exactly_the_newest_2000_are_kept_in_order(storage: Storage, url: str) -> None:
    join_id = await joining(storage)
    for first in range(1, 10_001, 500):
        assert await report(storage, join_id, lines=lines(*range(first, first + 500))) == DONE
    log = await whole_log(storage, join_id)
    assert log.dropped == 8000
    assert [(line.seq, line.at, line.message) for line in log.lines] == [
        (number, number, f"line {number}") for number in range(8001, 10_001)
    ]
    assert len(rows(url, LINES)) == 4


async def test_whatever_the_batches_the_newest_lines_are_kept_and_numbers_go_on(storage: Storage, url: str) -> None:
    join_id = await joining(storage)
    seeded, number = random.Random(3), 0
    for round_ in range(30):
        sizes = [seeded.choice([0, 1, 2, 499, 500]) for _ in range(1 + round_ % 4)]
        starts = [number + sum(sizes[:place]) + 1 for place in range(len(sizes))]
        reports = [
            batch(join_id, lines=lines(*range(start, start + size))) for start, size in zip(starts, sizes, strict=True)
        ]
        assert await reported(storage, *reports) == [DONE] * len(reports)
        number += sum(sizes)
        log = await whole_log(storage, join_id)
        assert log.dropped == max(0, number - LINES_KEPT)
        assert [line.seq for line in log.lines] == [line.at for line in log.lines]
        assert [line.seq for line in log.lines] == list(range(log.dropped + 1, number + 1))
    assert number > 2 * LINES_KEPT
    kept = rows(url, LINES)
    assert all(row.last_seq > number - LINES_KEPT for row in kept)


async def test_more_lines_in_one_batch_of_the_writer_than_are_kept_are_cut_and_counted(storage: Storage) -> None:
    join_id = await joining(storage)
    starts = range(1, 3001, 500)
    await reported(storage, *(batch(join_id, lines=lines(*range(start, start + 500))) for start in starts))
    log = await whole_log(storage, join_id)
    assert (log.dropped, len(log.lines)) == (1000, LINES_KEPT)
    assert (log.lines[0], log.lines[-1]) == (
        StoredLine(1001, 1001, None, "line 1001"),
        StoredLine(3000, 3000, None, "line 3000"),
    )


async def test_a_log_is_read_on_from_any_line(storage: Storage) -> None:
    join_id = await joining(storage)
    for first in range(1, 2102, 7):
        await report(storage, join_id, lines=lines(*range(first, first + 7)))
    events = storage.join.events

    async def seqs(after: int, limit: int) -> list[int]:
        log = await events.log(join_id, after=after, limit=limit)
        assert log is not None
        assert log.dropped == 107
        return [line.seq for line in log.lines]

    assert await seqs(0, 3) == [108, 109, 110]
    assert await seqs(107, 1) == [108]
    assert await seqs(1000, 2) == [1001, 1002]
    assert await seqs(2105, 9) == [2106, 2107]
    assert await seqs(2107, 9) == await seqs(2**80, 9) == []
    assert await events.log("5d1f4a7e-3c52-7b90-8e61-0c2a9f47d813", after=0, limit=9) is None
    assert await events.log("x", after=0, limit=9) is None


async def test_very_long_lines_are_read_in_several_answers(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_events, "READ_AT_ONCE", 1_000)
    join_id = await joining(storage)
    for number in range(5):
        assert await report(storage, join_id, lines=[(number, None, "x" * 600)] * 2) == DONE
    seen: list[int] = []
    while more := await storage.join.events.log(join_id, after=len(seen), limit=LINES_KEPT):
        if not more.lines:
            break
        assert len(more.lines) == 2
        seen += [line.seq for line in more.lines]
    assert seen == list(range(1, 11))


async def test_a_join_that_is_not_there_gets_nothing(storage: Storage) -> None:
    for unknown in ("5d1f4a7e-3c52-7b90-8e61-0c2a9f47d813", "x", "\x00"):
        assert await report(storage, unknown, lines=lines(1)) is None


async def test_before_its_turn_nothing_is_stored(storage: Storage) -> None:
    join_id = (await registered(storage)).join_id
    events = [step("services", "running")]
    assert await report(storage, join_id, *events, lines=lines(1), key="k") == not_in_turn("pending", None)
    await joining(storage)
    earlier = (await registered(storage)).join_id
    await approved(storage, earlier)
    await approved(storage, join_id)
    assert await report(storage, join_id, *events, lines=lines(1), key="k") == not_in_turn("approved", 2)
    assert await reported(storage, *[batch(join_id)] * 2, batch(earlier)) == [
        not_in_turn("approved", 2),
        not_in_turn("approved", 2),
        not_in_turn("approved", 1),
    ]
    assert await whole_log(storage, join_id) == Log([], 0)
    assert (await standing(storage, join_id)).steps[2].status == "waiting"


async def test_after_the_end_nothing_is_stored(storage: Storage) -> None:
    rejected = (await registered(storage)).join_id
    await storage.join.registrations.reject(rejected, "no")
    await finish(storage, joined := await joining(storage))
    failed = await joining(storage)
    await report(storage, failed, step("raft:control", "running"))
    await report(storage, failed, step("services", "failed"))
    for join_id in (rejected, joined, failed):
        before = await standing(storage, join_id)
        ended = Refused(Refusal.ENDED, before.state, None)
        assert await report(storage, join_id, step("services", "running"), lines=lines(1), key="k") == ended
        assert await whole_log(storage, join_id) == Log([], 0)
        assert await standing(storage, join_id) == before


async def test_an_empty_report_renews_the_turn_and_a_refused_one_does_not(storage: Storage) -> None:
    join_id, other = await joining(storage), (await registered(storage)).join_id
    first = await beats(storage)
    assert await report(storage, join_id) == DONE
    assert await beats(storage) == first + 1
    assert await reported(storage, *[batch(join_id)] * 3, batch(other)) == [DONE] * 3 + [not_in_turn("pending", None)]
    assert await beats(storage) == first + 4
    await report(storage, join_id, step("services", "done"))
    assert await report(storage, join_id, step("services", "running")) == ORDER
    assert await beats(storage) == first + 5


async def test_a_key_makes_a_report_once_and_belongs_to_one_body_of_one_join(storage: Storage) -> None:
    join_id = await joining(storage)
    assert await report(storage, join_id, lines=lines(1), key="k") == DONE
    assert await report(storage, join_id, lines=lines(1), key="k") == REPEATED
    assert await report(storage, join_id, lines=lines(2), key="k", body="other") == KEY_REUSED
    assert await report(storage, join_id, lines=lines(3), key="K") == DONE
    assert await reported(
        storage,
        batch(join_id, lines=lines(4), key="new"),
        batch(join_id, lines=lines(4), key="new"),
        batch(join_id, lines=lines(5), key="new", body="other"),
        batch(join_id, lines=lines(6)),
        batch(join_id, lines=lines(6)),
    ) == [DONE, REPEATED, KEY_REUSED, DONE, DONE]
    assert [line.at for line in (await whole_log(storage, join_id)).lines] == [1, 3, 4, 6, 6]
    await report(storage, join_id, step("services", "failed"))
    other = await joining(storage)
    assert await report(storage, other, lines=lines(1), key="k", body="third") == DONE


async def test_the_last_16_keys_are_known(storage: Storage) -> None:
    join_id = await joining(storage)
    keys = [f"k{number}" for number in range(KEYS_KEPT + 3)]
    await reported(storage, *(batch(join_id, key=key) for key in keys[:5]))
    for key in keys[5:]:
        assert await report(storage, join_id, key=key) == DONE
    assert await reported(storage, *(batch(join_id, key=key) for key in keys[3:])) == [REPEATED] * KEYS_KEPT
    assert await report(storage, join_id, key=keys[2]) == DONE
    assert await report(storage, join_id, key=keys[3]) == DONE
    assert await report(storage, join_id, key=keys[5]) == REPEATED


async def test_a_refused_report_leaves_its_key_free(storage: Storage) -> None:
    join_id = (await registered(storage)).join_id
    assert await report(storage, join_id, key="k", body="early") == not_in_turn("pending", None)
    await approved(storage, join_id)
    await report(storage, join_id, step("services", "done"))
    assert await report(storage, join_id, step("services", "running"), key="k", body="wrong") == ORDER
    assert await report(storage, join_id, key="k") == DONE


async def test_a_report_repeated_after_it_ended_the_join_is_a_repeat(storage: Storage) -> None:
    join_id = await joining(storage)
    failing = batch(join_id, step("services", "failed"), lines=lines(1, 2), key="last")
    assert await storage.join.events.report(failing) == RAFTS_CHANGED
    assert await storage.join.events.report(failing) == REPEATED
    assert await report(storage, join_id, key="last", body="other") == KEY_REUSED
    assert len((await whole_log(storage, join_id)).lines) == 2


async def test_reports_in_one_batch_of_the_writer_see_the_turn_pass_on(storage: Storage) -> None:
    first, second, third = await joining(storage), (await registered(storage)).join_id, (await registered(storage))
    await approved(storage, second)
    await approved(storage, third.join_id)
    outcomes = await reported(
        storage,
        batch(second, lines=lines(1)),
        batch(first, lines=lines(1)),
        batch(first, step("services", "failed"), lines=lines(2)),
        batch(first, lines=lines(3)),
        batch(third.join_id),
        batch(second, lines=lines(2)),
        batch(second, step("services", "failed"), key="k"),
        batch(second, step("services", "failed"), key="k"),
        batch(third.join_id, step("raft:control", "running")),
        batch(third.join_id, step("raft:store", "failed")),
        batch(third.join_id),
    )
    failed = Refused(Refusal.ENDED, "failed", None)
    assert outcomes == [
        *(not_in_turn("approved", 1), DONE, RAFTS_CHANGED, failed),
        *(not_in_turn("approved", 1), DONE, RAFTS_CHANGED, REPEATED),
        *(RAFTS_CHANGED, RAFTS_CHANGED, failed),
    ]
    assert [line.at for line in (await whole_log(storage, first)).lines] == [1, 2]
    assert [line.at for line in (await whole_log(storage, second)).lines] == [2]
    turn = await storage.join.rafts.turn()
    assert turn is not None
    assert [(raft.raft, raft.state) for raft in turn.rafts] == [("control", "removing"), ("store", "absent")]


async def test_two_servers_that_take_the_reports_of_one_join_lose_no_line_and_repeat_no_number(
    storage: Storage, url: str, audit_file: Path
) -> None:
    join_id = await joining(storage)
    async with open_storage(url, audit_file) as other:
        for start in range(1, 200, 20):
            for number, each in zip(range(start, start + 20), [storage, other] * 10, strict=True):
                await report(each, join_id, lines=lines(number), key=f"k{number}")
    log = await whole_log(storage, join_id)
    assert [line.seq for line in log.lines] == [line.at for line in log.lines] == list(range(1, 201))


async def test_any_number_of_reports_of_one_join_takes_a_few_statements(storage: Storage) -> None:
    join_id = await joining(storage)
    await reported(storage, *(batch(join_id, lines=lines(*range(500))) for _ in range(5)))
    counted: list[str] = []

    class Counting:
        """The driver's cursor, which tells of each statement."""

        def __init__(self, cursor: Any) -> None:
            self._cursor = cursor

        def execute(self, text: str, *parameters: Any) -> Any:
            counted.append(text.split(maxsplit=1)[0])
            return self._cursor.execute(text, *parameters)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._cursor, name)

    work = storage.join.events._report_many

    def counting(transaction: Any, items: Any) -> Any:
        transaction.cursor = Counting(transaction.cursor)
        return work(transaction, items)

    storage.join.events._report_many = counting  # type: ignore[method-assign]
    await reported(storage, *(batch(join_id, lines=lines(1), key=f"k{number}") for number in range(100)))
    assert counted == ["WITH", "INSERT", "DELETE", "UPDATE"]


async def test_reports_of_more_joins_than_one_statement_reads_are_each_answered(storage: Storage) -> None:
    joins = [(await registered(storage)).join_id for _ in range(20)]
    assert await reported(storage, *map(batch, joins)) == [not_in_turn("pending", None)] * 20

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa

from storage.committer import Committer, Work, one_by_one
from storage.errors import Unavailable, Unstorable
from storage.opening import Opened, Place
from storage.transaction import Transaction
from tests.storage.work import NODE


@pytest.fixture
def opened(url: str, audit_file: Path) -> Iterator[Opened]:
    made = Opened(Place(url=url, node=NODE, audit_file=audit_file, busy_milliseconds=200), readers=1)
    made.prepare()
    yield made
    made.release()


@pytest.fixture
def committer(opened: Opened) -> Iterator[Committer]:
    made = Committer(opened.writing, opened.audit, node=NODE)
    yield made
    made.disconnect()


def double(transaction: Transaction, item: int) -> int:
    transaction.record("doubled", str(item), {})
    if item == 0:
        raise ZeroDivisionError
    return 2 * item


def total(_: Transaction, items: Sequence[int]) -> list[int]:
    return [sum(items)] * len(items)


doubled = one_by_one(double)


def subjects(audit_file: Path) -> list[str]:
    return [line.partition('"subject":"')[2].partition('"')[0] for line in audit_file.read_text().splitlines()]


def test_outcomes_come_in_the_order_of_the_work_and_each_kind_sees_its_neighbours_at_once(
    committer: Committer,
) -> None:
    batch = [Work(doubled, 1), Work(total, 2), Work(total, 3), Work(doubled, 4), Work(total, 5)]
    assert committer.run(batch) == [2, 5, 5, 8, 5]


def test_an_item_that_fails_fails_alone_and_leaves_nothing(committer: Committer, audit_file: Path) -> None:
    first, second, third = committer.run([Work(doubled, 1), Work(doubled, 0), Work(doubled, 3)])
    assert (first, third) == (2, 6)
    assert isinstance(second, Unstorable)
    assert isinstance(second.__cause__, ZeroDivisionError)
    assert subjects(audit_file) == ["1", "3"]


def test_a_database_that_fails_is_no_fault_of_the_items_and_is_connected_to_again(committer: Committer) -> None:
    def fail(_: Transaction) -> None:
        raise Unavailable("for a while")

    committer.failure_points.before_commit = fail
    assert [type(each) for each in committer.run([Work(doubled, 1), Work(doubled, 2)])] == [Unavailable] * 2
    committer.failure_points.before_commit = None
    assert committer.run([Work(doubled, 1)]) == [2]


def test_what_a_batch_does_is_there_for_others_once_it_has_run(committer: Committer, opened: Opened) -> None:
    committer.run([Work(doubled, 1), Work(doubled, 2)])
    with opened.reading.connect() as connection, connection.begin():
        assert connection.scalar(sa.text("SELECT count(*) FROM audit")) == 2


def test_kinds_that_do_the_same_for_each_item_are_one_kind() -> None:
    assert one_by_one(double) == doubled
    assert hash(one_by_one(double)) == hash(doubled)

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from unittest.mock import Mock

import pytest

from tools.mutants.mutations import SEEDS
from tools.mutants.suites import ANSWERS, SUITES, Choice

ROOT: Final = Path(__file__).parents[3]
OTHERS: Final = "tests/contract/test_event_bounds.py::test_of_bounds"


def chosen(choice: Choice, *names: str) -> list[str]:
    items: list[Any] = [Mock(nodeid=name) for name in names]
    choice.pytest_collection_modifyitems(items)
    return [item.nodeid for item in items]


def of(answer: str) -> str:
    return f"{ANSWERS}::test_each[{answer}]"


def test_every_seed_operation_has_a_suite_of_files_that_are_there() -> None:
    assert SUITES.keys() == SEEDS.keys()
    assert [file for files in SUITES.values() for file in files if not (ROOT / file).is_file()] == []


def test_answers_of_other_operations_are_left_out() -> None:
    names = OTHERS, of("admitEvent-204"), of("getRun-200"), f"{ANSWERS}::test_no_cause_is_kept[join]"
    assert chosen(Choice("admitEvent"), *names) == [OTHERS, of("admitEvent-204")]


def test_what_is_likely_to_notice_comes_first() -> None:
    names = OTHERS, of("admitEvent-204"), of("admitEvent-409-admission.held")
    assert chosen(Choice("admitEvent", ["admission.held"]), *names) == [names[2], names[0], names[1]]


def test_a_code_of_other_operations_is_tried_where_the_mutant_is_about_it() -> None:
    name = of("getRun-404-run.not-visible")
    assert chosen(Choice("admitEvent", ["run.not-visible"]), OTHERS, name) == [name, OTHERS]


def test_the_first_test_that_fails_is_kept() -> None:
    choice = Choice("admitEvent")
    for number in range(3):
        choice.pytest_runtest_logreport(Mock(failed=number > 0, passed=number == 0, when="call", nodeid=str(number)))
    assert (choice.ran, choice.failed) == (1, "1")


@pytest.mark.parametrize(
    ("error", "hindrance"),
    [
        (AssertionError("no"), ""),
        (ConnectionResetError("gone"), ""),
        (TimeoutError("timed out"), "TimeoutError: timed out"),
        (ChildProcessError("the server did not start"), "ChildProcessError: the server did not start"),
        (
            pytest.fail.Exception("Timeout (>60.0s) from pytest-timeout."),
            "Failed: Timeout (>60.0s) from pytest-timeout.",
        ),
        (pytest.fail.Exception("DID NOT RAISE"), ""),
    ],
)
def test_a_first_failure_that_says_nothing_of_the_mutant_is_told(error: BaseException, hindrance: str) -> None:
    choice = Choice("admitEvent")
    for each in (error, TimeoutError("later")):
        choice.pytest_exception_interact(Mock(excinfo=Mock(value=each)))
    assert choice.hindrance == hindrance

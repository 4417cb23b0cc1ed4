"""The contract tests that touch an operation, the quick and likely ones first."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

ANSWERS: Final = "tests/contract/test_every_answer.py"

# None of these compares the document with a copy of it: that would notice any change, and prove nothing.
SUITES: Final[Mapping[str, Sequence[str]]] = {
    "admitEvent": [
        "tests/contract/test_parameter_bounds.py",
        "tests/contract/test_answer_bounds.py",
        "tests/contract/test_event_bounds.py",
        ANSWERS,
        "tests/contract/test_order_of_checks.py",
    ],
    "reportJoinEvents": [
        "tests/contract/test_parameter_bounds.py",
        "tests/contract/test_answer_bounds.py",
        "tests/contract/test_report_bounds.py",
        ANSWERS,
        "tests/contract/test_join_order_of_checks.py",
    ],
    "streamInstallEvents": [
        "tests/contract/test_parameter_bounds.py",
        "tests/contract/test_answer_bounds.py",
        "tests/contract/test_stream_bounds.py",
        ANSWERS,
        "tests/contract/test_install_order_of_checks.py",
    ],
}


_HINDRANCES: Final = (TimeoutError, subprocess.TimeoutExpired, ConnectionRefusedError, ChildProcessError)


class Choice:
    """A plugin of pytest: leaves out what does not touch the mutant, and tries the likely tests first."""

    def __init__(self, operation: str, hints: Sequence[str] = ()) -> None:
        self.operation = operation
        self._hints = hints
        self.ran = 0
        self.failed = ""
        self._errors: list[BaseException] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Choose and sort; the order within a file stays as it is."""
        items[:] = sorted(filter(self._touches, items), key=self._likely, reverse=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what ran, and keep the first test that failed."""
        self.ran += report.when == "call" and report.passed
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep a file that could not even be read."""
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_exception_interact(self, call: pytest.CallInfo[Any]) -> None:
        """Keep what tests have raised."""
        if call.excinfo is not None:
            self._errors.append(call.excinfo.value)

    @property
    def hindrance(self) -> str:
        """Why the first failure says nothing of the mutant: the machine was too slow, or a server not there."""
        return next((f"{type(error).__name__}: {error}" for error in self._errors[:1] if _hinders(error)), "")

    def _touches(self, item: pytest.Item) -> bool:
        if not item.nodeid.startswith(ANSWERS):
            return True
        return "no_cause" not in item.nodeid and (f"[{self.operation}-" in item.nodeid or self._likely(item))

    def _likely(self, item: pytest.Item) -> bool:
        named = item.nodeid.partition("[")[2].removesuffix("]")
        return any(named.startswith(hint) or named.endswith(f"-{hint}") for hint in self._hints)


def _hinders(error: BaseException) -> bool:
    # The last is how pytest-timeout ends a test.
    return isinstance(error, _HINDRANCES) or (
        isinstance(error, pytest.fail.Exception) and str(error).startswith("Timeout")
    )

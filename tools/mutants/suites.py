"""The contract tests that touch an operation, the quick and likely ones first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

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


class Choice:
    """A plugin of pytest: leaves out what does not touch the mutant, and tries the likely tests first."""

    def __init__(self, operation: str, hints: Sequence[str] = ()) -> None:
        self.operation = operation
        self._hints = hints
        self.ran = 0
        self.failed = ""

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

    def _touches(self, item: pytest.Item) -> bool:
        if not item.nodeid.startswith(ANSWERS):
            return True
        return "no_cause" not in item.nodeid and (f"[{self.operation}-" in item.nodeid or self._likely(item))

    def _likely(self, item: pytest.Item) -> bool:
        named = item.nodeid.partition("[")[2].removesuffix("]")
        return any(named.startswith(hint) or named.endswith(f"-{hint}") for hint in self._hints)

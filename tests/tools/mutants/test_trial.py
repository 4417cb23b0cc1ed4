from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.effort import in_ci_alone
from tools.generator.documents import Document
from tools.mutants import pool
from tools.mutants.mutations import Mutant, mutants
from tools.mutants.trial import Verdict, judge

ROOT: Final = Path(__file__).parents[3]


@cache
def installer() -> dict[str, Any]:
    return Document.load(ROOT / "spec/installer.yaml").value


def tried(name: str) -> Verdict:
    (mutant,) = (each for each in _every() if each.name.endswith(name))
    ((_, verdict),) = pool.run([mutant], lambda each: judge(each, installer(), ROOT), jobs=1)
    return verdict


@cache
def _every() -> list[Mutant]:
    return mutants({"installer": installer()}, "streamInstallEvents")


def test_a_document_that_breaks_a_rule_is_noticed_by_the_lint() -> None:
    verdict = tried("/x-problems/INTERNAL/status: 500 made 501")
    assert verdict.by == "lint"
    assert "500" in verdict.where


@in_ci_alone
@pytest.mark.parametrize(
    ("name", "by"),
    [
        ("/components/schemas/InstallEvent/properties/id/minimum: 1 made 0", "test_answer_bounds.py"),
        ("/parameters/0/schema/minimum: 0 made -1", "test_parameter_bounds.py"),
        ("/responses/500: dropped", "test_every_answer.py"),
    ],
)
def test_a_weaker_document_is_noticed_by_the_test_that_has_the_bound(name: str, by: str) -> None:
    # None of these is imported anew here, as a fork of this process has all of generated/ already.
    verdict = tried(name)
    assert verdict.by in {"tests", "import"}
    assert by in verdict.where or verdict.by == "import"

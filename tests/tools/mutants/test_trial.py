from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.effort import in_ci_alone
from tools.generator.documents import Document
from tools.mutants.mutations import Mutant, mutants
from tools.mutants.score import Verdict
from tools.mutants.trial import judge

ROOT: Final = Path(__file__).parents[3]

# What a trial imports stays, so that it has a process of its own.
TRIAL: Final = """
import json, sys
from pathlib import Path
from tools.mutants import trial
from tests.tools.mutants.test_trial import installer, mutant_of

trial.prepare()
verdict = trial.judge(mutant_of(sys.argv[1]), installer(), Path.cwd())
print(json.dumps([verdict.by, verdict.where]))
"""


@cache
def installer() -> dict[str, Any]:
    return Document.load(ROOT / "spec/installer.yaml").value


def mutant_of(ending: str) -> Mutant:
    every = mutants({"installer": installer()}, "streamInstallEvents")
    (mutant,) = (each for each in every if each.name.endswith(ending))
    return mutant


def test_a_document_that_breaks_a_rule_is_noticed_by_the_lint() -> None:
    verdict = judge(mutant_of("/x-problems/INTERNAL/status: 500 made 501"), installer(), ROOT)
    assert verdict.by == "lint"
    assert "500" in verdict.where


@in_ci_alone
@pytest.mark.parametrize(
    ("name", "by"),
    [
        ("/components/schemas/InstallEvent/properties/id/minimum: 1 made 0", "test_answer_bounds.py"),
        ("/parameters/0/schema/minimum: 0 made -1", "test_parameter_bounds.py"),
        ("/x-problems/NOT_FOUND/title: made another", "test_stream_bounds.py"),
    ],
)
def test_a_weaker_document_is_noticed_by_the_test_that_has_the_bound(name: str, by: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TRIAL, name], cwd=ROOT, capture_output=True, text=True, check=True, timeout=100
    )
    verdict = Verdict(*json.loads(done.stdout.splitlines()[-1]))
    assert verdict.by == "tests"
    assert by in verdict.where

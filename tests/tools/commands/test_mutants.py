from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.support.effort import in_ci_alone
from tests.support.forks import COMMAND
from tests.tools.commands.conftest import Command

ROOT: Final = Path(__file__).parents[3]


def test_where_there_are_no_tests_it_says_that_it_needs_a_checkout(gatehouse: Command) -> None:
    done = gatehouse("check", "mutants")
    assert done.returncode == 1
    assert "needs a checkout of the repository, tests included" in done.stderr


def test_an_operation_that_is_none_of_the_seeds_is_refused(gatehouse: Command, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "spec", tmp_path / "spec")
    (tmp_path / "tests/contract").mkdir(parents=True)
    done = gatehouse("check", "mutants", "--operation", "getRun")
    assert done.returncode == 1
    assert "getRun is none of admitEvent, reportJoinEvents, streamInstallEvents" in done.stderr


@in_ci_alone
@pytest.mark.timeout(200)
def test_a_sample_ends_with_its_score() -> None:
    words = [COMMAND, "check", "mutants", "--sample", "3", "--operation", "streamInstallEvents", "--json"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert sum(value.pop("noticed").values()) == 3
    assert value == {
        "score": 1,
        "least": 0.95,
        "tried": 3,
        "survivors": [],
        "unjudged": {},
        "equivalent": value["equivalent"],
        "unknownEquivalents": [],
    }

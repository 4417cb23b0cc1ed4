from __future__ import annotations

import os
import signal
import time

import pytest

from tools.mutants import pool
from tools.mutants.trial import Verdict


def verdicts(judge: pool.Judge[int], count: int = 5) -> dict[int, Verdict]:
    return dict(pool.run(range(count), judge, jobs=2))


def test_each_item_is_judged_in_a_process_of_its_own() -> None:
    found = verdicts(lambda number: Verdict("tests", f"{number} {os.getpid()}"))
    assert sorted(found) == list(range(5))
    assert len({each.where.split()[1] for each in found.values()} - {str(os.getpid())}) == 5


def test_what_a_trial_raises_or_dies_of_has_noticed_the_mutant() -> None:
    def judge(number: int) -> Verdict:
        if number:
            raise LookupError("of this")
        os.kill(os.getpid(), signal.SIGKILL)
        return Verdict("")

    assert verdicts(judge, 2) == {0: Verdict("trial", "it died"), 1: Verdict("trial", "LookupError: of this")}


def test_what_takes_too_long_has_noticed_the_mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "PATIENCE_SECONDS", 0.1)

    def judge(_: int) -> Verdict:
        time.sleep(60)
        return Verdict("")

    assert verdicts(judge, 1) == {0: Verdict("trial", "it took too long")}


def test_whoever_leaves_early_leaves_no_trial_behind() -> None:
    def judge(number: int) -> Verdict:
        time.sleep(60 if number else 0)
        return Verdict("tests", str(os.getppid()))

    running = pool.run(range(3), judge, jobs=3)
    assert next(running)[0] == 0
    running.close()
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tools.mutants import pool
from tools.mutants.score import UNJUDGED, Verdict


def verdicts(judge: pool.Judge[int], count: int = 5) -> dict[int, Verdict]:
    return dict(pool.run(range(count), judge, jobs=2))


def test_each_item_is_judged_in_a_process_of_its_own() -> None:
    found = verdicts(lambda number: Verdict("tests", f"{number} {os.getpid()}"))
    assert sorted(found) == list(range(5))
    assert len({each.where.split()[1] for each in found.values()} - {str(os.getpid())}) == 5


def test_a_trial_that_raises_or_dies_has_not_judged() -> None:
    def judge(number: int) -> Verdict:
        if number:
            raise LookupError("of this")
        os.kill(os.getpid(), signal.SIGKILL)
        return Verdict("")

    assert verdicts(judge, 2) == {0: Verdict(UNJUDGED, "it died"), 1: Verdict(UNJUDGED, "LookupError: of this")}


def test_a_trial_that_takes_too_long_has_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "PATIENCE_SECONDS", 0.1)

    def judge(_: int) -> Verdict:
        time.sleep(60)
        return Verdict("")

    assert verdicts(judge, 1) == {0: Verdict(UNJUDGED, "it took too long")}


def test_what_is_not_judged_is_tried_once_more(tmp_path: Path) -> None:
    def judge(number: int) -> Verdict:
        tries = tmp_path / str(number)
        tries.write_text(f"{tries.read_text() if tries.exists() else ''}x")
        return Verdict(UNJUDGED, tries.read_text()) if number or tries.read_text() == "x" else Verdict("tests")

    assert verdicts(judge, 2) == {0: Verdict("tests"), 1: Verdict(UNJUDGED, "xx")}


def test_whoever_leaves_early_leaves_no_trial_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    fork = os.fork

    def noted() -> int:
        started.append(fork())
        return started[-1]

    monkeypatch.setattr(os, "fork", noted)

    def judge(number: int) -> Verdict:
        time.sleep(60 if number else 0)
        return Verdict("tests")

    running = pool.run(range(3), judge, jobs=3)
    assert next(running)[0] == 0
    running.close()
    assert len(started) == 3
    for pid in started:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

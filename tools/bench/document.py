"""Results as JSON for machines: every key names its unit, and what follows from the rounds is there beside them."""

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tools.bench.load import Carried, Round
from tools.bench.report import Played, Promise, Ratio, Result, failures, over_runs, rate, ratios, runs_held


def document(results: Sequence[Result]) -> dict[str, Any]:
    """What one command has measured, in one run or more.

    `runs` has each run as it was; `promises` every floor and limit with its figure in each of them, and in how many it
    was held; `runs_held` is the number of runs in which all were.
    """
    return {
        "date": results[0].date,
        "machine": machine(),
        "runs": [_run(each) for each in results],
        "promises": [_promise(same) for same in over_runs(results).values()],
        "runs_held": runs_held(results),
    }


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()}


def _run(result: Result) -> dict[str, Any]:
    memory = result.memory
    return {
        "date": result.date,
        "load_average_before": result.load_average,
        "played": [_played(each) for each in result.played],
        "first_answer_seconds": dict(result.first_answer),
        "memory": None if memory is None else asdict(memory),
        "failures": failures(result),
    }


def _promise(same: Sequence[Promise]) -> dict[str, Any]:
    first = same[0]
    return {
        "what": first.what,
        "at_most" if first.at_most else "at_least": first.bound,
        "unit": first.unit.strip() or "ratio",
        "values": [each.value for each in same],
        "held_in_runs": sum(each.holds for each in same),
    }


def _played(played: Played) -> dict[str, Any]:
    return {
        "name": played.name,
        "work": played.work,
        "note": played.note,
        "unit": played.unit,
        "rounds": {server: [_round(each) for each in rounds] for server, rounds in played.rounds.items()},
        "median_per_second": {server: rate(rounds) for server, rounds in played.rounds.items()},
        "ratios": [_ratio(each) for each in ratios(played)],
    }


def _ratio(ratio: Ratio) -> dict[str, Any]:
    budget = ratio.budget
    return {
        "of": budget.of,
        "against": budget.against,
        "figure": budget.figure,
        "floor": budget.floor,
        "aim": budget.aim,
        "of_medians": ratio.value,
        "least_of_a_round": ratio.least,
        "greatest_of_a_round": ratio.greatest,
        "holds": ratio.holds,
    }


def _round(outcome: Round) -> dict[str, Any]:
    written_p50, written_p99 = outcome.since_written or (None, None)
    return {
        "began_at_epoch_ms": outcome.began_at or None,
        "seconds": outcome.seconds,
        "count": outcome.requests,
        "per_second": outcome.rate,
        "p50_ms": outcome.p50,
        "p99_ms": outcome.p99,
        "longest_ms": outcome.longest,
        "since_written_p50_ms": written_p50,
        "since_written_p99_ms": written_p99,
        "cpu_seconds": outcome.cpu,
        "load_cpu_seconds": outcome.load_cpu,
        "carried": None if outcome.carried is None else _carried(outcome.carried),
    }


def _carried(carried: Carried) -> dict[str, Any]:
    return {
        "runs_per_second_during": carried.during,
        "runs_per_second_after": carried.after,
        "server_peak_bytes": carried.server_peak,
        "executor_peak_bytes": carried.executor_peak,
    }

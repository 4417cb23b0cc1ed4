"""Compares what came of a scenario with what it expects, and tells the differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from handlers.coordinator.scenarios.run import Observed
from handlers.coordinator.scenarios.scenario import Scenario

# So many characters of a value are shown to a person.
_SHOWN: Final = 300


class Difference(NamedTuple):
    """A member of `expect` that is not as it came; both values are JSON."""

    member: str
    expected: Any
    got: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a scenario did what it expects, and what came of it by the names of `expect`."""

    scenario: Scenario
    got: Mapping[str, Any]
    differences: tuple[Difference, ...]
    troubles: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether all is as expected."""
        return not self.differences and not self.troubles

    def value(self) -> dict[str, Any]:
        """Return the verdict as JSON."""
        return {
            "file": self.scenario.file,
            "name": self.scenario.name,
            "workflow": self.scenario.workflow.id,
            "passed": self.passed,
            "differences": [each._asdict() for each in self.differences],
            "troubles": list(self.troubles),
            "got": dict(self.got),
        }

    def lines(self) -> Iterator[str]:
        """Give the lines that tell a person."""
        if self.passed:
            yield f"ok    {self.scenario.name}"
            return
        yield f"FAIL  {self.scenario.name} ({self.scenario.file})"
        for trouble in self.troubles:
            yield f"      {trouble}"
        for member, expected, got in self.differences:
            yield f"      {member}: expected {_shown(expected)}"
            yield f"      {' ' * len(member)}  got      {_shown(got)}"
        yield f"      it came to {_told(self.got)}"


def judge(scenario: Scenario, observed: Observed) -> Verdict:
    """Compare what came of a scenario with each member of its `expect`."""
    got = _by_name(observed)
    return Verdict(
        scenario=scenario,
        got=got,
        differences=tuple(_differences(scenario.expect, got)),
        troubles=observed.troubles,
    )


def _by_name(observed: Observed) -> dict[str, Any]:
    if observed.refused is not None:
        return {"refused": observed.refused}
    return {
        "path": list(observed.path),
        "state": observed.state,
        "outcome": observed.outcome,
        "output": observed.output,
        "failureCode": observed.failure_code,
        "elapsedSeconds": observed.elapsed_seconds,
        "calls": [sent._asdict() for sent in observed.calls],
    }


def _differences(expect: Mapping[str, Any], got: Mapping[str, Any]) -> Iterator[Difference]:
    if ("refused" in expect) != ("refused" in got):
        yield Difference("refused", expect.get("refused"), got.get("refused"))
        return
    for member, expected in expect.items():
        if member == "calls":
            yield from _differences_of_calls(expected, got["calls"])
        elif not _same(expected, got[member]):
            yield Difference(member, expected, got[member])


def _differences_of_calls(expected: list[dict[str, Any]], got: list[dict[str, Any]]) -> Iterator[Difference]:
    for index, (call, sent) in enumerate(zip(expected, got, strict=False)):
        for member, value in call.items():
            if not _same(value, sent[member]):
                yield Difference(f"calls.{index}.{member}", value, sent[member])
    if len(expected) != len(got):
        yield Difference("calls", f"{len(expected)} requests", f"{len(got)} requests")


def _same(one: Any, other: Any) -> bool:
    """Compare as JSON does, where true is not 1; whole numbers are integers on both sides."""
    return orjson.dumps(one, option=orjson.OPT_SORT_KEYS) == orjson.dumps(other, option=orjson.OPT_SORT_KEYS)


def _told(got: Mapping[str, Any]) -> str:
    if "refused" in got:
        return f"a refusal, {got['refused']}"
    how = got["outcome"] or got["failureCode"]
    end = f"{got['state']} ({how})" if how else got["state"]
    way = ", ".join(got["path"]) or "no step"
    return f"{end} after {got['elapsedSeconds']:g} s, by {way}"


def _shown(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"

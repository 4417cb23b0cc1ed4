"""What the trials amount to: the score, who survived, and of whom the trial itself failed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tools.mutants.mutations import Mutant

EQUIVALENT: Final = Path(__file__).with_name("equivalent.yaml")
LEAST: Final = 0.95

# What stands in a verdict for a check or a test where the trial failed for another reason than its mutant.
UNJUDGED: Final = "trial"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What has noticed a mutant, "" where nothing has and UNJUDGED where that is not known; and where, or why not."""

    by: str
    where: str = ""

    @property
    def judged(self) -> bool:
        """Whether the trial came to its end."""
        return self.by != UNJUDGED


@dataclass(frozen=True, slots=True)
class Equivalent:
    """Mutants that no test can tell from the document as it is, and why; `*` stands for anything in the name."""

    mutants: str
    reason: str

    def covers(self, mutant: Mutant) -> bool:
        """Whether the mutant is one of these."""
        pattern = ".*".join(re.escape(part) for part in self.mutants.split("*"))
        return re.fullmatch(pattern, mutant.name) is not None


def equivalents(path: Path = EQUIVALENT) -> list[Equivalent]:
    """Read the list of the equivalent mutants."""
    return [Equivalent(each["mutants"], each["reason"]) for each in yaml.safe_load(path.read_text("utf-8"))]


def unknown(listed: Sequence[Equivalent], made: Sequence[Mutant]) -> list[str]:
    """Return what is listed as equivalent and stands for no mutant that is made any more."""
    return [each.mutants for each in listed if not any(each.covers(mutant) for mutant in made)]


def without(made: Iterable[Mutant], listed: Sequence[Equivalent]) -> list[Mutant]:
    """Leave out those that are listed as equivalent."""
    return [mutant for mutant in made if not any(each.covers(mutant) for each in listed)]


@dataclass(frozen=True, slots=True)
class Score:
    """How many were tried, what has noticed how many, who survived, who was not judged, and what is listed needlessly.

    `unjudged` has for each name why not.
    """

    tried: int
    noticed: Mapping[str, int]
    survivors: Sequence[str]
    unjudged: Mapping[str, str]
    equivalent: int
    unknown: Sequence[str]

    @property
    def score(self) -> float:
        """The part that was noticed, to which none belongs that was not judged; 1 where nothing was tried."""
        return sum(self.noticed.values()) / self.tried if self.tried else 1.0

    @property
    def good(self) -> bool:
        """Whether the score is high enough, and the list of the equivalent ones true."""
        return self.score >= LEAST and not self.unknown

    def value(self) -> dict[str, Any]:
        """What --json prints."""
        return {
            "score": round(self.score, 4),
            "least": LEAST,
            "tried": self.tried,
            "noticed": dict(self.noticed),
            "survivors": list(self.survivors),
            "unjudged": dict(self.unjudged),
            "equivalent": self.equivalent,
            "unknownEquivalents": list(self.unknown),
        }

    def lines(self) -> list[str]:
        """The same for people."""
        shares = ", ".join(f"{count} by {name}" for name, count in sorted(self.noticed.items())) or "none"
        return [
            *(f"survived: {name}" for name in self.survivors),
            *(f"not judged: {name}: {why}" for name, why in self.unjudged.items()),
            *(f"listed as equivalent, but not made any more: {name}" for name in self.unknown),
            f"{self.tried} mutants tried; noticed: {shares}",
            f"score {self.score:.3f} (at least {LEAST}), {self.equivalent} equivalent",
        ]


def total(verdicts: Mapping[str, Verdict], equivalent: int, unknown_ones: Sequence[str]) -> Score:
    """Sum up; `verdicts` has one for each mutant's name."""
    noticed = Counter(verdict.by for verdict in verdicts.values() if verdict.judged and verdict.by)
    survivors = sorted(name for name, verdict in verdicts.items() if not verdict.by)
    unjudged = {name: verdict.where for name, verdict in sorted(verdicts.items()) if not verdict.judged}
    return Score(len(verdicts), noticed, survivors, unjudged, equivalent, unknown_ones)

"""What the rounds say: medians with their spread, ratios, and which floors and limits are held."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from tools.bench.budgets import Budget, Figure
from tools.bench.load import Round

START_SECONDS: Final = 2.0
MEMORY_BYTES: Final = 150_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What Gatehouse had in memory over so many admitted events; None where the system does not tell.

    `peak_bytes` is the server's, and `fork_bytes` what the process that commits has beside it for itself at the end.
    """

    events: int
    peak_bytes: int | None
    fork_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A job as it was played: `rounds` has each server's rounds in the order of play, `unit` is what they count."""

    name: str
    work: str
    note: str
    budgets: Sequence[Budget]
    rounds: Mapping[str, Sequence[Round]]
    unit: str = "request"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All that one run of the bench has measured; `first_answer` is seconds, by which start it was."""

    date: str
    played: Sequence[Played]
    first_answer: Mapping[str, float]
    memory: Memory | None
    load_average: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A budget as it was met: the ratio of the medians, and the least and greatest ratio of one round."""

    budget: Budget
    value: float
    least: float
    greatest: float

    @property
    def holds(self) -> bool:
        """Whether the floor is reached."""
        return self.value >= self.budget.floor


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A figure of one run beside its floor, or beside its limit where `at_most`; `what` is the same in every run."""

    what: str
    value: float
    bound: float
    at_most: bool = False
    unit: str = ""

    @property
    def holds(self) -> bool:
        """Whether the figure is on the right side."""
        return self.value <= self.bound if self.at_most else self.value >= self.bound

    @property
    def asked(self) -> str:
        """The bound in words."""
        return f"at {'most' if self.at_most else 'least'} {self.bound:g}{self.unit}"

    def __str__(self) -> str:
        """The figure, and what was asked."""
        return f"{self.what}: {self.value:.2f}{self.unit} ({self.asked})"


def rate(rounds: Sequence[Round]) -> float:
    """The median of the rounds' rates, in requests or events a second."""
    return median(each.rate for each in rounds)


def ratios(played: Played) -> list[Ratio]:
    """Every budget of a job."""
    found = []
    for budget in played.budgets:
        # Of delays the longer is the worse.
        of, against = (budget.of, budget.against) if budget.figure == "rate" else (budget.against, budget.of)
        above, below = ([_figure(each, budget.figure) for each in played.rounds[name]] for name in (of, against))
        by_round = [a / b for a, b in zip(above, below, strict=True)]
        value = median(above) / median(below)
        found.append(Ratio(budget=budget, value=value, least=min(by_round), greatest=max(by_round)))
    return found


def _figure(outcome: Round, figure: Figure) -> float:
    return {"rate": outcome.rate, "p50": outcome.p50, "p99": outcome.p99}[figure]


def promises(result: Result) -> list[Promise]:
    """Every floor of the jobs that were played, then what Gatehouse alone is held to."""
    floors = [
        Promise(what=f"{played.name}: {each.budget.name}", value=each.value, bound=each.budget.floor)
        for played in result.played
        for each in ratios(played)
    ]
    return floors + limits(result)


def limits(result: Result) -> list[Promise]:
    """How long Gatehouse takes to start, and the memory that it takes, where they were measured."""
    found = [
        Promise(what=f"gatehouse, {name}", value=seconds, bound=START_SECONDS, at_most=True, unit=" s")
        for name, seconds in result.first_answer.items()
    ]
    if result.memory and result.memory.peak_bytes:
        used, allowed = result.memory.peak_bytes / 1e6, MEMORY_BYTES / 1e6
        found.append(Promise(what="gatehouse, peak memory", value=used, bound=allowed, at_most=True, unit=" MB"))
    return found


def failures(result: Result) -> list[str]:
    """One line for each promise that is not held."""
    return [str(each) for each in promises(result) if not each.holds]


def over_runs(results: Sequence[Result]) -> dict[str, list[Promise]]:
    """Each promise by what it is about, once for every run that has measured it."""
    found: dict[str, list[Promise]] = {}
    for result in results:
        for promise in promises(result):
            found.setdefault(promise.what, []).append(promise)
    return found


def runs_held(results: Sequence[Result]) -> int:
    """In how many runs every promise was held."""
    return sum(not failures(result) for result in results)

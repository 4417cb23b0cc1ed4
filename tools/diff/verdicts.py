"""The policy: what a difference means to whom, and the sentence that says so. Nothing here finds differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

from tools.diff.gaps import FORWARD, Gap, Kind
from tools.diff.nodes import Node, Place
from tools.diff.schemas import Comparison

Direction = Literal["request", "answer", "both"]


class Verdict(StrEnum):
    """What a change does to clients that know the document as it was."""

    BREAKING = "breaking"
    RISKY = "risky"
    SAFE = "safe"


@dataclass(frozen=True, slots=True)
class Change:
    """One change: where, in which direction, and a sentence for a person."""

    verdict: Verdict
    direction: Direction
    place: Place
    message: str


# In a request, what is no longer taken breaks clients; in an answer, what never came before. The first sentence of
# each pair is for requests, where the second schema is the new one; in answers it is the old one.
_POLICY: Final[Mapping[Kind, tuple[tuple[Verdict, str], tuple[Verdict, str]]]] = {
    Kind.VALUES: (
        (Verdict.BREAKING, "Refuses {what}, accepted before."),
        (Verdict.BREAKING, "May give {what}, never given before."),
    ),
    Kind.ENUM: (
        (Verdict.BREAKING, "Refuses {what}, accepted before."),
        (Verdict.RISKY, "May give {what}, never given before: clients may know all values by name."),
    ),
    Kind.UNSURE: (
        (Verdict.RISKY, "May refuse {what}: whether it does could not be decided."),
        (Verdict.RISKY, "May give {what}: whether it does could not be decided."),
    ),
    Kind.UNKNOWN: (
        (Verdict.RISKY, "May refuse {what}: the keyword is not known."),
        (Verdict.RISKY, "May give {what}: the keyword is not known."),
    ),
    Kind.UNLISTED: (
        (Verdict.BREAKING, "Refuses {what}, accepted before."),
        (Verdict.RISKY, "May give {what}, never given before."),
    ),
    Kind.BEYOND: (
        (Verdict.BREAKING, "Refuses {what}, accepted before."),
        (Verdict.RISKY, "May give {what}, where none but the listed members came: strict clients refuse it."),
    ),
    Kind.CHECKED: (
        (Verdict.RISKY, "Reads {what}, which was left open: what clients sent there may be refused."),
        (Verdict.BREAKING, "No longer lists {what}."),
    ),
    Kind.FREE: ((Verdict.SAFE, "Lists {what}, which was left open."), (Verdict.BREAKING, "No longer lists {what}.")),
    Kind.GONE: ((Verdict.SAFE, "Accepts {what}, which is new."), (Verdict.BREAKING, "No longer gives {what}.")),
    Kind.UNREAD: (
        (Verdict.RISKY, "No longer lists {what}: what clients send there may go unread."),
        (Verdict.SAFE, "May give {what}, which is new."),
    ),
    Kind.MEANING: (
        (Verdict.RISKY, "Another {what}: values may mean something else."),
        (Verdict.RISKY, "Another {what}: values may mean something else."),
    ),
}


@dataclass
class Findings:
    """The changes of one document as they are found, each with the operations that it concerns."""

    comparison: Comparison = field(default_factory=Comparison)
    changes: dict[Change, set[str]] = field(default_factory=dict)

    def add(self, change: Change, operation: str | None) -> None:
        """Note a change; the same one of another operation is noted there."""
        operations = self.changes.setdefault(change, set())
        if operation is not None:
            operations.add(operation)


@dataclass(frozen=True, slots=True)
class Notes:
    """Where the changes of one operation are noted, in one direction."""

    findings: Findings
    operation: str | None
    direction: Direction

    def breaking(self, place: Place, message: str) -> None:
        """Note what breaks clients."""
        self._add(Verdict.BREAKING, place, message)

    def risky(self, place: Place, message: str) -> None:
        """Note what may break some clients."""
        self._add(Verdict.RISKY, place, message)

    def safe(self, place: Place, message: str) -> None:
        """Note what no client has to know of."""
        self._add(Verdict.SAFE, place, message)

    def schemas(self, old: Node, new: Node, place: Place) -> None:
        """Note what differs between two schemas that stand at `place`."""
        compare, asking = self.findings.comparison.compare, self.direction != "answer"
        first, second = (old, new) if asking else (new, old)
        gaps = compare(first, second, place)
        for gap in gaps:
            verdict, sentence = _POLICY[gap.kind][0 if asking else 1]
            self._add(verdict, gap.place, sentence.format(what=gap.what))
        undecided = {gap.place for gap in gaps if gap.kind is Kind.UNSURE}
        for gap in compare(second, first, place):
            if gap.kind is not Kind.UNSURE or gap.place not in undecided:
                self._back(gap, asking)

    def _back(self, gap: Gap, asking: bool) -> None:
        if gap.kind in {Kind.MEANING, Kind.UNKNOWN}:
            self.risky(gap.place, _POLICY[gap.kind][0 if asking else 1][1].format(what=gap.what))
        elif gap.kind is Kind.UNSURE:
            self.safe(gap.place, f"May {'accept' if asking else 'no longer give'} {gap.what}.")
        elif gap.kind not in FORWARD:
            self.safe(gap.place, f"Accepts {gap.what}, refused before." if asking else f"No longer gives {gap.what}.")

    def _add(self, verdict: Verdict, place: Place, message: str) -> None:
        self.findings.add(Change(verdict, self.direction, place, message), self.operation)

"""Compares sets of documents and says, document by document, what has changed and whether its version allows that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tools.diff import operations
from tools.diff.documents import described
from tools.diff.nodes import Node, Place, Side
from tools.diff.remainder import remainder
from tools.diff.verdicts import Change, Direction, Findings, Verdict

_VERSION: Final = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)([-+].*)?", re.ASCII)
_ORDER: Final = [Verdict.BREAKING, Verdict.RISKY, Verdict.SAFE]
_DIRECTIONS: Final[tuple[Direction, ...]] = ("request", "answer", "both")
_MOST_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Compared:
    """One document: its versions (None where it is not there), and its changes with the operations they concern."""

    name: str
    old: str | None
    new: str | None
    changes: Mapping[Change, frozenset[str]]

    @property
    def breaking(self) -> bool:
        """Whether a change breaks clients."""
        return any(change.verdict is Verdict.BREAKING for change in self.changes)

    @property
    def allowed(self) -> bool:
        """Whether its version may bring what its changes break."""
        return not self.breaking or may_break(self.old, self.new)


def may_break(old: str | None, new: str | None) -> bool:
    """Say whether the step from one `info.version` to another announces breaking changes.

    That is a greater major version; below 1.0.0, where it stays 0, a greater minor version, as semver has the custom.
    """
    before, after = (_VERSION.fullmatch(version or "") for version in (old, new))
    if before is None or after is None:
        return False
    one, other = ((int(each[1]), int(each[2])) for each in (before, after))
    return other[0] > one[0] or (one[0] == other[0] == 0 and other[1] > one[1])


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Compared]:
    """Compare two sets of documents by the names of their files; where each side is one document, whatever its name."""
    old = _renamed(old, new)
    sides = Side("old", old), Side("new", new)
    return [_document(name, *sides) for name in sorted({*described(old), *described(new)})]


def _renamed(old: Mapping[str, Any], new: Mapping[str, Any]) -> Mapping[str, Any]:
    if len(described(old)) == len(described(new)) == 1:
        return {described(new)[0] if name in described(old) else name: root for name, root in old.items()}
    return old


def _document(name: str, old: Side, new: Side) -> Compared:
    before, after = old.node(Place(name, ())), new.node(Place(name, ()))
    versions = _version(before), _version(after)
    if before is None or after is None:
        gone = after is None
        verdict = Verdict.BREAKING if gone else Verdict.SAFE
        change = Change(verdict, "both", Place(name, ()), f"The document is {'gone' if gone else 'new'}.")
        return Compared(name, *versions, {change: frozenset()})
    findings = Findings()
    operations.compare(before, after, findings)
    for change in list(remainder(before, after, findings.changes)):
        findings.add(change, None)
    found = sorted(findings.changes.items(), key=lambda item: _order(item[0]))
    return Compared(name, *versions, {change: frozenset(names) for change, names in found})


def _order(change: Change) -> Any:
    return (_ORDER.index(change.verdict), change.place, _DIRECTIONS.index(change.direction), change.message)


def _version(document: Node | None) -> str | None:
    info = None if document is None else document.at("info")
    return None if info is None else str(info.get("version"))


def value(compared: list[Compared]) -> dict[str, Any]:
    """Return what `--json` prints."""
    return {
        "allowed": all(each.allowed for each in compared),
        "counts": {str(verdict): count for verdict, count in _counts(compared).items()},
        "documents": [
            {
                "name": each.name,
                "old": each.old,
                "new": each.new,
                "allowed": each.allowed,
                "changes": [
                    {
                        "verdict": str(change.verdict),
                        "direction": change.direction,
                        "path": change.place.written(each.name),
                        "operations": sorted(names),
                        "message": change.message,
                    }
                    for change, names in each.changes.items()
                ],
            }
            for each in compared
        ],
    }


def lines(compared: list[Compared]) -> Iterator[str]:
    """Yield what a person reads: each document that differs, its changes with the worst first, and the outcome."""
    for each in compared:
        if each.changes or each.old != each.new:
            yield f"{each.name}: {each.old or 'none'} -> {each.new or 'none'}"
        for change, names in each.changes.items():
            yield f"  {change.verdict:<8}  {change.direction:<7}  {change.place.written(each.name)}"
            yield f"      {change.message}{_operations(names)}"
    counts = _counts(compared)
    yield ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) if sum(counts.values()) else "no change"
    for each in compared:
        if not each.allowed:
            yield f"{each.name} breaks clients{_needed(each)}"


def _counts(compared: list[Compared]) -> dict[Verdict, int]:
    found = [change.verdict for each in compared for change in each.changes]
    return {verdict: found.count(verdict) for verdict in _ORDER}


def _operations(names: frozenset[str]) -> str:
    shown = sorted(names)[:_MOST_SHOWN]
    if not shown:
        return ""
    rest = len(names) - len(shown)
    return f" ({', '.join(shown)}{f' and {rest} more' if rest else ''})"


def _needed(compared: Compared) -> str:
    version = _VERSION.fullmatch(compared.old or "")
    if version is None or compared.new is None:
        return ""
    major, minor = int(version[1]), int(version[2])
    least = f"0.{minor + 1}.0" if major == 0 else f"{major + 1}.0.0"
    return f": info.version has to be {least} or later, and is {compared.new}"

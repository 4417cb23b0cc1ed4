"""One CEL expression: compiled once, evaluated within a budget; a fault of any kind is one exception, never a crash."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final, TypeVar

from handlers.coordinator.workflows.cel_source import (
    FUNCTIONS,
    MACROS,
    METHODS,
    Part,
    Path,
    RefusedSourceError,
    Scope,
    Source,
    read_source,
)
from handlers.coordinator.workflows.values import MAX_LEVELS, UnfitValueError, plain, weigh

# The library imports its command line with itself: 200 modules, 6 MB of memory that no server has a use for.
sys.modules.setdefault("cel.cli", ModuleType("cel.cli"))
import cel  # noqa: E402 - see above

# In copies of one number; what costs so much takes the library about a tenth of a second, in which nothing else runs.
BUDGET: Final = 2_000_000

_Result = TypeVar("_Result")

_POSITION: Final = re.compile(
    r"ERROR: <input>:([0-9]+):([0-9]+): (?:Syntax error: )?(.*?)(?: expecting .*)?$", re.MULTILINE
)
_FAULTS: Final[Mapping[type[BaseException], str]] = {
    IndexError: "an index is out of range",
    KeyError: "a member is missing",
    OverflowError: "a number or a time is out of range",
    RuntimeError: "a member is missing, or a function does not take what it is given",
    TypeError: "a value is not of the type that is asked for",
    ZeroDivisionError: "a division by zero",
}

# A leap second comes out as the second before it; the library's warning of it, on every use, would help nobody.
warnings.filterwarnings("ignore", "ignored leap-second", UserWarning)


class MappingError(Exception):
    """A mapping gives no value here; the message names the author's expression and repeats no received value."""


class Budget:
    """What evaluating one mapping may still cost, in copies of one number."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = BUDGET

    def spend(self, cost: int) -> None:
        """Take `cost` from what is left; raises UnfitValueError where it is not."""
        self._left -= cost
        if self._left < 0:
            raise UnfitValueError("is too large for what is done with it")


@dataclass(frozen=True, slots=True)
class PlainPath:
    """A plain path such as `event.data.caseId`, read without CEL but with its meaning."""

    source: str
    path: Path
    levels: int

    def evaluate(self, activation: Mapping[str, Any], budget: Budget) -> Any:
        """Return what is at the path as plain JSON; raises MappingError where nothing is."""
        try:
            value = _follow(activation, self.path)
            if isinstance(value, list | dict):
                budget.spend(weigh(value)[0])
            return plain(value, self.levels)
        except (IndexError, KeyError, TypeError) as error:
            raise MappingError(f"{self.source}: {_FAULTS[type(error)]}") from None
        except UnfitValueError as error:
            raise MappingError(f"{self.source}: the value {error}") from None


@dataclass(frozen=True, slots=True)
class Cel:
    """An expression that the library evaluates, over the values of the plain paths in it."""

    source: str
    program: Any
    read: Source
    levels: int

    def evaluate(self, activation: Mapping[str, Any], budget: Budget) -> Any:
        """Return the result as plain JSON; raises MappingError."""
        variables = _variables(self.read, activation)
        try:
            _check_targets(self.read, variables)
            budget.spend(_cost(self.read, variables))
            return plain(_guarded(lambda: self.program.execute(variables)), self.levels)
        except UnfitValueError as error:
            raise MappingError(f"{self.source}: the value {error}") from None
        except _LibraryError as error:
            raise MappingError(f"{self.source}: {_FAULTS.get(error.kind, 'it cannot be evaluated')}") from None


Expression = PlainPath | Cel


def compile_expression(source: str, scope: Scope, levels: int = MAX_LEVELS) -> Expression:
    """Compile an expression that refers to what `scope` knows; raises RefusedSourceError with what is wrong where.

    Its result may have at most `levels` levels of containers.
    """
    read = read_source(source, scope)
    _compile(source)
    if read.path is not None:
        return PlainPath(source, read.path, levels)
    program = _compile(read.text)
    _compare(program, read)
    return Cel(source, program, read, levels)


class _LibraryError(Exception):
    """The library's own exception, of which only the kind may be told: its message may repeat received values."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.kind = type(error)


def _guarded(work: Callable[[], _Result]) -> _Result:
    """Call the library; raises _LibraryError for all that it raises, also a panic of Rust, which is no Exception."""
    try:
        return work()
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise _LibraryError(error) from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise _LibraryError(error) from None


def _compile(source: str) -> Any:
    try:
        return _guarded(lambda: cel.compile(source))
    except _LibraryError as error:
        place = _POSITION.search(str(error))
        if place is None:
            raise RefusedSourceError(0, "it cannot be read as CEL") from None
        lines = source.split("\n")[: int(place[1]) - 1]
        offset = sum(len(line) + 1 for line in lines) + int(place[2]) - 1
        raise RefusedSourceError(min(offset, len(source)), f"it cannot be read as CEL: {place[3]}") from None


def _compare(program: Any, read: Source) -> None:
    """Refuse what the library understands otherwise than our own reading: the bounds would not hold for it."""
    own = {reference.name for reference in read.references} | set(read.own_names)
    called = {name for name in program.functions() if name.isidentifier() and not name.startswith("_")}
    if not (own.issuperset(program.variables()) and called <= FUNCTIONS | METHODS | MACROS.keys()):
        raise RefusedSourceError(0, "it cannot be read in one way only: write it more simply")


def _follow(value: Any, path: Sequence[str | int]) -> Any:
    """Walk down a path; raises KeyError, IndexError or TypeError where CEL fails."""
    for part in path:
        if type(part) is int and not isinstance(value, list):
            raise KeyError if isinstance(value, dict) else TypeError
        value = value[part]
    return value


def _variables(read: Source, activation: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values at the plain paths; a path that leads nowhere has none, a fault only where CEL asks for it."""
    variables: dict[str, Any] = {}
    for reference in read.references:
        try:
            if reference.tests:
                holder = _follow(activation, reference.path[:-1])
                if isinstance(holder, dict):
                    variables[reference.name] = reference.path[-1] in holder
            else:
                variables[reference.name] = _follow(activation, reference.path)
        except (IndexError, KeyError, TypeError):
            continue
    return variables


def _check_targets(read: Source, variables: Mapping[str, Any]) -> None:
    """Refuse to go through an object, whose members the library takes in an order that changes from time to time."""
    if any(isinstance(variables.get(macro.target), dict) for macro in read.macros if macro.target):
        raise UnfitValueError("is an object where a list is gone through")


def _cost(read: Source, variables: Mapping[str, Any]) -> int:
    """Bound what evaluation can cost, from what the expression does and how large its values are.

    The library copies a value whenever it is touched, and the list that `map` or `filter` collects once an item. An
    item is at most as large as what is outside of macros, and there are no more items than there are things in that.
    """
    sizes = {name: weigh(value) for name, value in variables.items()}
    outside, items = _total(read.outside, sizes)
    cost, results = 0, 0
    for macro in read.macros:
        free, _ = _total(macro, sizes)
        cost += macro.tokens * (items * free + outside)
        if macro.collects:
            result = macro.uses * outside + items * free
            cost += items * result
            results += result
    return cost + read.outside.tokens * (outside + results)


def _total(part: Part, sizes: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """Return the weight of all that is read in a part of an expression, and how many things that can be at most."""
    used = [sizes[name] for name in part.references if name in sizes]
    return part.literals + sum(weight for weight, _ in used), part.literals + sum(longest for _, longest in used)

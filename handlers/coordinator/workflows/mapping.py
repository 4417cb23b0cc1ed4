"""Mappings: JSON in which each text is a CEL expression, compiled once and evaluated over an event or a run.

Numbers, true, false and null stand for themselves, arrays and objects are made anew, and every text is CEL: a literal
one has quotes of its own inside, as in `"'urgent'"`. The names of members are literal.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as Names
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from handlers.coordinator.workflows import values
from handlers.coordinator.workflows.cel_source import RefusedSourceError, Scope
from handlers.coordinator.workflows.expression import Budget, Expression, compile_expression
from handlers.coordinator.workflows.values import UnfitValueError, plain

MAX_EXPRESSIONS: Final = 128
MAX_LEVELS: Final = 16

_Maker: TypeAlias = Callable[[Names[str, Any], Budget], Any]


class MappingFault(NamedTuple):
    """What is wrong with a mapping: where in it, and for an expression at which of its characters."""

    path: tuple[str | int, ...]
    offset: int | None
    message: str


class RefusedMappingError(Exception):
    """A mapping that cannot be used, with all its faults."""

    def __init__(self, faults: list[MappingFault]) -> None:
        super().__init__("; ".join(fault.message for fault in faults))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class Mapping:
    """A compiled mapping; `source` is the JSON that it was made from."""

    source: Any
    _make: _Maker

    def evaluate(self, activation: Names[str, Any]) -> Any:
        """Return plain JSON (as values.plain gives it) for the variables in `activation`; raises MappingError.

        The variables hold JSON of at most 64 levels. What evaluation copies is bounded by expression.BUDGET.
        """
        return self._make(activation, Budget())


def compile_mapping(node: Any, scope: Scope) -> Mapping:
    """Compile a mapping whose expressions refer to what `scope` knows; raises RefusedMappingError with all faults."""
    compiler = _Compiler(scope)
    make = compiler.maker(node, ())
    if compiler.count > MAX_EXPRESSIONS:
        compiler.faults.append(MappingFault((), None, f"a mapping has at most {MAX_EXPRESSIONS} expressions"))
    if compiler.faults:
        raise RefusedMappingError(compiler.faults)
    return Mapping(node, make)


class _Compiler:
    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.faults: list[MappingFault] = []
        self.count = 0

    def maker(self, node: Any, path: tuple[str | int, ...]) -> _Maker:
        if isinstance(node, str):
            self.count += 1
            expression = self._expression(node, path)
            return expression.evaluate if expression else _literal(None)
        if not isinstance(node, list | dict):
            return _literal(self._constant(node, path))
        if len(path) == MAX_LEVELS:
            self.faults.append(MappingFault(path, None, f"a mapping has at most {MAX_LEVELS} levels"))
            return _literal(None)
        if isinstance(node, list):
            return _array([self.maker(item, (*path, index)) for index, item in enumerate(node)])
        return _object({name: self.maker(item, (*path, name)) for name, item in node.items()})

    def _expression(self, source: str, path: tuple[str | int, ...]) -> Expression | None:
        try:
            return compile_expression(source, self._scope, values.MAX_LEVELS - len(path))
        except RefusedSourceError as error:
            self.faults.append(MappingFault(path, error.fault.offset, error.fault.message))
            return None

    def _constant(self, node: Any, path: tuple[str | int, ...]) -> Any:
        try:
            return plain(node)
        except UnfitValueError as error:
            self.faults.append(MappingFault(path, None, f"the value {error}"))
            return None


def _literal(value: Any) -> _Maker:
    return lambda _activation, _budget: value


def _array(makers: list[_Maker]) -> _Maker:
    return lambda activation, budget: [make(activation, budget) for make in makers]


def _object(makers: dict[str, _Maker]) -> _Maker:
    pairs = tuple(makers.items())
    return lambda activation, budget: {name: make(activation, budget) for name, make in pairs}

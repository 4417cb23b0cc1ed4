"""Reads a document of spec/ safely, with the line and column of each value; it judges the YAML and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import yaml

Pointer: TypeAlias = tuple[str, ...]
Position: TypeAlias = tuple[int, int]

_TAG: Final = "tag:yaml.org,2002:"
# YAML 1.1 reads `no` as false, `0o7` and `1:30` as numbers and a bare date as a time; here a plain scalar that is
# not text has to be spelled as JSON spells it.
_JSON_SPELLINGS: Final[Mapping[str, re.Pattern[str]]] = {
    f"{_TAG}null": re.compile(r"null"),
    f"{_TAG}bool": re.compile(r"true|false"),
    f"{_TAG}int": re.compile(r"-?(0|[1-9][0-9]*)"),
    f"{_TAG}float": re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+([eE][+-]?[0-9]+)?"),
}


class Fault(NamedTuple):
    """Where a document breaks a rule, and how."""

    pointer: Pointer
    message: str


class UnreadableError(Exception):
    """The file is not a document that can be judged; `position` is where, as line and column from 1."""

    def __init__(self, message: str, position: Position = (1, 1)) -> None:
        super().__init__(message)
        self.position = position


@dataclass(frozen=True, slots=True)
class Document:
    """An authored document: its value as JSON would have it, and where each part of it is written."""

    path: Path
    root: dict[str, Any]
    positions: Mapping[Pointer, Position]

    def position(self, pointer: Pointer) -> Position:
        """Return the line and column of `pointer`, or of the nearest written part around it."""
        while pointer not in self.positions:
            pointer = pointer[:-1]
        return self.positions[pointer]


def read(path: Path) -> Document:
    """Read `path`; OSError where that fails, UnreadableError as `parse` has it."""
    return parse(path, path.read_bytes())


def parse(path: Path, text: bytes) -> Document:
    """Read `text`, the content of `path`.

    Raises UnreadableError unless it is one mapping without tags, anchors, repeated keys or unclear scalars.
    """
    try:
        root = yaml.compose(text.decode(), Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise UnreadableError(error.problem or "is not YAML", _position(error.problem_mark)) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UnreadableError(f"is not YAML in UTF-8: {error}") from error
    if not isinstance(root, yaml.MappingNode):
        raise UnreadableError("is not a mapping")
    positions: dict[Pointer, Position] = {(): _position(root.start_mark)}
    return Document(path, _mapping(root, (), positions), positions)


def written(pointer: Pointer) -> str:
    """Spell `pointer` as RFC 6901 does."""
    return "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in pointer)


class _Loader(yaml.SafeLoader):
    """Refuses what makes a document depend on more than its plain text."""

    def compose_node(self, parent: yaml.Node | None, index: Hashable) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]  # The stub does not annotate it.
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise yaml.composer.ComposerError(None, None, "anchors are not used: share by $ref", event.start_mark)
        if getattr(event, "tag", None) is not None:
            raise yaml.composer.ComposerError(None, None, "tags are not used", event.start_mark)
        return super().compose_node(parent, index)  # type: ignore[arg-type]  # The stub is narrower than the base class.


def _position(mark: Any) -> Position:
    return (1, 1) if mark is None else (mark.line + 1, mark.column + 1)


def _value(node: yaml.Node, pointer: Pointer, positions: dict[Pointer, Position]) -> Any:
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, pointer, positions)
    if isinstance(node, yaml.SequenceNode):
        return [_element(item, (*pointer, str(place)), positions) for place, item in enumerate(node.value)]
    return _scalar(node)


def _element(node: yaml.Node, pointer: Pointer, positions: dict[Pointer, Position]) -> Any:
    positions[pointer] = _position(node.start_mark)
    return _value(node, pointer, positions)


def _mapping(node: yaml.MappingNode, pointer: Pointer, positions: dict[Pointer, Position]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = _key(key_node)
        if key in members:
            raise UnreadableError(f"the key {key} stands here twice", _position(key_node.start_mark))
        positions[(*pointer, key)] = _position(key_node.start_mark)
        members[key] = _value(value_node, (*pointer, key), positions)
    return members


def _key(node: yaml.Node) -> str:
    if node.tag != f"{_TAG}str":
        raise UnreadableError("a key that is not text: quote it", _position(node.start_mark))
    return str(node.value)


def _scalar(node: yaml.Node) -> Any:
    if node.tag == f"{_TAG}str":
        return node.value
    spelling = _JSON_SPELLINGS.get(node.tag)
    if spelling is None or not spelling.fullmatch(node.value):
        raise UnreadableError(f"{node.value!r} is not text in YAML: quote it", _position(node.start_mark))
    return json.loads(node.value)

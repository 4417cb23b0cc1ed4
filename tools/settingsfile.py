"""The text of gatehouse.yaml: where each setting stands, how an entry is added; what they mean is settings.py's."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from handlers.gateway.yaml_reader import (
    Document,
    Fault,
    Path,
    Place,
    UnreadableError,
    read_document,
)

_PLAIN: Final = re.compile(r"[A-Za-z0-9_./-]+")


class SettingsError(Exception):
    """The settings were refused; each finding is one line: the place, the name, what should stand there."""

    def __init__(self, findings: list[str]) -> None:
        super().__init__("\n".join(findings))
        self.findings = findings


@dataclass(frozen=True, slots=True)
class SettingsText:
    """The value of a settings file, and where in it each setting stands."""

    name: str
    value: dict[str, Any]
    document: Document

    def place(self, path: Path) -> str:
        """FILE:LINE:COLUMN of the setting at `path`, or of the nearest one around it."""
        return _at(self.name, self.document.place(Fault(path, "", key=True)))


def read(raw: bytes, name: str) -> SettingsText:
    """Read one YAML mapping; a file with nothing or nothing but comments is an empty one. `name` is for messages.

    Raises SettingsError, whose findings repeat names, and of values no more than a word such as yes.
    """
    try:
        document = read_document(b"{}" if _is_blank(raw) else raw)
    except UnreadableError as error:
        raise SettingsError([f"{_at(name, error.place)}: {error}"]) from None
    if document.problems:
        raise SettingsError([f"{_at(name, problem.place)}: {problem.message}" for problem in document.problems])
    if not isinstance(document.value, dict):
        raise SettingsError([f"{name}:1:1: must be a mapping of settings"])
    return SettingsText(name, document.value, document)


def _is_blank(raw: bytes) -> bool:
    return all(line.lstrip()[:1] in (b"", b"#") for line in raw.splitlines())


def dotted(path: Path) -> str:
    """How messages name a setting: events[0].keyFiles."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def with_key_file(text: str, name: str, workflow: str, trigger: str, file: str) -> str:
    """Return the text of a settings file with one more key file for a workflow's trigger, all else left as it stands.

    The text is one that `settings.parse` takes. Raises SettingsError where its layout cannot be extended.
    """
    settings = read(text.encode(), name)
    nodes = _nodes(yaml.compose(text, Loader=yaml.SafeLoader))
    events = settings.value.get("events") or []
    pairs = [(entry["workflow"], entry["trigger"]) for entry in events]
    if (workflow, trigger) in pairs:
        index = pairs.index((workflow, trigger))
        events[index]["keyFiles"].append(file)
        extended = _with_element(text, nodes["events", index, "keyFiles"], [_scalar_text(file)])
    else:
        members = {"workflow": workflow, "trigger": trigger, "keyFiles": [file]}
        settings.value["events"] = [*events, members]
        extended = _with_entry(text, nodes.get(("events",)), members)
    if _value_of(extended) != settings.value:
        wanted = f"{{workflow: {workflow}, trigger: {trigger}, keyFiles: [… {file}]}}"
        message = f"is laid out in a way that only a person can extend; wanted in events: {wanted}"
        raise SettingsError([f"{settings.place(('events',))}: {message}"])
    return extended


def _nodes(node: yaml.Node | None, path: Path = ()) -> dict[Path, yaml.Node]:
    """Return every value of a document by its path, with its extent and style."""
    nodes = {} if node is None else {path: node}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            nodes |= _nodes(value, (*path, key.value))
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            nodes |= _nodes(value, (*path, index))
    return nodes


def _value_of(text: str) -> dict[str, Any] | None:
    try:
        return read(text.encode(), "").value
    except SettingsError:
        return None


def _with_entry(text: str, events: yaml.Node | None, members: Mapping[str, Any]) -> str:
    lines = [f"{key}: {_value_text(value)}" for key, value in members.items()]
    if events is None:
        return text.rstrip() + "\n\nevents:\n" + _block(lines, 2) + "\n"
    if isinstance(events, yaml.SequenceNode) and events.value:
        return _with_element(text, events, lines)
    if events.start_mark.index == events.end_mark.index:
        end = _line_end(text, events.end_mark.index)
        return f"{text[:end]}\n{_block(lines, 2)}{text[end:]}"
    return f"{text[: events.start_mark.index].rstrip(' ')}\n{_block(lines, 2)}{text[events.end_mark.index :]}"


def _with_element(text: str, sequence: Any, lines: Sequence[str]) -> str:
    """Add an element to a list that has some, in the list's own style."""
    last = _end(sequence.value[-1])
    if sequence.flow_style:
        element = lines[0] if len(lines) == 1 else f"{{{', '.join(lines)}}}"
        return f"{text[:last]}, {element}{text[last:]}"
    end = _line_end(text, last)
    return f"{text[:end]}\n{_block(lines, sequence.start_mark.column)}{text[end:]}"


def _end(node: yaml.Node) -> int:
    """Where the last token of a value ends; the end mark of a block collection is beyond the comments that follow."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style:
        last = node.value[-1]
        return _end(last[1] if isinstance(node, yaml.MappingNode) else last)
    return node.end_mark.index


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _block(lines: Sequence[str], column: int) -> str:
    return "\n".join(" " * column + ("- " if number == 0 else "  ") + line for number, line in enumerate(lines))


def _value_text(value: Any) -> str:
    return f"[{', '.join(map(_scalar_text, value))}]" if isinstance(value, list) else _scalar_text(value)


def _scalar_text(value: str) -> str:
    if _PLAIN.fullmatch(value) and _value_of(f"x: {value}") == {"x": value}:
        return value
    return json.dumps(value, ensure_ascii=False)


def _at(name: str, place: Place) -> str:
    return f"{name}:{place.line}:{place.column}"

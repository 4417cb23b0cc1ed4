"""The text of gatehouse.yaml: strict YAML with the place of every value. What the values mean is settings.py's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import yaml

Path = tuple[str | int, ...]


class Mark(Protocol):
    """Where a token begins, counted from 0; PyYAML has two classes for it."""

    line: int
    column: int


_PLAIN: Final = re.compile(r"[A-Za-z0-9_./-]*[A-Za-z][A-Za-z0-9_./-]*")
_SCALARS: Final = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("bool", "float", "int", "null"))


class SettingsError(Exception):
    """The settings were refused; each finding is one line: the place, the name, what should stand there."""

    def __init__(self, findings: list[str]) -> None:
        super().__init__("\n".join(findings))
        self.findings = findings


@dataclass(frozen=True, slots=True)
class SettingsText:
    """The value of a settings file, with the node of each setting's value, and of its name where it has one."""

    name: str
    value: dict[str, Any]
    nodes: dict[Path, yaml.Node] = field(default_factory=dict)
    keys: dict[Path, yaml.Node] = field(default_factory=dict)

    def place(self, path: Path) -> str:
        """FILE:LINE:COLUMN of the setting at `path`, or of the nearest one around it."""
        while path and path not in self.nodes:
            path = path[:-1]
        node = self.keys.get(path) or self.nodes.get(path)
        return _place(self.name, node.start_mark if path and node else None)


def read(text: str, name: str) -> SettingsText:
    """Read one YAML mapping without tags, anchors and repeated keys; `name` is the file's, for messages.

    Raises SettingsError, whose findings never repeat a value.
    """
    try:
        _refuse_indirection(text, name)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise _error(name, error.problem_mark, f"is not YAML: {error.problem}") from None
    except yaml.YAMLError:
        raise SettingsError([f"{name}: is not YAML: it holds a character that no text holds"]) from None
    except RecursionError:
        raise SettingsError([f"{name}: is nested too deep"]) from None
    settings = SettingsText(name, {})
    if node is None or node.tag == "tag:yaml.org,2002:null":
        return settings
    if not isinstance(node, yaml.MappingNode):
        raise _error(name, node.start_mark, "must be a mapping of settings")
    settings.value.update(_construct(node, (), settings))
    return settings


def _refuse_indirection(text: str, name: str) -> None:
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if getattr(event, "tag", None) is not None:
            raise _error(name, event.start_mark, "tags are not read here")
        if getattr(event, "anchor", None) is not None:
            raise _error(name, event.start_mark, "anchors and aliases are not read here")


def _construct(node: yaml.Node, path: Path, settings: SettingsText) -> Any:
    settings.nodes[path] = node
    if isinstance(node, yaml.MappingNode):
        return dict(_members(node, path, settings))
    if isinstance(node, yaml.SequenceNode):
        return [_construct(element, (*path, index), settings) for index, element in enumerate(node.value)]
    return _scalar(node)


def _members(node: yaml.MappingNode, path: Path, settings: SettingsText) -> Iterator[tuple[str, Any]]:
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _error(settings.name, key.start_mark, "a key must be text")
        member = (*path, key.value)
        if member in settings.keys:
            raise _error(settings.name, key.start_mark, f"{dotted(member)} stands here twice")
        settings.keys[member] = key
        yield key.value, _construct(value, member, settings)


def _scalar(node: yaml.Node) -> Any:
    """A number, a boolean or null as YAML has it; whatever else YAML 1.1 knows, such as dates, stays text."""
    if node.tag not in _SCALARS:
        return node.value
    try:
        return yaml.constructor.SafeConstructor().construct_object(node)
    except ValueError:
        return node.value


def with_key_file(text: str, name: str, workflow: str, trigger: str, file: str) -> str:
    """Return the text of a settings file with one more key file for a workflow's trigger, all else left as it stands.

    The text is one that `settings.parse` takes. Raises SettingsError where its layout cannot be extended.
    """
    settings = read(text, name)
    events = settings.value.get("events") or []
    pairs = [(entry["workflow"], entry["trigger"]) for entry in events]
    if (workflow, trigger) in pairs:
        index = pairs.index((workflow, trigger))
        events[index]["keyFiles"].append(file)
        extended = _with_element(text, settings.nodes["events", index, "keyFiles"], [_scalar_text(file)])
    else:
        members = {"workflow": workflow, "trigger": trigger, "keyFiles": [file]}
        settings.value["events"] = [*events, members]
        extended = _with_entry(text, settings.nodes.get(("events",)), members)
    if _value_of(extended, name) != settings.value:
        place = settings.place(("events",))
        wanted = f"{{workflow: {workflow}, trigger: {trigger}, keyFiles: [… {file}]}}"
        raise SettingsError(
            [f"{place}: is laid out in a way that only a person can extend; wanted in events: {wanted}"]
        )
    return extended


def _value_of(text: str, name: str) -> dict[str, Any] | None:
    try:
        return read(text, name).value
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
    return (
        value if _PLAIN.fullmatch(value) and yaml.safe_load(value) == value else json.dumps(value, ensure_ascii=False)
    )


def dotted(path: Path) -> str:
    """How messages name a setting: events[0].keyFiles."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def _place(name: str, mark: Mark | None) -> str:
    return name if mark is None else f"{name}:{mark.line + 1}:{mark.column + 1}"


def _error(name: str, mark: Mark | None, message: str) -> SettingsError:
    return SettingsError([f"{_place(name, mark)}: {message}"])

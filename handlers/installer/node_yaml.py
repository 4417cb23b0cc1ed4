"""A config as YAML: node.yaml has the same structure as the JSON, and is held to the same."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
import yaml

from handlers.gateway.bodies import LISTED_FINDINGS, beyond, listed
from handlers.gateway.faults import Finding
from handlers.gateway.schemas import Describer, validator
from handlers.gateway.yaml_reader import Document, Fault, Path, Place, UnreadableError, read_document
from handlers.installer.meaning import faults_of_meaning
from storage.installer.config import StoredConfig

YAML: Final = "application/yaml"

_PART: Final = re.compile(r"\[([0-9]+)\]|[^.\[\]]+")


class NotAConfig(Exception):
    """Text that is no config; `findings` are all its faults in their order, each with its line and column."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__(findings[0].field)
        self.findings = findings


class _Placed(NamedTuple):
    place: Place
    field: str
    message: str


class NodeYaml:
    """Reads configs that are YAML, by the schema that JSON ones have."""

    def __init__(self, contract: Mapping[str, Any]) -> None:
        self._check = validator(contract, "/components/schemas/Config")
        self._describer = Describer(contract)

    def read(self, raw: bytes) -> Any:
        """Return the JSON value of a config; raises NotAConfig."""
        try:
            document = read_document(raw)
        except UnreadableError as error:
            raise _refused([_Placed(error.place, self._field(error.path), str(error))]) from None
        placed = [_Placed(each.place, self._field(each.path), each.message) for each in document.problems]
        placed += self._faults(document)
        if placed:
            raise _refused(placed)
        return document.value

    def _faults(self, document: Document) -> Iterator[_Placed]:
        """Give what is wrong with the value, but not that there is none where it could not be read."""
        unread = {problem.path for problem in document.problems if _at(document.value, problem.path) is None}
        findings: list[Finding] = []
        for error in listed(self._check, document.value, len(orjson.dumps(document.value))):
            finding = self._describer.describe(error)
            # A field has no names that the document does not know: each is told where it stands.
            unknown = error.kind.as_dict().get("unexpected", ())[:LISTED_FINDINGS]
            for name in unknown:
                yield _Placed(document.place(Fault((*error.instance_path, name), "", key=True)), *finding)
            if not unknown:
                findings.append(finding)
        for finding in dict.fromkeys(findings + beyond(findings, faults_of_meaning(document.value))):
            path = _path(finding.field)
            if path not in unread:
                yield _Placed(document.place(Fault(path, "", key=True)), *finding)

    def _field(self, path: Path) -> str:
        # What stands behind a name that is none has -1 in its path.
        return self._describer.path(path[: path.index(-1)] if -1 in path else path)


def node_yaml(config: StoredConfig) -> str:
    """Return a stored config as YAML: as it came, or where it was JSON with its members and no others."""
    return config.text if config.media_type == YAML else written(orjson.loads(config.value))


def written(value: Any) -> str:
    """Return a JSON value as YAML that every reader takes for that value."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=sys.maxsize)


class _Dumper(yaml.SafeDumper):
    """Puts text in quotes that some reader would take for something else."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - PyYAML's.
        super().increase_indent(flow, indentless=False)

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Leave plain what is clear."""
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=None if _is_clear(text) else '"')


_Dumper.add_representer(str, _Dumper.represent_text)


def _is_clear(text: str) -> bool:
    try:
        document = read_document(text.encode())
    except UnreadableError:
        return False
    return document.value == text and not document.problems


def _refused(placed: Sequence[_Placed]) -> NotAConfig:
    return NotAConfig(
        [
            Finding(field, f"line {place.line}, column {place.column}: {message}")
            for place, field, message in sorted(placed)
        ]
    )


def _path(field: str) -> Path:
    """Return the path that a finding names."""
    return tuple(match[0] if match[1] is None else int(match[1]) for match in _PART.finditer(field))


def _at(value: Any, path: Path) -> Any:
    """Return what a document has at a path, None for nothing."""
    for part in path:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and 0 <= part < len(value):
            value = value[part]
        else:
            return None
    return value

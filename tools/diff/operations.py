"""Pairs the operations of two documents and compares them; what belongs to no operation alone is compared here, too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tools.diff import requests
from tools.diff.answers import answers
from tools.diff.nodes import Node, Place
from tools.diff.requests import ParameterKey
from tools.diff.verdicts import Findings, Notes
from tools.lint.grammar import METHODS

Named = Mapping[tuple[str, str], "Operation"]

_PARAMETER: Final = re.compile(r"\{[^{}]*\}")
# What of a security scheme decides how a credential is sent.
_SENT: Final = ("type", "in", "name", "scheme", "openIdConnectUrl", "flows")


class Operation:
    """One operation of a document, with what its path and its document give it."""

    def __init__(self, root: Node, path: Node, template: str, method: str, node: Node) -> None:
        self.node = node
        self.template = template
        self.method = method
        self.names = [name.strip("{}") for name in _PARAMETER.findall(template)]
        self.parameters = dict(self._parameters(path)) | dict(self._parameters(node))
        self.security = node.at("security") or root.at("security") or node.made("security", [])
        self.servers = node.at("servers") or path.at("servers") or root.at("servers") or node.made("servers", [])

    @property
    def name(self) -> str:
        """Its operationId, or its method and path."""
        return str(self.node.get("operationId", f"{self.method.upper()} {self.template}"))

    def _parameters(self, holder: Node) -> Iterator[tuple[ParameterKey, Node]]:
        for _, each in holder.each("parameters"):
            found = each.resolved()
            where, name = str(found.get("in")), str(found.get("name"))
            # A header's name counts in any case of letters, and a path's parameter by its place.
            if where == "header":
                name = name.lower()
            elif where == "path" and name in self.names:
                name = f"{self.names.index(name) + 1}"
            yield (where, name), found


def compare(old: Node, new: Node, findings: Findings) -> None:
    """Note what differs between two documents in what their operations ask and answer."""
    before, after = dict(_operations(old)), dict(_operations(new))
    moved = {each.name: each for key, each in after.items() if key not in before}
    for key, operation in before.items():
        if key in after:
            _operation(operation, after[key], findings)
        else:
            _removed(operation, moved.get(operation.name), findings)
    for key, operation in after.items():
        if key not in before:
            _added(operation, before, findings)
    _schemes(old, new, Notes(findings, None, "request"))
    _catalogue(old, new, Notes(findings, None, "answer"))
    _calls_back(old, new, Notes(findings, None, "both"))


def _operations(root: Node) -> Iterator[tuple[tuple[str, str], Operation]]:
    for template, item in root.each("paths"):
        path = item.resolved()
        for method in METHODS:
            node = path.at(method)
            if node is not None:
                key = (_PARAMETER.sub("{}", template), method)
                yield key, Operation(root, path, template, method, node)


def _removed(old: Operation, moved: Operation | None, findings: Findings) -> None:
    text = "The operation is gone."
    if moved is not None:
        text = f"The operation is no longer here, but at {moved.method.upper()} {moved.template}."
    Notes(findings, old.name, "both").breaking(old.node.place, text)


def _added(new: Operation, before: Named, findings: Findings) -> None:
    notes = Notes(findings, new.name, "both")
    notes.safe(new.node.place, "The operation is new.")
    template = _PARAMETER.sub("{}", new.template)
    covering = {old.template for (path, _), old in before.items() if path != template and _covers(path, template)}
    if covering and template not in {path for path, _ in before}:
        notes.risky(new.node.place, f"Requests to this path were for {', '.join(sorted(covering))} before.")


def _covers(wide: str, narrow: str) -> bool:
    """Say whether paths of the template `narrow`, or some of them, are of `wide` too."""
    pairs = list(zip(wide.split("/"), narrow.split("/"), strict=False))
    return wide.count("/") == narrow.count("/") and all(
        one == other or "{}" in one or "{}" in other for one, other in pairs
    )


def _operation(old: Operation, new: Operation, findings: Findings) -> None:
    asks, gives, both = (Notes(findings, new.name, side) for side in ("request", "answer", "both"))
    place = new.node.place
    if old.names != new.names:
        pairs = zip(old.names, new.names, strict=True)
        names = ", ".join(f"`{one}` to `{other}`" for one, other in pairs if one != other)
        both.risky(place, f"Parameters of the path are renamed, {names}: generated clients name arguments by them.")
    if old.node.get("operationId") != new.node.get("operationId"):
        both.risky(place.below("operationId"), "Another operationId: generated clients name their functions by it.")
    requests.parameters(old.parameters, new.parameters, asks)
    requests.body(old.node.at("requestBody"), new.node.at("requestBody"), place.below("requestBody"), asks)
    requests.security(old.security, new.security, place.below("security"), asks)
    _listeners(old.node, new.node, place.below("x-listeners"), asks)
    _servers(old, new, place.below("servers"), asks)
    answers(old.node, new.node, place, gives)
    if old.node.get("callbacks") != new.node.get("callbacks"):
        both.risky(place.below("callbacks"), "The callbacks differ, which are not compared.")


def _listeners(old: Node, new: Node, place: Place, notes: Notes) -> None:
    before, after = (set(side.get("x-listeners", ())) for side in (old, new))
    for name in sorted(before - after):
        notes.breaking(place, f"The operation is no longer served on the listener `{name}`.")
    for name in sorted(after - before):
        notes.safe(place, f"The operation is served on the listener `{name}`, too.")


def _servers(old: Operation, new: Operation, place: Place, notes: Notes) -> None:
    if _variables(old) != _variables(new):
        notes.risky(place, "The variables of a server differ: its address may be another one.")
    before, after = ([each.get("url") for each in side.servers.value] for side in (old, new))
    for url in before:
        if url not in after:
            notes.risky(place, f"{url} is no longer told as a server.")
    if [url for url in after if url in before] != [url for url in before if url in after]:
        notes.risky(place, "Another server is told first, which clients take.")


def _variables(operation: Operation) -> dict[str, Any]:
    """Return what the address of each server that has variables may be made of."""
    return {
        each["url"]: {
            name: {word: variable.get(word) for word in ("enum", "default")}
            for name, variable in each["variables"].items()
        }
        for each in operation.servers.value
        if each.get("variables")
    }


def _schemes(old: Node, new: Node, notes: Notes) -> None:
    held = old.at("components")
    for name, before in () if held is None else held.each("securitySchemes"):
        after = new.at("components", "securitySchemes", name)
        # What it means that one comes or goes is told by the operations that name it.
        if after is not None:
            _scheme(*requests.meeting(before, after, after.place), name, notes)


def _scheme(old: Node, new: Node, place: Place, name: str, notes: Notes) -> None:
    for word in _SENT:
        if old.get(word) != new.get(word):
            notes.breaking(place.below(word), f"The credential `{name}` is sent in another way.")
    if old.get("x-problem") != new.get("x-problem"):
        notes.risky(place.below("x-problem"), f"A wrong credential `{name}` is answered by another code.")


def _catalogue(old: Node, new: Node, notes: Notes) -> None:
    for code, before in old.each("x-problems"):
        after = new.at("x-problems", code)
        if after is None:
            notes.risky(before.place, f"The problem {code} is no longer told of.")
            continue
        for word in ("status", "type"):
            if before.get(word) != after.get(word):
                text = f"The problem {code} has the {word} {after.get(word)} instead of {before.get(word)}."
                notes.breaking(after.place.below(word), text)
        _problem_parts(before, after, code, notes)
    for code, after in new.each("x-problems"):
        if old.at("x-problems", code) is None:
            notes.safe(after.place, f"The problem {code} is new; operations tell where it may come.")


def _problem_parts(old: Node, new: Node, code: str, notes: Notes) -> None:
    for name in sorted(set(old.get("members", ())) - set(new.get("members", ()))):
        notes.breaking(new.place.below("members"), f"The problem {code} no longer has the member `{name}`.")
    headers: tuple[Mapping[str, Any], ...] = tuple(side.get("headers", {}) for side in (old, new))
    for name in headers[0]:
        if name not in headers[1]:
            notes.breaking(new.place.below("headers", name), f"The problem {code} no longer has the header `{name}`.")
        elif headers[0][name] != headers[1][name]:
            text = f"The header `{name}` of the problem {code} has another value."
            notes.risky(new.place.below("headers", name), text)


def _calls_back(old: Node, new: Node, notes: Notes) -> None:
    if old.get("webhooks") != new.get("webhooks"):
        notes.risky(new.place.below("webhooks"), "The webhooks differ, which are not compared.")

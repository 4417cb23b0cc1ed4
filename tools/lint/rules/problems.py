"""Rules for refusals: the catalogue in x-problems, the codes of each response, their headers and their causes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from tools.lint.document import Fault
from tools.lint.grammar import Node, Tree
from tools.lint.rules.examples import examples
from tools.lint.vocabulary import CHALLENGES, COUNTED, GATEWAY_CODES, SCHEMES

MEDIA_TYPE = "application/problem+json"
_FACTS = ("status", "title", "type")
_PROBLEM = {"$ref": "#/components/schemas/Problem"}
_REFUSAL = re.compile(r"[45][0-9]{2}")
_CHALLENGE = "WWW-Authenticate"
# A status that means nothing to a client without its header (RFC 9110 sections 11.6.1, 15.5.6, 10.2.3).
_HEADERS = {401: _CHALLENGE, 405: "Allow", 429: "Retry-After", 503: "Retry-After"}


def problem_media_type(tree: Tree) -> Iterator[Fault]:
    """A refusal is a problem (RFC 9457) and nothing else."""
    for _, _, response in _refusals(tree):
        if list(response.value.get("content", {})) != [MEDIA_TYPE]:
            yield Fault(response.pointer, f"has other content than {MEDIA_TYPE}")


def problem_code(tree: Tree) -> Iterator[Fault]:
    """A refusal lists its codes beside the Problem, and the catalogue has each of them with that status."""
    for _, status, response in _refusals(tree):
        codes = _codes(response)
        if not codes:
            yield Fault(response.pointer, "does not list its codes: allOf of Problem and an enum of `code`")
        for code in codes:
            if tree.root["x-problems"].get(code, {}).get("status") != int(status):
                yield Fault(response.pointer, f"{code} has not the status {status} in x-problems")


def problem_unused(tree: Tree) -> Iterator[Fault]:
    """Each code of the catalogue is given by an operation, or by the gateway where there is none."""
    given = {code for _, _, response in _refusals(tree) for code in _codes(response)}
    for code in tree.root["x-problems"]:
        if code not in given | GATEWAY_CODES:
            yield Fault(("x-problems", code), "is given by no operation")


def problem_list(tree: Tree) -> Iterator[Fault]:
    """The closed lists of Problem are sorted, in step with each other, and hold the whole catalogue."""
    place = ("components", "schemas", "Problem", "properties")
    codes, types = _closed_list(tree, "code"), _closed_list(tree, "type")
    if codes is None and types is None:
        return
    if codes is None or types is None or len(codes) != len(types):
        yield Fault(place, "lists not as many types as codes")
        return
    for member, values in (("code", codes), ("type", types)):
        disorder = ((a, b) for a, b in pairwise(map(str, values)) if a >= b)
        yield from (Fault((*place, member), f"{b} comes before {a}") for a, b in disorder)
    listed = dict(zip(map(str, codes), types, strict=True))
    for code, problem in tree.root["x-problems"].items():
        if listed.get(code) != problem["type"]:
            yield Fault(("x-problems", code), "stands not, or with another type, in the lists of Problem")


def problem_type(tree: Tree) -> Iterator[Fault]:
    """Two codes have two types."""
    seen: dict[str, str] = {}
    for code, problem in tree.root["x-problems"].items():
        if seen.setdefault(problem["type"], code) != code:
            yield Fault(("x-problems", code, "type"), f"is the type of {seen[problem['type']]}")


def problem_member(tree: Tree) -> Iterator[Fault]:
    """The members that a code carries are optional members of Problem."""
    problem = _problem(tree)
    optional = set(problem.get("properties", {})) - set(problem.get("required", []))
    for code, entry in tree.root["x-problems"].items():
        for member in entry.get("members", []):
            if member not in optional:
                yield Fault(("x-problems", code, "members"), f"{member} is no optional member of Problem")


def problem_header(tree: Tree) -> Iterator[Fault]:
    """A code of 401, 405, 429 or 503 carries the header of its status."""
    for code, problem in tree.root["x-problems"].items():
        header = _HEADERS.get(problem["status"])
        if header is not None and header not in problem.get("headers", {}):
            yield Fault(("x-problems", code), f"lacks the header {header}")


def response_header(tree: Tree) -> Iterator[Fault]:
    """A refusal documents, as required, each header of its codes; a fixed value is one that the header's enum has."""
    for _, _, response in _refusals(tree):
        for code in _codes(response):
            for name, value in tree.root["x-problems"].get(code, {}).get("headers", {}).items():
                header = tree.child(response, "headers", name)
                if header is None or not header.value.get("required", False):
                    yield Fault(response.pointer, f"does not document {name}, which {code} carries, as required")
                elif not _admits(tree, header, value):
                    yield Fault(header.pointer, f"does not admit {value!r}, with which {code} carries it")


def challenge(tree: Tree) -> Iterator[Fault]:
    """A challenge that the catalogue leaves open is documented as those of the listeners on which it is given."""
    catalogue = tree.root["x-problems"]
    left_open = {code for code, entry in catalogue.items() if entry.get("headers", {}).get(_CHALLENGE, "") is None}
    for operation, _, response in _refusals(tree):
        header = tree.child(response, "headers", _CHALLENGE)
        schema = None if header is None else tree.child(header, "schema")
        for code in left_open.intersection(_codes(response)):
            expected = sorted(CHALLENGES[listener] for listener in _asking(tree, operation, code))
            if schema is not None and sorted(map(str, schema.value.get("enum", []))) != expected:
                yield Fault(schema.pointer, f"is no enum of what {code} carries here: {', '.join(expected)}")


def problem_example(tree: Tree) -> Iterator[Fault]:
    """The example of a refusal is one of its codes, as the catalogue has it, with the members of that code alone."""
    catalogue = tree.root["x-problems"]
    carried = {member for entry in catalogue.values() for member in entry.get("members", [])}
    for _, _, response in _refusals(tree):
        media = tree.child(response, "content", MEDIA_TYPE)
        entries = {code: catalogue.get(code, {}) for code in _codes(response)}
        for pointer, value in () if media is None else examples(tree, media):
            entry = entries.get(str(value.get("code"))) if isinstance(value, dict) else None
            if entry is None or any(value.get(name) != entry.get(name) for name in _FACTS):
                yield Fault(pointer, "is none of the codes of this response as x-problems has them")
            elif carried & value.keys() != set(entry.get("members", [])):
                yield Fault(pointer, "has not the members of its code, or has those of another")


def cause(tree: Tree) -> Iterator[Fault]:
    """An operation documents what its parameters, its body and its security schemes can be refused with."""
    for operation in tree.every("operation"):
        documented = {code for _, _, response in _refusals(tree, operation) for code in _codes(response)}
        for node in _fallible(tree, operation):
            code = node.value.get("x-problem")
            if code is not None and code not in documented:
                yield Fault(
                    operation.pointer, f"does not document {code}, the x-problem of {'/'.join(node.pointer[-2:])}"
                )
        for status in _needed(tree, operation) - set(operation.value.get("responses", {})):
            yield Fault(operation.pointer, f"can be refused with {status} but does not document it")


def _problem(tree: Tree) -> Mapping[str, Any]:
    schemas: Mapping[str, Mapping[str, Any]] = tree.root.get("components", {}).get("schemas", {})
    return schemas.get("Problem", {})


def _closed_list(tree: Tree, member: str) -> list[Any] | None:
    place = ("components", "schemas", "Problem", "properties", member)
    return next((node.value.get("enum") for node in tree.every("schema") if node.pointer == place), None)


def _refusals(tree: Tree, *operations: Node) -> Iterator[tuple[Node, str, Node]]:
    """Yield each operation, status and response that is a refusal; of all operations where none is given."""
    for operation in operations or tree.every("operation"):
        for status, response in tree.children(operation, "responses").items():
            if _REFUSAL.fullmatch(status):
                yield operation, status, response


def _codes(response: Node) -> list[str]:
    media = response.value.get("content", {}).get(MEDIA_TYPE, {})
    match media.get("schema"):
        case {"allOf": [problem, {"properties": {"code": {"enum": [*codes]}}}]} if problem == _PROBLEM:
            return [str(code) for code in codes]
    return []


def _admits(tree: Tree, header: Node, value: Any) -> bool:
    schema = tree.child(header, "schema")
    if schema is None or value is None:
        return schema is not None
    if isinstance(value, str):
        return value in schema.value.get("enum", [])
    return schema.value.get("type") == "integer" and tree.validator(schema).is_valid(value)


def _fallible(tree: Tree, operation: Node) -> Iterator[Node]:
    yield from tree.parameters(operation)
    body = tree.child(operation, "requestBody")
    if body is not None:
        yield body
    for requirement in operation.value.get("security", []):
        for name in requirement:
            scheme = tree.child(Node("components", ("components",), {}), "securitySchemes", name)
            if scheme is not None:
                yield scheme


def _asking(tree: Tree, operation: Node, code: str) -> set[str]:
    """The listeners of the security schemes whose refusal is `code`."""
    declared = tree.root.get("components", {}).get("securitySchemes", {})
    names = {name for requirement in operation.value.get("security", []) for name in requirement}
    return {SCHEMES[name] for name in names & SCHEMES.keys() if declared.get(name, {}).get("x-problem") == code}


def _needed(tree: Tree, operation: Node) -> set[str]:
    """The statuses that the gateway gives by itself.

    They are 400 for faults without an x-problem, 413 for a long body, 429 where wrong credentials are counted.
    """
    needed = set() if tree.child(operation, "requestBody") is None else {"400", "413"}
    if any("x-problem" not in parameter.value for parameter in tree.parameters(operation)):
        needed.add("400")
    if any(name in COUNTED for requirement in operation.value.get("security", []) for name in requirement):
        needed.add("429")
    return needed

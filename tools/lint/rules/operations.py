"""Rules for operations and the document around them: names, texts, listeners, statuses, security, links."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tools.lint.document import Fault
from tools.lint.grammar import Node, Tree, target_of
from tools.lint.vocabulary import SCHEMES, SERVERS

_SEMVER = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)")
_CAMEL_CASE = re.compile(r"[a-z][a-z0-9]*([A-Z][a-z0-9]*)*")
_STATUS = re.compile(r"[1-5][0-9]{2}")
_EXPRESSION = re.compile(
    r"\$(?P<side>request|response)\.(?P<part>body|header|path|query)(#(?P<body>(/.*)?)|\.(?P<name>.+))"
)


def version(tree: Tree) -> Iterator[Fault]:
    """`info.version` is a semantic version, so that the changelog can name it."""
    if not _SEMVER.fullmatch(tree.root["info"]["version"]):
        yield Fault(("info", "version"), "is no semantic version")


def operation_id(tree: Tree) -> Iterator[Fault]:
    """Each operation has a name of its own in camel case: files and functions are named after it."""
    operations = list(tree.every("operation"))
    names = Counter(node.value.get("operationId") for node in operations)
    for node in operations:
        name = node.value.get("operationId")
        if name is None or not _CAMEL_CASE.fullmatch(name):
            yield Fault(node.pointer, "has no operationId in camel case")
        elif names[name] > 1:
            yield Fault((*node.pointer, "operationId"), f"{name} is the name of another operation too")


def text(tree: Tree) -> Iterator[Fault]:
    """Operations have a summary and a description; tags and parameters have a description."""
    needed = {"operation": ("summary", "description"), "tag": ("description",), "parameter": ("description",)}
    for node in tree.every(*needed):
        yield from (
            Fault(node.pointer, f"has no {member}") for member in needed[node.kind] if not node.value.get(member)
        )


def tag(tree: Tree) -> Iterator[Fault]:
    """Each operation has exactly one tag, which the document declares: it names the handler's module."""
    declared = {node.value["name"] for node in tree.every("tag")}
    for node in tree.every("operation"):
        tags = node.value.get("tags", [])
        if len(tags) != 1 or not declared.issuperset(tags):
            yield Fault(node.pointer, "has not exactly one tag that the document declares")


def status(tree: Tree) -> Iterator[Fault]:
    """Each status is spelled out, and one of them is a success: `default` and ranges would let anything pass."""
    for node in tree.every("operation"):
        statuses = node.value.get("responses", {})
        for name in statuses:
            if not _STATUS.fullmatch(name):
                yield Fault((*node.pointer, "responses", name), "is no single status")
        if not any(name.startswith("2") for name in statuses):
            yield Fault(node.pointer, "has no success")


def server(tree: Tree) -> Iterator[Fault]:
    """An operation's servers are those of its listeners, in order, so that generic tools know the port."""
    for node in tree.every("operation"):
        expected = [SERVERS[name] for name in node.value["x-listeners"]]
        if [server["url"] for server in node.value.get("servers", [])] != expected:
            yield Fault(node.pointer, f"has other servers than those of its listeners: {', '.join(expected)}")


def security(tree: Tree) -> Iterator[Fault]:
    """An operation says who may call it, on each of its listeners, by declared schemes of these listeners."""
    declared = tree.root.get("components", {}).get("securitySchemes", {})
    for node in tree.every("operation"):
        requirements = node.value.get("security", [])
        names = [name for requirement in requirements for name in requirement]
        if "security" not in node.value:
            yield Fault(node.pointer, "has no security; an open operation has an empty list")
        if any(len(requirement) != 1 for requirement in requirements):
            yield Fault((*node.pointer, "security"), "has an alternative that is not exactly one scheme")
        yield from (
            Fault((*node.pointer, "security"), f"{name} is not declared") for name in names if name not in declared
        )
        covered = {SCHEMES.get(name) for name in names}
        if names and covered != set(node.value["x-listeners"]):
            yield Fault((*node.pointer, "security"), "has not a scheme for each of its listeners and for no other")


def unused(tree: Tree) -> Iterator[Fault]:
    """Every component is used."""
    used = {target_of(node.value["$ref"])[:3] for node in tree if "$ref" in node.value}
    for node in tree.every("operation"):
        used |= {("components", "securitySchemes", name) for each in node.value.get("security", []) for name in each}
    for kind, members in tree.root.get("components", {}).items():
        for name in members:
            if ("components", kind, name) not in used:
                yield Fault(("components", kind, name), "is not used")


def link(tree: Tree) -> Iterator[Fault]:
    """A link leads to an operation of this document, gives what it requires, from what is there."""
    operations = {node.value.get("operationId"): node for node in tree.every("operation")}
    for operation in operations.values():
        for response in tree.children(operation, "responses").values():
            for found in tree.children(response, "links").values():
                target = operations.get(found.value.get("operationId"))
                if target is None:
                    yield Fault(found.pointer, "leads to no operation of this document")
                else:
                    yield from _link_parameters(tree, found, target)
                    yield from _link_sources(tree, found, operation, response)


def _link_parameters(tree: Tree, found: Node, target: Node) -> Iterator[Fault]:
    given = set(found.value.get("parameters", {}))
    for parameter in tree.parameters(target):
        names = {parameter.value["name"], f"{parameter.value['in']}.{parameter.value['name']}"}
        if parameter.value["in"] == "path" and not given & names:
            yield Fault(found.pointer, f"does not give {parameter.value['name']}")
        given -= names
    yield from (Fault((*found.pointer, "parameters", name), "is no parameter of the target") for name in sorted(given))
    body = tree.child(target, "requestBody", "content", "application/json", "schema")
    if "requestBody" in found.value and (body is None or not tree.validator(body).is_valid(found.value["requestBody"])):
        yield Fault((*found.pointer, "requestBody"), "is no body of the target")


def _link_sources(tree: Tree, found: Node, operation: Node, response: Node) -> Iterator[Fault]:
    for name, source in found.value.get("parameters", {}).items():
        if str(source).startswith("$") and not _is_there(tree, str(source), operation, response):
            yield Fault((*found.pointer, "parameters", name), f"{source} is not there")


def _is_there(tree: Tree, source: str, operation: Node, response: Node) -> bool:
    match = _EXPRESSION.fullmatch(source)
    if match is None:
        return False
    if match["part"] == "body":
        holder = response if match["side"] == "response" else tree.child(operation, "requestBody")
        schema = None if holder is None else tree.child(holder, "content", "application/json", "schema")
        return schema is not None and _declares(tree, schema, target_of(f"#{match['body']}"))
    if match["side"] == "response":
        return match["part"] == "header" and match["name"] in response.value.get("headers", {})
    wanted = (match["part"], match["name"])
    return any((each.value["in"], each.value["name"]) == wanted for each in tree.parameters(operation))


def _declares(tree: Tree, schema: Node, tokens: tuple[str, ...]) -> bool:
    if not tokens:
        return True
    head, rest = tokens[0], tokens[1:]
    below = tree.child(schema, "items") if head.isdecimal() else tree.child(schema, "properties", head)
    return below is not None and _declares(tree, below, rest)

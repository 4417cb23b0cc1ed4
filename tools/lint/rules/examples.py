"""Rules for examples: where there has to be one, and that each is what its schema asks for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from tools.lint.document import Fault, Pointer
from tools.lint.grammar import STREAM, Node, Tree

_DATA: Final = "data:"


def examples(tree: Tree, node: Node) -> Iterator[tuple[Pointer, Any]]:
    """Yield the place and the value of each example of a parameter, a header or a media type."""
    if "example" in node.value:
        yield (*node.pointer, "example"), node.value["example"]
    for example in tree.children(node, "examples").values():
        if "value" in example.value:
            yield (*example.pointer, "value"), example.value["value"]


def example(tree: Tree) -> Iterator[Fault]:
    """Parameters, request bodies and answers with a body have an example."""
    for node in tree.every("parameter", "media"):
        if not any(examples(tree, node)):
            yield Fault(node.pointer, "has no example")


def example_valid(tree: Tree) -> Iterator[Fault]:
    """An example satisfies its schema, formats included."""
    for node in tree.every("parameter", "header", "media"):
        schema = tree.child(node, "schema")
        if schema is not None:
            for pointer, value in examples(tree, node):
                yield from _faults(tree, schema, pointer, value)
    for node in tree.every("schema"):
        if "example" in node.value:
            yield from _faults(tree, node, (*node.pointer, "example"), node.value["example"])
        for place, value in enumerate(node.value.get("examples", [])):
            yield from _faults(tree, node, (*node.pointer, "examples", str(place)), value)


def stream_example(tree: Tree) -> Iterator[Fault]:
    """Each `data` line in the example of a stream is one of its events."""
    for node in tree.every("media"):
        schema = tree.child(node, "x-item-schema")
        if node.name == STREAM and schema is not None:
            for pointer, value in examples(tree, node):
                for line in str(value).splitlines():
                    if line.startswith(_DATA):
                        yield from _event_faults(tree, schema, pointer, line.removeprefix(_DATA))


def _event_faults(tree: Tree, schema: Node, pointer: Pointer, data: str) -> Iterator[Fault]:
    try:
        event = json.loads(data)
    except ValueError:
        yield Fault(pointer, f"{data.strip()} is not JSON")
        return
    for error in tree.validator(schema).iter_errors(event):
        yield Fault(pointer, f"{data.strip()}: {error.message}")


def _faults(tree: Tree, schema: Node, pointer: Pointer, value: Any) -> Iterator[Fault]:
    for error in tree.validator(schema).iter_errors(value):
        yield Fault((*pointer, *map(str, error.instance_path)), error.message)

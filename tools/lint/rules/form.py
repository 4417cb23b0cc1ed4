"""Rules on which all others rely: the references hold, the extensions are known, the document is OpenAPI 3.1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
from openapi_spec_validator import OpenAPIV31SpecValidator

from tools.lint.document import Fault
from tools.lint.grammar import Tree
from tools.lint.vocabulary import EXTENSIONS

# Keywords that give a schema a name or a base beside its pointer.
_OTHER_NAMES = ("$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$schema")


def reference(tree: Tree) -> Iterator[Fault]:
    """A `$ref` is local and leads to an object of its own kind, not round in a circle."""
    for node in tree:
        if "$ref" in node.value and not str(node.value["$ref"]).startswith("#/"):
            yield Fault((*node.pointer, "$ref"), "leaves the document: only local references are bundled")
            continue
        try:
            tree.resolved(node)
        except LookupError as error:
            yield Fault((*node.pointer, "$ref"), f"{error.args[0]} leads to no {node.kind}")


def schema_name(tree: Tree) -> Iterator[Fault]:
    """A schema is named by its pointer alone."""
    for node in tree.every("schema"):
        for keyword in _OTHER_NAMES:
            if keyword in node.value:
                yield Fault((*node.pointer, keyword), "is not used: a schema is named by its pointer")


def shape(tree: Tree) -> Iterator[Fault]:
    """The document has the shape of OpenAPI 3.1."""
    return _faults(OpenAPIV31SpecValidator.schema_validator.iter_errors(tree.root))


def openapi(tree: Tree) -> Iterator[Fault]:
    """The document is valid OpenAPI 3.1: its names are unique, its path parameters declared."""
    return _faults(OpenAPIV31SpecValidator(tree.root).iter_errors())


def extension(tree: Tree) -> Iterator[Fault]:
    """An `x-` member is of the vocabulary, stands where it may, and has its shape."""
    for node in tree:
        for name in node.value:
            known = EXTENSIONS.get(name)
            if name.startswith("x-") and (known is None or node.kind not in known.allowed):
                yield Fault((*node.pointer, name), f"is no extension of a {node.kind}")
            elif known is not None:
                schema = jsonschema_rs.Draft202012Validator(known.schema, validate_formats=True)
                for error in schema.iter_errors(node.value[name]):
                    yield Fault((*node.pointer, name, *map(str, error.instance_path)), error.message)


def required_extension(tree: Tree) -> Iterator[Fault]:
    """What the generator cannot do without is there."""
    for name, known in EXTENSIONS.items():
        for node in tree.every(*known.required):
            if name not in node.value:
                yield Fault(node.pointer, f"lacks {name}")


def _faults(errors: Iterator[Any]) -> Iterator[Fault]:
    for error in errors:
        yield Fault(tuple(str(token) for token in error.absolute_path), error.message.splitlines()[0])

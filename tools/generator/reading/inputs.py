"""Reads what an operation takes: credentials, parameters and a body."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

from tools.generator.annotations import annotation, literal, merged, union
from tools.generator.contracts import BodyContract, Field, Kind, Location, ParameterContract, SchemeContract
from tools.generator.documents import Node
from tools.generator.reading.naming import free_class, free_name

# The fields of Request that are not parameters; they keep their names, whichever of them an operation has.
_REQUEST_FIELDS: Final = ("principal", "body", "raw_body", "content_type", "accept", "trace_id")
_KINDS: Final[dict[str, type]] = {"string": str, "integer": int, "boolean": bool}
_PRINCIPAL_TYPES: Final = {"string": "str", "integer": "int"}
_IGNORED_HEADERS: Final = frozenset({"accept", "authorization", "content-type"})


def read_schemes(root: Node, models: Iterable[str]) -> dict[str, SchemeContract]:
    """Read components/securitySchemes by name, in authored order."""
    components = root.get("components")
    schemes = None if components is None else components.get("securitySchemes")
    if schemes is None:
        return {}
    taken_fields: set[str] = set()
    taken_classes = set(models)
    return {name: _read_scheme(name, node.resolved(), taken_fields, taken_classes) for name, node in schemes.items()}


def _read_scheme(name: str, scheme: Node, taken_fields: set[str], taken_classes: set[str]) -> SchemeContract:
    return SchemeContract(
        name=name,
        field=free_name(scheme, name, "scheme", taken_fields),
        class_name=free_class(scheme, name, "Principal", taken_classes),
        description=scheme.optional_text("description") or f"Who the scheme {name} has authenticated.",
        problem=scheme.text("x-problem"),
        header=_credential_header(scheme),
        principal=tuple(_read_principal(scheme["x-principal"])),
    )


def _credential_header(scheme: Node) -> str | None:
    kind = scheme.text("type")
    if kind == "http":
        return "Authorization"
    if kind == "apiKey" and scheme.text("in") == "header":
        return scheme.text("name")
    if kind == "mutualTLS":
        return None
    raise scheme.refuse("only http, apiKey in a header and mutualTLS are understood")


def _read_principal(members: Node) -> Iterator[Field]:
    taken: set[str] = set()
    for wire, member in members.items():
        kind = member.text("type")
        if kind not in _PRINCIPAL_TYPES:
            raise member.refuse("a member of a principal is an integer or a string")
        yield Field(
            wire=wire,
            name=free_name(member, wire, "member", taken),
            annotation=_PRINCIPAL_TYPES[kind],
            description=member.optional_text("description"),
        )


def read_security(operation: Node, schemes: dict[str, SchemeContract]) -> tuple[SchemeContract, ...]:
    """Read the alternatives of an operation, or the document's; none where it says that it is open to everybody."""
    security = operation.get("security") or operation.document.root.get("security")
    if security is None:
        raise operation.refuse("security is missing; an open operation has `security: []`")
    return tuple(_read_requirement(requirement, schemes) for requirement in security.elements())


def _read_requirement(requirement: Node, schemes: dict[str, SchemeContract]) -> SchemeContract:
    names = list(requirement.mapping())
    if len(names) != 1:
        raise requirement.refuse("an alternative is exactly one scheme; an open operation has `security: []`")
    if names[0] not in schemes:
        raise requirement.refuse(f"{names[0]} is not under /components/securitySchemes")
    return schemes[names[0]]


def read_parameters(path: str, item: Node, operation: Node) -> tuple[ParameterContract, ...]:
    """Read the parameters of the path item and of the operation, whose own replace those of the same place and name."""
    found: dict[tuple[str, str], Node] = {}
    for holder in (item, operation):
        listed = holder.get("parameters")
        for node in () if listed is None else listed.elements():
            parameter = node.resolved()
            location, name = parameter.text("in"), parameter.text("name")
            found[location, name.lower() if location == "header" else name] = parameter
    taken = set(_REQUEST_FIELDS)
    parameters = tuple(_read_parameter(node, taken) for node in found.values())
    _check_template(path, operation, parameters)
    return parameters


def _check_template(path: str, operation: Node, parameters: tuple[ParameterContract, ...]) -> None:
    declared = {parameter.field.wire for parameter in parameters if parameter.location == "path"}
    if (templated := set(re.findall(r"\{([^}]*)\}", path))) != declared:
        odd = ", ".join(sorted(templated ^ declared))
        raise operation.refuse(f"the path and the path parameters differ in {odd}")


def _read_parameter(parameter: Node, taken: set[str]) -> ParameterContract:
    location, schema = _read_location(parameter), parameter["schema"]
    kind = read_kind(schema)
    default = _read_default(schema, kind)
    required = parameter.flag("required")
    hint = annotation(schema)
    optional = not required and default is None
    return ParameterContract(
        field=Field(
            wire=parameter.text("name"),
            name=free_name(parameter, parameter.text("name"), location, taken),
            annotation=f"{hint} | UnsetType" if optional else hint,
            default="UNSET" if optional else default,
            description=parameter.optional_text("description"),
        ),
        location=location,
        kind=kind,
        required=required,
        pointer=schema.pointer,
        problem=parameter.optional_text("x-problem"),
        default=default,
    )


def _read_location(parameter: Node) -> Location:
    location = parameter.text("in")
    if location not in {"path", "query", "header"}:
        raise parameter.refuse(f"a parameter in {location} is not understood")
    if location == "path" and not parameter.flag("required"):
        raise parameter.refuse("a path parameter is required")
    if location == "header" and parameter.text("name").lower() in _IGNORED_HEADERS:
        raise parameter.refuse("OpenAPI gives this header no meaning as a parameter")
    return cast("Location", location)


def read_kind(schema: Node) -> Kind:
    """Return the one scalar type of a parameter or header; refuses any other."""
    kind = merged(schema).get("type")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise schema.refuse("must be of type string, integer or boolean, and of one only")
    return cast("Kind", kind)


def _read_default(schema: Node, kind: Kind) -> str | None:
    keywords: dict[str, Any] = merged(schema)
    if "default" not in keywords:
        return None
    value = keywords["default"]
    if type(value) is not _KINDS[kind] or value not in keywords.get("enum", [value]):
        raise schema.refuse("the default is not a value of the schema")
    return literal(value)


def read_body(operation: Node) -> BodyContract | None:
    """Read the request body of an operation; JSON becomes its model, any other media type is text."""
    declared = operation.get("requestBody")
    if declared is None:
        return None
    body = declared.resolved()
    media = {name: node["schema"] for name, node in body["content"].items()}
    if not media:
        raise body.refuse("has no media type")
    return BodyContract(
        required=body.flag("required"),
        limit=body.integer("x-body-limit"),
        canonical=body.flag("x-canonical-json"),
        problem=body.optional_text("x-problem"),
        media_types={
            name: schema.pointer if _is_json(name) or _is_text(schema) else None for name, schema in media.items()
        },
        annotation=union([content_type(name, schema) for name, schema in media.items()]),
    )


def content_type(media_type: str, schema: Node) -> str:
    """Return the Python type of a body of `media_type`: the model of JSON, else text.

    YAML is text, too; its schema may be that of what it stands for, to which its handler holds it.
    """
    if _is_json(media_type):
        return annotation(schema)
    if not _is_text(schema) and not _is_of(media_type, "yaml"):
        raise schema.refuse(f"{media_type} is text to a handler: its schema must be of type string")
    return "str"


def _is_json(media_type: str) -> bool:
    return _is_of(media_type, "json")


def _is_of(media_type: str, syntax: str) -> bool:
    """Tell whether a media type is of a structured syntax (RFC 6839, RFC 9512)."""
    return media_type.endswith((f"/{syntax}", f"+{syntax}"))


def _is_text(schema: Node) -> bool:
    return bool(merged(schema).get("type") == "string")

"""The extensions that a document may use, each with its place and its shape. The list is closed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

# Listener -> the server where it binds by default, as generic tools are told.
SERVERS: Final[Mapping[str, str]] = {
    "control": "http://127.0.0.1:8080",
    "installer": "https://127.0.0.1:9443",
    "join": "https://127.0.0.1:8443",
}
# Security scheme -> the one listener on which it counts.
SCHEMES: Final[Mapping[str, str]] = {
    "registrySignature": "control",
    "operatorToken": "control",
    "joinToken": "join",
    "clientCertificate": "join",
    "installCode": "installer",
}
# Listener -> how the gateway asks there for a credential, where x-problems leaves WWW-Authenticate open.
CHALLENGES: Final[Mapping[str, str]] = {
    "control": 'Bearer realm="gatehouse"',
    "installer": 'Bearer realm="installer"',
    "join": 'Bearer realm="join"',
}
# Security schemes whose wrong credentials are counted: beyond a bound the answer is 429, and none is looked at.
COUNTED: Final = frozenset({"installCode"})
# The codes that no operation gives: the gateway does, where no operation was found.
GATEWAY_CODES: Final = frozenset({"request.not-found", "NOT_FOUND", "METHOD_NOT_ALLOWED"})

_CATALOGUE: Final[dict[str, Any]] = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": {
        "type": "object",
        "required": ["status", "title", "type"],
        "additionalProperties": False,
        "properties": {
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "title": {"type": "string", "minLength": 1},
            "type": {"type": "string", "format": "uri"},
            "headers": {"type": "object", "additionalProperties": {"type": ["string", "integer", "null"]}},
            "members": {"type": "array", "minItems": 1, "uniqueItems": True, "items": {"type": "string"}},
        },
    },
}
_PRINCIPAL: Final[dict[str, Any]] = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "required": ["type", "description"],
        "additionalProperties": False,
        "properties": {"type": {"enum": ["integer", "string"]}, "description": {"type": "string", "minLength": 1}},
    },
}
_LISTENERS: Final[dict[str, Any]] = {
    "type": "array",
    "minItems": 1,
    "uniqueItems": True,
    "items": {"enum": sorted(SERVERS)},
}
_ITEM_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["$ref"],
    "additionalProperties": False,
    "properties": {"$ref": {"type": "string"}},
}


@dataclass(frozen=True, slots=True)
class Extension:
    """On which kinds of objects an extension may stand, on which it has to, and the JSON Schema of its value."""

    allowed: frozenset[str]
    required: frozenset[str]
    schema: dict[str, Any]


def _extension(schema: dict[str, Any], *, required: tuple[str, ...] = (), optional: tuple[str, ...] = ()) -> Extension:
    return Extension(frozenset((*required, *optional)), frozenset(required), schema)


EXTENSIONS: Final[Mapping[str, Extension]] = {
    "x-problems": _extension(_CATALOGUE, required=("document",)),
    "x-listeners": _extension(_LISTENERS, required=("operation",)),
    "x-problem": _extension({"type": "string"}, required=("scheme",), optional=("parameter", "body")),
    "x-principal": _extension(_PRINCIPAL, required=("scheme",)),
    "x-body-limit": _extension({"type": "integer", "minimum": 1}, required=("body",)),
    "x-canonical-json": _extension({"const": True}, optional=("body",)),
    "x-item-schema": _extension(_ITEM_SCHEMA, optional=("media",)),
}

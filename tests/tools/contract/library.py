"""A small document of somebody else's, and exchanges with its server."""

from __future__ import annotations

import json
from typing import Any, Final

from tools.contract.document import PROBLEM, Document, Reply, Request

PROBLEM_SCHEMA: Final = {
    "allOf": [
        {"$ref": "#/components/schemas/Problem"},
        {"properties": {"code": {"enum": ["limit.wrong", "limit.missing"]}}},
    ]
}
CONTENT: Final[dict[str, Any]] = {
    "openapi": "3.1.0",
    "info": {"title": "Library", "version": "1.0.0"},
    "servers": [{"url": "https://library.example/v2"}],
    "paths": {
        "/books/{id}": {
            "get": {
                "operationId": "getBook",
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
                "responses": {
                    "200": {"description": "It.", "content": {"application/json": {"schema": {"type": "object"}}}},
                    "4XX": {"description": "No.", "content": {"text/*": {"schema": {"type": "string"}}}},
                },
            }
        },
        "/books/news": {
            "get": {
                "operationId": "followNews",
                "responses": {
                    "200": {
                        "description": "As it comes.",
                        "content": {
                            "text/event-stream": {
                                "schema": {"type": "string"},
                                "x-item-schema": {"type": "object", "required": ["number"]},
                            }
                        },
                    }
                },
            }
        },
        "/books": {
            "get": {
                "operationId": "listBooks",
                "parameters": [{"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1}}],
                "responses": {
                    "200": {
                        "description": "All.",
                        "headers": {"X-Total": {"required": True, "schema": {"type": "integer"}}},
                        "content": {
                            "application/json": {"schema": {"type": "array", "items": {"type": "string"}}},
                        },
                    },
                    "400": {"description": "No.", "content": {PROBLEM: {"schema": PROBLEM_SCHEMA}}},
                },
            },
            "post": {
                "operationId": "addBook",
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "required": ["title"],
                                "properties": {"title": {"type": "string"}},
                            }
                        }
                    },
                },
                "responses": {"204": {"description": "Added."}},
            },
        },
    },
    "components": {
        "schemas": {"Problem": {"type": "object", "required": ["code"], "properties": {"code": {"type": "string"}}}}
    },
}


def library() -> Document:
    return Document("library", CONTENT)


def asked(method: str, target: str, body: bytes = b"", **fields: str) -> Request:
    return Request(method, target, [(name.replace("_", "-"), value) for name, value in fields.items()], body)


def answered(status: int, value: Any = None, media_type: str = "application/json", **fields: str) -> Reply:
    """An answer with a value as JSON, or as it is where it is bytes; None is no body."""
    named = [(name.replace("_", "-"), text) for name, text in fields.items()]
    if value is None:
        return Reply(status, named, b"")
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Reply(status, [("content-type", media_type), *named], body)

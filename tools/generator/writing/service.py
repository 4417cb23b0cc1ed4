"""Writes service.py: one handler for each operation, so that a type checker knows when one is missing."""

from __future__ import annotations

from tools.generator.contracts import ApiContract
from tools.generator.writing.layout import docstring, frozen, module


def write_service(api: ApiContract) -> str:
    """Return service.py."""
    doc = docstring(
        "One handler for each operation: a missing or a swapped one is a type error where this is filled.", "    "
    )
    members = "".join(f"    {operation.name}: operations.{operation.name}.Handler\n" for operation in api.operations)
    body = f"\n{frozen('Service')}{doc}\n{members}"
    return module(api.document.source, f"What serves {api.title}.", body, {"operations": "."})

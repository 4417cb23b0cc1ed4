"""Telling what is followed: each change once, and that the server is away for a while."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import typer

from tools.commands.terminal import RefusedError, UnreachableError, machine_text, plain

_T = TypeVar("_T")


class Changes:
    """Tells each change once: a line for a person, or one JSON object a line."""

    def __init__(self, machine: bool) -> None:
        self._machine = machine
        self._told: dict[str, Any] = {}

    def patiently(self, look: Callable[[], _T]) -> _T | None:
        """Do `look`; where the server is away or overloaded, tell that once, by None also to the caller."""
        try:
            found = look()
        except UnreachableError as error:
            self.trouble(error.detail)
        except RefusedError as error:
            if error.body.get("status") != 503:
                raise
            self.trouble(error.detail.partition("\n")[0])
        else:
            self.trouble(None)
            return found
        return None

    def trouble(self, detail: str | None) -> None:
        """Tell that the other side cannot be asked at present, and why, and, by None, that it can again."""
        if self.new("trouble", True if detail else None):
            value = {"event": "connection", "detail": detail}
            self.tell(value, f"{detail}; trying again" if detail else "the connection is there again")

    def new(self, subject: str, value: Any) -> bool:
        """Whether this is not what was last noted of a subject; it is noted."""
        known = self._told.get(subject)
        self._told[subject] = value
        return bool(known != value)

    def knows(self, subject: str) -> bool:
        """Whether anything was noted of a subject."""
        return subject in self._told

    def tell(self, value: Mapping[str, Any], text: str) -> None:
        """Print a change: `value` for a machine, `text` for a person."""
        typer.echo(machine_text(value) if self._machine else plain(text))

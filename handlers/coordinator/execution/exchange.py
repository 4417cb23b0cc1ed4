"""What can come of asking a receiver; what that means for a run is verdict.py's matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer that is whole. Its body is read where it is a success (2xx), and empty for every other status.

    `retry_after` is how many milliseconds the receiver asks us to wait, None where it does not say.
    """

    status: int
    body: bytes = b""
    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class TooLarge:
    """A success with a body of more bytes than the connection takes."""

    status: int


@dataclass(frozen=True, slots=True)
class Encoded:
    """A success whose body is compressed or the like, which was not asked for."""

    status: int


@dataclass(frozen=True, slots=True)
class NotConnected:
    """Not one byte of the request was sent."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """At least a part of the request may have been sent, and no whole answer came in time."""


Exchange: TypeAlias = Answered | TooLarge | Encoded | NotConnected | Unanswered

"""What a watcher goes by of an installer's answers: strict JSON, and each member that is used of its type."""

from __future__ import annotations

import msgspec


class Step(msgspec.Struct):
    """A step of an attempt: waiting, running, succeeded or failed."""

    name: str
    status: str


class Install(msgspec.Struct, rename="camel"):
    """The latest attempt, number 0 where there is none; `last_event_id` is over all attempts."""

    attempt: int
    state: str
    steps: list[Step]
    detail: str | None
    last_event_id: int


class InstallEvent(msgspec.Struct):
    """Something that an attempt has done; what does not apply is None."""

    id: int
    attempt: int
    type: str
    step: str | None = None
    status: str | None = None
    line: str | None = None
    outcome: str | None = None
    detail: str | None = None


def install(content: bytes) -> Install | None:
    """Read the answer of getInstall or startInstall; None where it is none."""
    try:
        return msgspec.json.decode(content, type=Install)
    except (msgspec.DecodeError, RecursionError):
        return None


def install_event(data: str) -> InstallEvent | None:
    """Read the data of a server-sent event; None where it is no InstallEvent."""
    try:
        return msgspec.json.decode(data, type=InstallEvent)
    except (msgspec.DecodeError, RecursionError):
        return None

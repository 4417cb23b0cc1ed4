"""What a node goes by of a founder's answers: strict JSON, and each member that is used of its type."""

from __future__ import annotations

from typing import Any

import msgspec


class Certified(msgspec.Struct):
    """The answer to a renewal."""

    certificate: str


class Registered(Certified, rename="camel"):
    """The answer to a registration."""

    join_id: str


class _Step(msgspec.Struct):
    step: str
    status: str


class _Peer(msgspec.Struct, rename="camel"):
    name: str
    peer_url: str


class _Raft(msgspec.Struct):
    name: str
    state: str
    error: str | None
    peers: list[_Peer]


class _Failure(msgspec.Struct):
    step: str | None
    reason: str


class Registration(msgspec.Struct, rename="camel"):
    """How the join stands."""

    join_id: str
    name: str
    address: str
    state: str
    position: int | None
    plan: list[str]
    steps: list[_Step]
    rafts: list[_Raft]
    failure: _Failure | None


def read(content: bytes, of: type[msgspec.Struct]) -> dict[str, Any] | None:
    """Return the object that an answer is, with all that it has; None where it is no `of`."""
    try:
        msgspec.json.decode(content, type=of)
        value: dict[str, Any] = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return None
    return value

"""What there is to know of a generator of clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tools.clients.kit import Kit


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a client; `api` is empty where it is not of one document."""

    client: str
    api: str
    message: str


@dataclass(frozen=True, slots=True)
class Maker:
    """A generator.

    `generate` makes the client of a document in a folder that all documents share, and returns what the generator
    complains of; `operations` returns the names of those that the client of an API offers, in the manner of its
    language; `compile` returns what a strict compiler says of the folder.
    """

    name: str
    generate: Callable[[Kit, Path, Path], list[str]]
    operations: Callable[[Path, str], Iterable[str]]
    compile: Callable[[Kit, Path], list[str]]

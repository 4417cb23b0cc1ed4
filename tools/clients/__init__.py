"""Generates clients from the documents by the generators that others use, and tells what one of them left out.

A generator that cannot read a part of a document often leaves it out and ends well. So each client is compared with its
document, whatever the generator has to say is a fault, and what it wrote has to compile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tools.clients import heyapi, openapifetch, python
from tools.clients.kit import Kit, KitError
from tools.clients.maker import Fault, Maker
from tools.lint.document import UnreadableError, read

__all__ = ["MAKERS", "ClientsError", "Fault", "KitError", "make"]

MAKERS: Final = {maker.name: maker for maker in (python.MAKER, openapifetch.MAKER, heyapi.MAKER)}


class ClientsError(Exception):
    """There is no document to make a client from."""


def make(spec: Path, target: Path, names: Sequence[str], tell: Callable[[str], None]) -> list[Fault]:
    """Make the clients of these names of each document in `spec`, and return what is wrong with them.

    They come into `target`, one folder for each name, beside the tools that make them. `tell` is given one line for
    each thing that takes a while. Raises ClientsError, and KitError where the tools cannot be had.
    """
    documents = sorted(spec.glob("*.yaml"))
    if not documents:
        raise ClientsError(f"{spec} has no document")
    kit = Kit(target, tell)
    return [fault for name in names for fault in _made(MAKERS[name], kit, documents)]


def _made(maker: Maker, kit: Kit, documents: Sequence[Path]) -> Iterator[Fault]:
    folder = kit.empty(maker.name)
    kit.tell(f"{maker.name}: making the clients of {', '.join(each.stem for each in documents)}")
    sound = True
    for document in documents:
        api = document.stem
        complaints = maker.generate(kit, document, folder)
        offered = {_folded(name) for name in maker.operations(folder, api)}
        dropped = [name for name in _operations(document) if _folded(name) not in offered]
        yield from (Fault(maker.name, api, f"the client has no operation {name}") for name in dropped)
        yield from (Fault(maker.name, api, f"the generator says: {each}") for each in complaints)
        sound = sound and not dropped and not complaints
    if sound:
        # Of a client that lacks something the compiler would tell the same once more, and in many more words.
        yield from (Fault(maker.name, "", f"it does not compile: {each}") for each in maker.compile(kit, folder))


def _operations(document: Path) -> list[str]:
    try:
        root = read(document).root
    except UnreadableError as error:
        raise ClientsError(f"{document}: {error}") from None
    members = (member for path in root.get("paths", {}).values() for member in path.values())
    return [str(member["operationId"]) for member in members if isinstance(member, dict) and "operationId" in member]


def _folded(name: str) -> str:
    return name.replace("_", "").casefold()

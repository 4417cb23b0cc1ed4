"""One link of the audit chain: its canonical JSON line and its hash; no database and no file."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

import orjson

GENESIS = "0" * 64


class Head(NamedTuple):
    """Where a chain ends; `length` is the number of bytes of all its lines together."""

    seq: int = 0
    hash: str = GENESIS
    length: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """What one audit row tells: `at` is epoch milliseconds, `body` canonical JSON text."""

    at: int
    action: str
    subject: str
    body: str


class Link(NamedTuple):
    """An entry in its place: the hash over its line without that hash, and its line as the file has it."""

    hash: str
    line: bytes


def link(node: str, seq: int, prev_hash: str, entry: Entry) -> Link:
    """Put an entry in its place after the link whose hash is `prev_hash`.

    The line is RFC 8785 canonical JSON and a newline. Its members stand in the order of their names, so the hash is
    spliced in between `body` and `node` instead of writing the line twice.
    """
    first = b'{"action":%b,"at":%d,"body":%b,' % (orjson.dumps(entry.action), entry.at, entry.body.encode())
    last = b'"node":%b,"prev":"%b","seq":%d,"subject":%b}' % (
        orjson.dumps(node),
        prev_hash.encode(),
        seq,
        orjson.dumps(entry.subject),
    )
    digest = sha256(first + last).hexdigest()
    return Link(digest, b'%b"hash":"%b",%b\n' % (first, digest.encode(), last))

"""Makes lines of what a command writes, for a report: those that are too long for one become several."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Final

# What a longer line is cut into: several lines, so that nothing of it is lost.
LINE_CHARACTERS: Final = 4096


class Pieces:
    """The lines of one command: UTF-8, with what is none replaced, without the CR before an LF."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = ""

    def feed(self, data: bytes, *, final: bool = False) -> Iterator[str]:
        """Give the lines that these bytes end."""
        *ended, self._begun = (self._begun + self._decoder.decode(data, final)).split("\n")
        for line in ended:
            yield from _pieces(line.removesuffix("\r"))
        while len(self._begun) > LINE_CHARACTERS:
            yield self._begun[:LINE_CHARACTERS]
            self._begun = self._begun[LINE_CHARACTERS:]

    def end(self) -> Iterator[str]:
        """Give the line that was begun and has no end."""
        yield from self.feed(b"", final=True)
        if self._begun:
            yield self._begun


def _pieces(line: str) -> Iterator[str]:
    yield from (line[start : start + LINE_CHARACTERS] for start in range(0, max(len(line), 1), LINE_CHARACTERS))

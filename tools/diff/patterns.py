"""Decides whether every text that one set of patterns takes is taken by another pattern, as ECMA-262 reads them.

It knows what is regular in the plain sense: no look-around, no back reference, anchors at the ends alone. Of anything
else it says that it does not know. The proof follows both patterns over all texts at once, by partial derivatives.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

# Ranges of code points, both ends included.
Ranges: TypeAlias = tuple[tuple[int, int], ...]
_TOP: Final = 0x10FFFF
# So many steps of the parts of a pattern take less than a second.
_MOST_WORK: Final = 100_000
_SHORT: Final = 100
_LONGEST_PATTERN: Final = 10_000
_LONGEST_COUNT: Final = 2_000


class Chars(NamedTuple):
    """One character out of `ranges`."""

    ranges: Ranges


class Chain(NamedTuple):
    """One after the other; the empty chain is the empty text."""

    parts: tuple[Regex, ...]


class Choice(NamedTuple):
    """Any of `parts`."""

    parts: tuple[Regex, ...]


class Repeat(NamedTuple):
    """`part` at least `least` times and at most `most` times, where None has no end."""

    part: Regex
    least: int
    most: int | None


Regex: TypeAlias = Chars | Chain | Choice | Repeat

_EMPTY: Final = Chain(())
_ANY: Final = Repeat(Chars(((0, _TOP),)), 0, None)
_DIGITS: Final[Ranges] = ((48, 57),)
_WORDS: Final[Ranges] = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACES: Final[Ranges] = (
    *((9, 13), (32, 32), (160, 160), (0x1680, 0x1680), (0x2000, 0x200A)),
    *((0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)),
)
_LINES: Final[Ranges] = ((10, 10), (13, 13), (0x2028, 0x2029))
_SURROGATES: Final = range(0xD800, 0xE000)
_CONTROLS: Final = {"n": 10, "r": 13, "t": 9, "f": 12, "v": 11, "0": 0}


class _UnknownError(Exception):
    """The pattern is beyond what is known here."""


def contained(narrow: Sequence[str], wide: str) -> bool | None:
    """Say whether each text that all of `narrow` take is taken by `wide`; None where it is not known."""
    try:
        left = [each for each in map(_known, narrow) if each is not None]
        # A step costs as much as what is left of the patterns is long.
        weight = 1 + sum(map(len, (*narrow, wide))) // _SHORT
        verdict = _contained(left, _parsed(wide), _MOST_WORK // weight)
    except (_UnknownError, RecursionError):
        return None
    # Without one of its patterns `narrow` takes more: only what holds then is sure.
    return None if not verdict and len(left) < len(narrow) else verdict


def _known(pattern: str) -> Regex | None:
    try:
        return _parsed(pattern)
    except _UnknownError:
        return None


def _contained(left: list[Regex], right: Regex, most_work: int) -> bool:
    samples = _samples([*left, right])
    start = (*(frozenset({each}) for each in left), frozenset({right}))
    seen, waiting, work = {start}, [start], 0
    while waiting:
        *taken, last = waiting.pop()
        if all(map(_ends, taken)) and not _ends(last):
            return False
        for sample in samples:
            following = tuple(_after(states, sample) for states in (*taken, last))
            work += sum(map(len, following))
            if all(following[:-1]) and following not in seen:
                seen.add(following)
                waiting.append(following)
            if work > most_work:
                raise _UnknownError
    return True


def _ends(states: frozenset[Regex]) -> bool:
    return any(map(_nullable, states))


def _after(states: frozenset[Regex], sample: int) -> frozenset[Regex]:
    return frozenset(itertools.chain.from_iterable(_derived(state, sample) for state in states))


@lru_cache(maxsize=100_000)
def _nullable(regex: Regex) -> bool:
    match regex:
        case Chars():
            return False
        case Chain(parts):
            return all(map(_nullable, parts))
        case Choice(parts):
            return any(map(_nullable, parts))
        case Repeat(part, least, _):
            return least == 0 or _nullable(part)


@lru_cache(maxsize=100_000)
def _derived(regex: Regex, sample: int) -> frozenset[Regex]:
    match regex:
        case Chars(ranges):
            return frozenset({_EMPTY} if any(low <= sample <= high for low, high in ranges) else ())
        case Choice(parts):
            return frozenset(itertools.chain.from_iterable(_derived(part, sample) for part in parts))
        case Repeat(part, least, most):
            rest = Repeat(part, max(least - 1, 0), None if most is None else most - 1)
            done = most is not None and most <= 1
            return frozenset(_chain(each, *(() if done else (rest,))) for each in _derived(part, sample))
        case Chain(parts):
            found: set[Regex] = set()
            for place, part in enumerate(parts):
                found |= {_chain(each, *parts[place + 1 :]) for each in _derived(part, sample)}
                if not _nullable(part):
                    break
            return frozenset(found)


def _chain(*parts: Regex) -> Regex:
    flat = tuple(itertools.chain.from_iterable(part.parts if isinstance(part, Chain) else (part,) for part in parts))
    return flat[0] if len(flat) == 1 else Chain(flat)


def _samples(regexes: Iterable[Regex]) -> list[int]:
    """One code point of each class that no pattern tells apart."""
    edges = {0}
    for regex in regexes:
        for low, high in _ranges(regex):
            edges |= {low, high + 1}
    return sorted(edge for edge in edges if edge <= _TOP)


def _ranges(regex: Regex) -> Iterator[tuple[int, int]]:
    match regex:
        case Chars(ranges):
            yield from ranges
        case Repeat(part, _, _):
            yield from _ranges(part)
        case Chain(parts) | Choice(parts):
            for part in parts:
                yield from _ranges(part)


@lru_cache(maxsize=1_000)
def _parsed(pattern: str) -> Regex:
    return _Parser(pattern).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def whole(self) -> Regex:
        """Read a whole pattern, which may match anywhere in a text unless it is anchored."""
        if len(self.text) > _LONGEST_PATTERN:
            raise _UnknownError
        choices = [self._anchored()]
        while self._took("|"):
            choices.append(self._anchored())
        if self.at < len(self.text):
            raise _UnknownError
        return Choice(tuple(choices))

    def _anchored(self) -> Regex:
        front = () if self._took("^") else (_ANY,)
        inner = self._chain()
        back = () if self._took("$") else (_ANY,)
        return _chain(*front, inner, *back)

    def _choice(self) -> Regex:
        choices = [self._chain()]
        while self._took("|"):
            choices.append(self._chain())
        return Choice(tuple(choices)) if len(choices) > 1 else choices[0]

    def _chain(self) -> Regex:
        parts: list[Regex] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)$":
            parts.append(self._counted(self._atom()))
        return _chain(*parts)

    def _counted(self, part: Regex) -> Regex:
        counts = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        mark = self.text[self.at : self.at + 1]
        if mark in counts and mark:
            self.at += 1
            least, most = counts[mark]
        elif mark == "{":
            least, most = self._braces()
        else:
            return part
        # A lazy count takes the same texts.
        self._took("?")
        if max(least, most or 0) > _LONGEST_COUNT:
            raise _UnknownError
        return _EMPTY if most == 0 else Repeat(part, least, most)

    def _braces(self) -> tuple[int, int | None]:
        end = self.text.find("}", self.at)
        low, comma, high = self.text[self.at + 1 : max(end, 0)].partition(",")
        if not (low.isascii() and low.isdecimal() and (not high or (high.isascii() and high.isdecimal()))):
            raise _UnknownError
        self.at = end + 1
        if not comma:
            return int(low), int(low)
        return int(low), int(high) if high else None

    def _atom(self) -> Regex:
        char = self._next()
        if char == "(":
            return self._group()
        if char == "[":
            return Chars(self._class())
        if char == ".":
            return Chars(_inverted(_LINES))
        if char == "\\":
            return Chars(self._escape())
        if char in "^*+?{}]":
            raise _UnknownError
        return Chars(((ord(char), ord(char)),))

    def _group(self) -> Regex:
        if self._took("?") and not self._took(":"):
            raise _UnknownError
        inner = self._choice()
        if not self._took(")"):
            raise _UnknownError
        return inner

    def _class(self) -> Ranges:
        inverted = self._took("^")
        ranges: list[tuple[int, int]] = []
        while not self._took("]"):
            low = self._member()
            if self.text[self.at : self.at + 1] == "-" and self.text[self.at + 1 : self.at + 2] != "]":
                self.at += 1
                high = self._member()
                if len(low) != 1 or len(high) != 1 or low[0][0] > high[0][1]:
                    raise _UnknownError
                low = ((low[0][0], high[0][1]),)
            ranges += low
        return _inverted(tuple(ranges)) if inverted else tuple(ranges)

    def _member(self) -> Ranges:
        char = self._next()
        if char == "[" or self.text[self.at - 1 : self.at + 1] in {"&&", "--", "~~"}:
            # Engines differ on what these mean inside a class.
            raise _UnknownError
        return self._escape() if char == "\\" else ((ord(char), ord(char)),)

    def _escape(self) -> Ranges:
        char = self._next()
        named = {"d": _DIGITS, "w": _WORDS, "s": _SPACES}
        if char.lower() in named:
            return named[char] if char.islower() else _inverted(named[char.lower()])
        if char in _CONTROLS:
            code = _CONTROLS[char]
        elif char in "xu":
            code = self._hexadecimal(2 if char == "x" else 4)
            if code in _SURROGATES:
                # Half a character: engines differ on what it matches.
                raise _UnknownError
        elif char.isascii() and char.isalnum():
            raise _UnknownError
        else:
            code = ord(char)
        return ((code, code),)

    def _hexadecimal(self, length: int) -> int:
        digits = self.text[self.at : self.at + length]
        if len(digits) < length or not all(each in "0123456789abcdefABCDEF" for each in digits):
            raise _UnknownError
        self.at += length
        return int(digits, 16)

    def _next(self) -> str:
        if self.at == len(self.text):
            raise _UnknownError
        self.at += 1
        return self.text[self.at - 1]

    def _took(self, char: str) -> bool:
        taken = self.text[self.at : self.at + 1] == char
        self.at += taken
        return taken


def _inverted(ranges: Ranges) -> Ranges:
    found, start = [], 0
    for low, high in sorted(ranges):
        if low > start:
            found.append((start, low - 1))
        start = max(start, high + 1)
    if start <= _TOP:
        found.append((start, _TOP))
    return tuple(found)

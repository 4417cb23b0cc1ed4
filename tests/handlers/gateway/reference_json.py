"""A slow reader and writer of JSON, made from the grammars of RFC 8259 and RFC 8785 without any JSON library."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal, TypeAlias

Verdict: TypeAlias = Literal["canonical", "strict", "refused"]

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS = ("null", "true", "false")


class RefusedError(Exception):
    """The text breaks a rule of the bodies' JSON."""


@dataclass(frozen=True)
class Number:
    """A number as it was written."""

    token: str
    value: float

    @property
    def exact(self) -> bool:
        """Whether the token has a fraction or exponent, or is an integer that its binary64 value equals."""
        return bool(set(".eE") & set(self.token)) or Fraction(self.value) == Fraction(self.token)


@dataclass(frozen=True)
class Word:
    """null, true or false."""

    text: str


Node: TypeAlias = "Number | Word | str | list[Node] | dict[str, Node]"


def verdict(raw: bytes) -> Verdict:
    """What the rules of a body and of a canonical body say of `raw`."""
    try:
        node = Reader(raw).read()
    except RefusedError:
        return "refused"
    exact = all(number.exact for number in numbers(node))
    return "canonical" if exact and canonical(node).encode() == raw else "strict"


def numbers(node: Node) -> Iterator[Number]:
    """Every number in a value."""
    if isinstance(node, Number):
        yield node
    elif isinstance(node, (list, dict)):
        for inner in node if isinstance(node, list) else node.values():
            yield from numbers(inner)


class Reader:
    """Reads one body, at most 64 levels deep."""

    def __init__(self, raw: bytes) -> None:
        try:
            self.text = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise RefusedError from None
        self.at = 0

    def read(self) -> Node:
        """Return the one value of the text."""
        node = self.value(0)
        if self.at != len(self.text):
            raise RefusedError
        return node

    def space(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in " \t\r\n":
            self.at += 1

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self, expected: str) -> None:
        if not self.text.startswith(expected, self.at):
            raise RefusedError
        self.at += len(expected)

    def value(self, level: int) -> Node:
        self.space()
        first = self.peek()
        if first and first in "[{" and level == 64:
            raise RefusedError
        node: Node
        if first == "{":
            node = self.object(level + 1)
        elif first == "[":
            node = self.array(level + 1)
        elif first == '"':
            node = self.string()
        else:
            node = self.scalar()
        self.space()
        return node

    def scalar(self) -> Node:
        for word in _WORDS:
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return Word(word)
        match = _NUMBER.match(self.text, self.at)
        if match is None or math.isinf(float(match[0])):
            raise RefusedError
        self.at = match.end()
        return Number(match[0], float(match[0]))

    def array(self, level: int) -> Node:
        self.take("[")
        self.space()
        items: list[Node] = []
        while self.peek() != "]":
            if items:
                self.take(",")
            items.append(self.value(level))
        self.take("]")
        return items

    def object(self, level: int) -> Node:
        self.take("{")
        self.space()
        members: dict[str, Node] = {}
        while self.peek() != "}":
            if members:
                self.take(",")
                self.space()
            name = self.string()
            if name in members:
                raise RefusedError
            self.space()
            self.take(":")
            members[name] = self.value(level)
        self.take("}")
        return members

    def string(self) -> str:
        self.take('"')
        units: list[int] = []
        while (character := self.peek()) != '"':
            if character < " ":
                raise RefusedError
            self.at += 1
            units += self.escape() if character == "\\" else _units(character)
        self.take('"')
        try:
            return b"".join(unit.to_bytes(2, "big") for unit in units).decode("utf-16-be")
        except UnicodeDecodeError:
            raise RefusedError from None

    def escape(self) -> list[int]:
        kind = self.peek()
        self.at += 1
        if kind in _ESCAPES:
            return [ord(_ESCAPES[kind])]
        digits = self.text[self.at : self.at + 4]
        if kind != "u" or not re.fullmatch("[0-9A-Fa-f]{4}", digits):
            raise RefusedError
        self.at += 4
        return [int(digits, 16)]


def _units(text: str) -> list[int]:
    encoded = text.encode("utf-16-be")
    return [int.from_bytes(encoded[at : at + 2], "big") for at in range(0, len(encoded), 2)]


def canonical(node: Node) -> str:
    """RFC 8785, section 3.2."""
    if isinstance(node, Number):
        return number(node.value)
    if isinstance(node, Word):
        return node.text
    if isinstance(node, str):
        return '"' + "".join(map(_character, node)) + '"'
    if isinstance(node, list):
        return "[" + ",".join(map(canonical, node)) + "]"
    members = sorted(node.items(), key=lambda member: _units(member[0]))
    return "{" + ",".join(f"{canonical(name)}:{canonical(value)}" for name, value in members) + "}"


def _character(character: str) -> str:
    short = {written: letter for letter, written in _ESCAPES.items() if letter != "/"}
    if character in short:
        return "\\" + short[character]
    return f"\\u{ord(character):04x}" if character < " " else character


def number(value: float) -> str:
    """ECMA-262, Number::toString, from the shortest digits that read back as the same number."""
    if value == 0:
        return "0"
    _, digit_tuple, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    digits = "".join(map(str, digit_tuple))
    point = len(digits) + exponent
    if len(digits) <= point <= 21:
        text = digits + "0" * (point - len(digits))
    elif 0 < point <= 21:
        text = f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:
        text = "0." + "0" * -point + digits
    else:
        fraction = "." + digits[1:] if digits[1:] else ""
        text = f"{digits[0]}{fraction}e{point - 1:+d}"
    return "-" + text if value < 0 else text

"""The JSON rules of every body and the canonical form of signed ones; what a value has to be is the schemas' matter."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final, TypeVar

import msgspec
import orjson

Value = TypeVar("Value")

MAX_LEVELS: Final = 64

_NOT_JSON: Final = "The body is not JSON in UTF-8 that a reader can hold."
_TOO_DEEP: Final = "The body has more than 64 levels."
_REPEATED: Final = "The body repeats a member of an object."
_NOT_CANONICAL: Final = "The body is not in the canonical form of RFC 8785."
_NOT_EXACT: Final = "The body has an integer that binary64 cannot hold exactly."

# A body beyond this may be millions of containers, which the collector would walk again and again while they are made.
_LARGE: Final = 65_536

# To count the brackets of a longer body takes more time than to write its value that deep.
_SHORT: Final = 8_192

# Integers of so few digits are exact in binary64; from the other number on, RFC 8785 writes an exponent.
_EXACT_DIGITS: Final = 15
_FIRST_WITH_EXPONENT: Final = 1e21

# What says nothing of where strings begin and end: all but quotes, backslashes and what may follow a backslash.
_PLAIN: Final = bytes(set(range(256)).difference(b'"\\/bfnrtu'))

# What is left of a body by `translate(_FOLD, _NOISE)`: closing brackets count as commas, bytes that begin a code point
# beyond U+FFFF as F0, those that begin one of U+E000 to U+FFFF (and some before) as EE, and the rest is dropped.
_FOLD: Final = bytes.maketrans(b"]}\xf1\xf2\xf3\xf4\xef", b",,\xf0\xf0\xf0\xf0\xee")
_NOISE: Final = bytes(set(range(256)).difference(b'.0e+-6,]}"\xee\xef\xf0\xf1\xf2\xf3\xf4'))


class NotStrictJson(Exception):
    """The bytes break a rule; the message is a fixed phrase that repeats nothing of them."""


def loads(raw: bytes) -> object:
    """Return the value of a body, in time linear in its length; raises NotStrictJson.

    UTF-8 without BOM, no repeated members, no NaN, Infinity or number beyond binary64, no lone surrogates, at most
    64 levels of arrays and objects. Integers beyond 64 bits come back as floats.
    """
    value = _parse(raw)
    text = _within_levels(raw, value)
    if text != raw and _strings(text) != _strings(raw):
        raise NotStrictJson(_REPEATED)
    return value


def loads_as(decoder: msgspec.json.Decoder[Value], raw: bytes) -> Value | None:
    """Return the value of a body in the type of `decoder`, where it is the one that `loads` returns; else None.

    The type refuses members that it does not know, and its values are spelled with the members that were read (see
    Plain): so only a repeated one can be missing, and that leaves fewer strings.
    """
    try:
        value = _uncollected(decoder.decode, raw)
    except msgspec.DecodeError:
        return None
    text = msgspec.json.encode(value)
    return value if text == raw or _strings(text) == _strings(raw) else None


def loads_canonical(raw: bytes) -> object:
    """Return the value of a body that is its own canonical form (RFC 8785); raises NotStrictJson.

    Beside the rules of `loads`, an integer token has to be exact in binary64: canonical spellings of some large
    numbers, such as 295147905179352830000, are not.
    """
    value = _parse(raw)
    if not _plainly_canonical(raw, value):
        _check_canonical(raw, value)
    return value


def _parse(raw: bytes) -> Any:
    try:
        return _uncollected(orjson.loads, raw)
    except orjson.JSONDecodeError:
        raise NotStrictJson(_NOT_JSON) from None


def _uncollected(read: Callable[[bytes], Value], raw: bytes) -> Value:
    """Read a body, and keep the collector from what is made of a large one while it is made."""
    if len(raw) <= _LARGE or not gc.isenabled():
        return read(raw)
    gc.disable()
    try:
        return read(raw)
    finally:
        gc.enable()


def _levels_that_orjson_writes() -> int:
    """Measure how deep orjson writes, since it documents that it has a limit but not which."""
    value: list[Any] = []
    for levels in range(1, 1025):
        try:
            orjson.dumps(value)
        except orjson.JSONEncodeError:
            return levels - 1
        value = [value]
    raise ImportError("orjson writes more than 1,024 levels; it cannot serve as the measure of a body's levels")


_PADDING: Final = _levels_that_orjson_writes() - MAX_LEVELS


def _write(raw: bytes, value: Any, option: int) -> bytes:
    """Return orjson's spelling of the value of `raw`; raises JSONEncodeError beyond 64 levels or as `option` says.

    Few brackets prove few levels, and are soon counted in a short body. Else the value is put so deep that orjson's own
    limit is ours.
    """
    if len(raw) <= _SHORT and raw.count(b"[") + raw.count(b"{") <= MAX_LEVELS:
        return orjson.dumps(value, option=option)
    for _ in range(_PADDING):
        value = [value]
    return orjson.dumps(value, option=option)[_PADDING:-_PADDING]


def _within_levels(raw: bytes, value: Any) -> bytes:
    try:
        return _write(raw, value, 0)
    except orjson.JSONEncodeError:
        raise NotStrictJson(_TOO_DEEP) from None


def _strings(text: bytes) -> int:
    """Count the quotes that delimit strings in valid JSON; a parser that drops a repeated member drops some of them."""
    if b"\\" not in text:
        return text.count(b'"')
    rest = text.translate(None, _PLAIN)
    return rest.count(b'"') - rest.replace(b"\\\\", b"").count(b'\\"')


def _plainly_canonical(raw: bytes, value: Any) -> bool:
    """Tell whether orjson's sorted spelling proves the canonical form; False proves nothing."""
    try:
        text = _write(raw, value, orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER)
    except orjson.JSONEncodeError:
        return False
    return text == raw and not _may_differ(raw)


def _may_differ(raw: bytes) -> bool:
    """Tell whether orjson's spelling, which `raw` is, may be another than RFC 8785's.

    They differ for floats that are integers (1.0, 1e+16) or at least 1e-6 and less than 1e-5 (1e-6), and in the order
    of keys of which one has a character beyond U+FFFF and the other one of U+E000 to U+FFFF.
    """
    if raw[:1] not in (b"{", b"["):
        return True
    if raw.isascii() and b".0" not in raw and b"e-6" not in raw and b"e+" not in raw:
        return False
    rest = raw.translate(_FOLD, _NOISE)
    return b".0," in rest or b"e-6," in rest or b"e+" in rest or (b"\xf0" in rest and b"\xee" in rest)


def _check_canonical(raw: bytes, value: Any) -> None:
    """Decide exactly: keys by their UTF-16 code units, numbers one by one, all else by orjson's spelling."""
    _within_levels(raw, value)
    exact = json.loads(raw.decode(), object_pairs_hook=_ordered, parse_int=_integer, parse_float=_float)
    if orjson.dumps(exact) != raw:
        raise NotStrictJson(_NOT_CANONICAL)


def _ordered(members: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [name.encode("utf-16-be") for name, _ in members]
    if any(one >= other for one, other in pairwise(keys)):
        raise NotStrictJson(_NOT_CANONICAL)
    return dict(members)


def _integer(token: str) -> int | orjson.Fragment:
    if len(token) <= _EXACT_DIGITS:
        return int(token)
    number = float(token)
    if abs(number) >= _FIRST_WITH_EXPONENT:
        raise NotStrictJson(_NOT_CANONICAL)
    if number != int(token):
        raise NotStrictJson(_NOT_EXACT)
    return _spelled(token, number)


def _float(token: str) -> float | orjson.Fragment:
    number = float(token)
    if (number.is_integer() and abs(number) < _FIRST_WITH_EXPONENT) or 1e-6 <= abs(number) < 1e-5:
        return _spelled(token, number)
    return number


def _spelled(token: str, number: float) -> orjson.Fragment:
    """Keep a token that is written without exponent, where orjson writes its number with one or with `.0`."""
    if token != format(Decimal(repr(number)), "f").removesuffix(".0"):
        raise NotStrictJson(_NOT_CANONICAL)
    return orjson.Fragment(token)

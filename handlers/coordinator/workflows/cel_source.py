"""Reads a CEL expression before the library sees it: bounds it, names what it refers to, takes plain paths out of it.

The library has no limit on cost, copies a value at each member access, and ends the process on hostile sources. So
everything here is decided on the tokens alone; whether they are well-formed CEL is the library's matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

MAX_SOURCE_BYTES: Final = 2_048
MAX_TOKENS: Final = 400
MAX_BRACKETS: Final = 12
MAX_MACROS: Final = 8

# The macros with the number of arguments they take; those that collect a list copy it once for each of its items.
MACROS: Final[Mapping[str, tuple[int, ...]]] = {
    "all": (2,),
    "exists": (2,),
    "exists_one": (2,),
    "filter": (2,),
    "map": (2, 3),
}
COLLECTING: Final = frozenset({"filter", "map"})
FUNCTIONS: Final = frozenset({"double", "duration", "has", "int", "size", "string", "timestamp"})
METHODS: Final = frozenset(
    {
        "contains",
        "endsWith",
        "getDate",
        "getDayOfMonth",
        "getDayOfWeek",
        "getDayOfYear",
        "getFullYear",
        "getHours",
        "getMilliseconds",
        "getMinutes",
        "getMonth",
        "getSeconds",
        "size",
        "startsWith",
    }
)

_LITERALS: Final = frozenset({"false", "null", "true"})
_OPENING: Final = frozenset("([{")
_PARTNER: Final = {")": "(", "]": "[", "}": "{"}
_TOKEN: Final = re.compile(
    r"""
    (?P<blank>[ \t\r\n\f]+|//[^\n]*)
  | (?P<string>"{3}(?:[^\\]|\\.)*?"{3}|'{3}(?:[^\\]|\\.)*?'{3}|"(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*')
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<number>0[xX][0-9A-Fa-f]+[uU]?|(?:[0-9]+\.[0-9]+|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?[uU]?)
  | (?P<sign>&&|\|\||[<>=!]=|[-+*/%<>!?:.,()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)
_PLAIN_STRING: Final = re.compile(r"\"([^\"\\]*)\"|'([^'\\]*)'")
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")

# What a place may refer to: a name with the names below it, or with None where anything may be below it.
Scope: TypeAlias = "Mapping[str, Scope | None]"

Path: TypeAlias = tuple[str | int, ...]


class SourceFault(NamedTuple):
    """What is wrong with an expression, and at which character of its source."""

    offset: int
    message: str


class RefusedSourceError(Exception):
    """An expression that may not be used, for the first of its faults that is found."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.fault = SourceFault(offset, message)


@dataclass(frozen=True, slots=True)
class Reference:
    """A plain path that the expression reads, or with `tests` asks for by `has`, as the variable `name`."""

    name: str
    path: Path
    tests: bool


@dataclass(frozen=True, slots=True)
class Part:
    """What counts for the cost of a macro's arguments, or of all that is outside of macros.

    A plain path counts as one token. `references` are the variables read there, once for each time; `uses` says how
    often a macro's own variable is. `target` is the variable whose items a macro goes through, None for a list literal.
    """

    tokens: int
    literals: int
    references: tuple[str, ...]
    uses: int = 0
    collects: bool = False
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """An expression within the bounds: `text` is CEL over the variables of `references`.

    `path` is set where the whole expression is one plain path, which needs no CEL. `own_names` are the variables of
    macros.
    """

    text: str
    path: Path | None
    references: tuple[Reference, ...]
    outside: Part
    macros: tuple[Part, ...]
    own_names: tuple[str, ...]


class Token(NamedTuple):
    kind: str
    text: str
    offset: int


class _Macro(NamedTuple):
    name: str
    variable: str
    target: int
    opening: int
    closing: int


class _Read(NamedTuple):
    """The tokens `first` to `last` are a plain path, or `has` of one."""

    first: int
    last: int
    path: Path
    tests: bool


def read_source(source: str, scope: Scope) -> Source:
    """Hold an expression to the bounds and to what `scope` knows; raises RefusedSourceError."""
    tokens = _tokens(source)
    partners = _brackets(tokens)
    macros = _macros(tokens, partners)
    _check_calls(tokens)
    reads = list(_reads(tokens, macros))
    for read in reads:
        _check_known(tokens[read.first], read.path, scope)
    references = _references(reads)
    return Source(
        text=_rewritten(source, tokens, reads, references),
        path=reads[0].path if _is_path(tokens, reads) else None,
        references=tuple(references.values()),
        outside=_part(tokens, reads, references, macros, None),
        macros=tuple(_part(tokens, reads, references, macros, macro) for macro in macros),
        own_names=tuple(macro.variable for macro in macros),
    )


def _tokens(source: str) -> list[Token]:
    if len(source.encode()) > MAX_SOURCE_BYTES:
        raise RefusedSourceError(0, "an expression has at most 2,048 bytes")
    tokens: list[Token] = []
    offset = 0
    while offset < len(source):
        match = _TOKEN.match(source, offset)
        if match is None:
            raise RefusedSourceError(offset, f"{source[offset]!r} begins nothing that CEL knows")
        if match.lastgroup != "blank":
            tokens.append(_token(match))
        offset = match.end()
    if len(tokens) > MAX_TOKENS:
        raise RefusedSourceError(tokens[MAX_TOKENS].offset, f"an expression has at most {MAX_TOKENS} words and signs")
    return tokens


def _token(match: re.Match[str]) -> Token:
    kind, text = match.lastgroup or "", match.group()
    if kind == "name" and match.string[match.end() : match.end() + 1] in ("'", '"'):
        raise RefusedSourceError(match.start(), "a text has no prefix; a backslash is written twice")
    if kind == "number" and text[-1] in "uU":
        raise RefusedSourceError(match.start(), "an unsigned number is none of JSON: leave the u out")
    return Token(kind, text, match.start())


def _brackets(tokens: Sequence[Token]) -> dict[int, int]:
    """Return for each opening bracket the index of its partner, and the other way round."""
    partners: dict[int, int] = {}
    waiting: list[int] = []
    for index, token in enumerate(tokens):
        if token.kind == "sign" and token.text in _OPENING:
            waiting.append(index)
            if len(waiting) > MAX_BRACKETS:
                raise RefusedSourceError(token.offset, f"brackets nest at most {MAX_BRACKETS} deep")
        elif token.kind == "sign" and token.text in _PARTNER:
            if not waiting or tokens[waiting[-1]].text != _PARTNER[token.text]:
                raise RefusedSourceError(token.offset, f"{token.text!r} closes nothing")
            partners[index] = waiting.pop()
            partners[partners[index]] = index
    if waiting:
        raise RefusedSourceError(tokens[waiting[-1]].offset, f"{tokens[waiting[-1]].text!r} is not closed")
    return partners


def _macros(tokens: Sequence[Token], partners: Mapping[int, int]) -> list[_Macro]:
    macros: list[_Macro] = []
    for index, token in enumerate(tokens):
        if token.text in MACROS and _text(tokens, index - 1) == "." and _text(tokens, index + 1) == "(":
            macros.append(_macro(tokens, partners, index))
    if len(macros) > MAX_MACROS:
        raise RefusedSourceError(tokens[macros[MAX_MACROS].opening].offset, f"at most {MAX_MACROS} macros")
    for macro in macros:
        if any(other.target <= macro.opening < other.closing and other is not macro for other in macros):
            message = f"{macro.name} stands inside or before another macro; map(x, condition, value) filters too"
            raise RefusedSourceError(tokens[macro.opening - 1].offset, message)
    return macros


def _macro(tokens: Sequence[Token], partners: Mapping[int, int], index: int) -> _Macro:
    name, opening = tokens[index].text, index + 1
    variable, closing = tokens[opening + 1], partners[opening]
    if 1 + _commas(tokens, partners, opening) not in MACROS[name]:
        raise RefusedSourceError(tokens[index].offset, f"{name} has the wrong number of arguments")
    if variable.kind != "name" or not variable.text[0].isalpha() or tokens[opening + 2].text != ",":
        raise RefusedSourceError(variable.offset, f"the first argument of {name} is a name that begins with a letter")
    target = _beginning(tokens, partners, index - 1)
    end = partners.get(target) if tokens[target].text == "[" else _path(tokens, target)[0]
    if end != index - 2:
        message = f"{name} goes through a plain path or a list in brackets; map(x, condition, value) filters too"
        raise RefusedSourceError(tokens[index].offset, message)
    return _Macro(name, variable.text, target, opening, closing)


def _commas(tokens: Sequence[Token], partners: Mapping[int, int], opening: int) -> int:
    count, index = 0, opening + 1
    while index < partners[opening]:
        count += tokens[index].text == ","
        index = max(index, partners.get(index, index)) + 1
    return count


def _beginning(tokens: Sequence[Token], partners: Mapping[int, int], dot: int) -> int:
    """Return where the value begins of which the member after `dot` is taken."""
    index = dot
    while index > 0:
        before = tokens[index - 1]
        if before.text in _PARTNER and before.kind == "sign":
            index = partners[index - 1]
        elif before.kind != "sign" or before.text == ".":
            index -= 1
        else:
            break
    return index


def _check_calls(tokens: Sequence[Token]) -> None:
    for index, token in enumerate(tokens):
        if token.kind == "name" and token.text != "in" and _text(tokens, index + 1) == "{":
            raise RefusedSourceError(token.offset, "messages are not known here; an object is {'name': value}")
        if token.text == "." and not _ends_value(tokens, index - 1):
            raise RefusedSourceError(token.offset, "a dot follows a value")
        if token.kind != "name" or token.text == "in" or _text(tokens, index + 1) != "(":
            continue
        known = METHODS | MACROS.keys() if _text(tokens, index - 1) == "." else FUNCTIONS
        if token.text not in known:
            raise RefusedSourceError(token.offset, f"{token.text}() is not known here; {_listed(known)} are")


def _ends_value(tokens: Sequence[Token], index: int) -> bool:
    return index >= 0 and (tokens[index].kind != "sign" or tokens[index].text in _PARTNER)


def _reads(tokens: Sequence[Token], macros: Sequence[_Macro]) -> Iterator[_Read]:
    """Give every plain path in the order of the source; each other use of a name is a fault."""
    index = 0
    while index < len(tokens):
        read = _read(tokens, index, macros) if tokens[index].kind == "name" else None
        if read is not None:
            yield read
        index = index + 1 if read is None else read.last + 1


def _read(tokens: Sequence[Token], index: int, macros: Sequence[_Macro]) -> _Read | None:
    if tokens[index].text == "has" and _text(tokens, index + 1) == "(" and _is_variable(tokens, index + 2, macros):
        last, path = _path(tokens, index + 2)
        if len(path) > 1 and _text(tokens, last + 1) == ")":
            return _Read(index, last + 1, path, tests=True)
    if _is_variable(tokens, index, macros):
        last, path = _path(tokens, index)
        return _Read(index, last, path, tests=False)
    return None


def _is_variable(tokens: Sequence[Token], index: int, macros: Sequence[_Macro]) -> bool:
    if index >= len(tokens) or tokens[index].kind != "name" or tokens[index].text in _LITERALS | {"in"}:
        return False
    if _text(tokens, index - 1) == "." or _text(tokens, index + 1) == "(":
        return False
    return all(macro.variable != tokens[index].text for macro in macros if macro.opening < index < macro.closing)


def _path(tokens: Sequence[Token], index: int) -> tuple[int, Path]:
    """Return the longest plain path that begins with the name at `index`, and the index of its last token."""
    path: list[str | int] = [tokens[index].text]
    while True:
        if _text(tokens, index + 1) == "." and _text(tokens, index + 3) != "(":
            member = tokens[index + 2] if index + 2 < len(tokens) else None
            part: str | int | None = member.text if member is not None and member.kind == "name" else None
            length = 2
        else:
            part, length = _bracketed(tokens, index + 1), 3
        if part is None:
            return index, tuple(path)
        path.append(part)
        index += length


def _bracketed(tokens: Sequence[Token], index: int) -> str | int | None:
    if _text(tokens, index) != "[" or _text(tokens, index + 2) != "]":
        return None
    text = tokens[index + 1].text
    if _INDEX.fullmatch(text):
        return int(text)
    quoted = _PLAIN_STRING.fullmatch(text)
    return (quoted.group(1) or quoted.group(2) or "") if quoted else None


def _check_known(token: Token, path: Path, scope: Scope) -> None:
    names: Scope | None = scope
    for depth, part in enumerate(path):
        if names is None:
            return
        if part not in names:
            raise RefusedSourceError(token.offset, _unknown(path[:depth], part, names))
        names = names[str(part)]
    if path == ("steps",):
        raise RefusedSourceError(token.offset, "steps is read by the name of a step, as steps.NAME or steps['NAME']")


def _unknown(above: Path, part: str | int, names: Scope) -> str:
    if above == ("steps",):
        return f"step {part!r} gives nothing here: it must give a result and lie on every way that leads here"
    if above:
        return f"{'.'.join(map(str, above))} has no member {part!r}; it has {_listed(names)}"
    return f"{part!r} is not known here; {_listed(names)} may be used, and a text stands in quotes of its own"


def _references(reads: Sequence[_Read]) -> dict[tuple[Path, bool], Reference]:
    """Name each path once; no name of an author begins with an underscore where a macro could hide it."""
    keys = dict.fromkeys((read.path, read.tests) for read in reads)
    return {key: Reference(f"_{number}", *key) for number, key in enumerate(keys)}


def _rewritten(
    source: str, tokens: Sequence[Token], reads: Sequence[_Read], references: Mapping[tuple[Path, bool], Reference]
) -> str:
    pieces: list[str] = []
    end = 0
    for read in reads:
        pieces += [source[end : tokens[read.first].offset], references[read.path, read.tests].name]
        end = tokens[read.last].offset + len(tokens[read.last].text)
    return "".join([*pieces, source[end:]])


def _is_path(tokens: Sequence[Token], reads: Sequence[_Read]) -> bool:
    return len(reads) == 1 and not reads[0].tests and reads[0].last - reads[0].first + 1 == len(tokens)


def _part(
    tokens: Sequence[Token],
    reads: Sequence[_Read],
    references: Mapping[tuple[Path, bool], Reference],
    macros: Sequence[_Macro],
    macro: _Macro | None,
) -> Part:
    kinds = [token for index, token in enumerate(tokens) if _home(macros, index) is macro]
    names = {read: references[read.path, read.tests].name for read in reads}
    own = [read for read in reads if _home(macros, read.first) is macro]
    return Part(
        tokens=len(kinds) - sum(read.last - read.first for read in own),
        literals=1 + sum(token.kind in ("string", "number") or token.text in _OPENING | _LITERALS for token in kinds),
        references=tuple(names[read] for read in own),
        uses=sum(macro is not None and token.text == macro.variable for token in kinds),
        collects=macro is not None and macro.name in COLLECTING,
        target=next((names[read] for read in reads if macro is not None and read.first == macro.target), None),
    )


def _home(macros: Sequence[_Macro], index: int) -> _Macro | None:
    return next((macro for macro in macros if macro.opening < index < macro.closing), None)


def _text(tokens: Sequence[Token], index: int) -> str:
    return tokens[index].text if 0 <= index < len(tokens) and tokens[index].kind != "string" else ""


def _listed(names: Mapping[str, object] | frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"

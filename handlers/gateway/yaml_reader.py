"""Reads one YAML file as JSON with the place of each value; what the values have to be is checked elsewhere.

What is read is JSON's data in YAML's spelling. Plain scalars are numbers and `true`, `false`, `null` as JSON spells
them; every other plain scalar is text, also `2026-01-31`. Those that YAML's readers take for different things, such as
`yes`, `~`, `True`, `012` or `.inf`, are refused: quotes or JSON's spelling make them clear. So are
characters that only some of them take for the end of a line. There are no anchors, aliases, tags, merge keys,
directives and no second document.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import yaml

MAX_BYTES: Final = 262_144
MAX_LEVELS: Final = 32
MAX_NUMBER: Final = 2**53 - 1
MAX_PROBLEMS: Final = 100

Path: TypeAlias = tuple[str | int, ...]

_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_MAX_DIGITS: Final = 40
# So many characters of a name, or of a word that is not clear, are repeated in a message.
_SHOWN: Final = 40
_WORDS: Final[Mapping[str, bool | None]] = {"": None, "null": None, "true": True, "false": False}
_DASH_OR_NAME: Final = re.compile(r" *(?:(?P<dash>-)(?: |$)|(?P<name>[A-Za-z_][A-Za-z0-9_-]*) *:(?: |$))")
# Line ends of YAML 1.1 that are none in 1.2 (section 5.4), so that what stands behind one is a comment or not, and the
# byte order mark, which some readers skip within a text, too.
_UNCLEAR_CHARACTERS: Final = re.compile("[\x85\u2028\u2029\ufeff]")
_LETTER: Final = re.compile(r"\S")
_IN_SINGLE_QUOTES: Final = re.compile(r"''|\S")
_UNCLEAR: Final = re.compile(
    r"(?i:~|null|true|false|yes|no|on|off|[-+]?\.inf|\.nan)"
    r"|[-+]?(?:0[xob][0-9A-Fa-f_]+|(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?)"
)


class Fault(NamedTuple):
    """What is wrong, and with which value; `offset` is a character of a text, `key` means the name of the member."""

    path: Path
    message: str
    offset: int | None = None
    key: bool = False


class Place(NamedTuple):
    """A line and a column, from 1."""

    line: int
    column: int


class Problem(NamedTuple):
    """What is wrong with the spelling at a place, and in which value that is."""

    place: Place
    message: str
    path: Path


class _Span(NamedTuple):
    """Where a value begins and ends in the file, and where the characters of a text begin."""

    start: int
    end: int
    content: int


class UnreadableError(Exception):
    """A file that is not YAML, or is beyond a bound; nothing of it is known but where that shows.

    `path` is the value that was being read there, as far as that is known.
    """

    def __init__(self, message: str, place: Place, path: Path = ()) -> None:
        super().__init__(message)
        self.place = place
        self.path = path


@dataclass(slots=True)
class Document:
    """What a file says: `value` is JSON, null where `problems` are; those are of its spelling alone.

    Of many problems the first 100 are told.
    """

    text: str
    value: Any = None
    problems: list[Problem] = field(default_factory=list)
    spans: dict[Path, _Span] = field(default_factory=dict)
    names: dict[Path, int] = field(default_factory=dict)

    def place(self, fault: Fault) -> Place:
        """Return where a fault is; for a value that is not there, where the value is that should have it."""
        path = fault.path
        while path and path not in self.spans:
            path = path[:-1]
        if fault.key and path in self.names:
            return self.at(self.names[path])
        if path not in self.spans:
            return Place(1, 1)
        span = self.spans[path]
        return self.at(span.start if fault.offset is None else self._index(path, span, fault.offset))

    def at(self, index: int) -> Place:
        """Return the place of a character of the file."""
        return Place(self.text.count("\n", 0, index) + 1, index - self.text.rfind("\n", 0, index))

    def _index(self, path: Path, span: _Span, offset: int) -> int:
        """Find a character of a text where it is written: YAML may fold blanks, so the others are counted.

        Where escapes in double quotes make the count differ, it is the beginning of the text.
        """
        value: Any = self.value
        for part in path:
            value = value[part]
        pattern = _IN_SINGLE_QUOTES if self.text[span.start] == "'" else _LETTER
        marks = [match.start() for match in pattern.finditer(self.text, span.content, span.end)]
        written = "".join(self.text[index] for index in marks)
        letters = "".join(value.split())
        if not letters or not written.startswith(letters):
            return span.start
        count = len("".join(value[:offset].split()))
        return marks[count] if count < len(letters) else marks[len(letters) - 1] + 1


def read_document(raw: bytes) -> Document:
    """Read one YAML document of at most 262,144 bytes and 32 levels; raises UnreadableError where it is not one."""
    if len(raw) > MAX_BYTES:
        raise UnreadableError(f"a file has at most {MAX_BYTES:,} bytes", Place(1, 1))
    document = Document(_decoded(raw))
    if found := _UNCLEAR_CHARACTERS.search(document.text):
        message = "this character is not the same to every reader: write it with a backslash, in double quotes"
        raise UnreadableError(message, document.at(found.start()))
    builder = _Builder(document)
    try:
        builder.read()
    except yaml.reader.ReaderError as error:
        # libyaml counts the bytes of UTF-8.
        index = len(document.text.encode()[: error.position].decode(errors="ignore"))
        raise UnreadableError("this character may not stand in YAML", document.at(index)) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = " ".join(filter(None, (error.problem, error.context)))
        index = mark.index if mark else 0
        path = _nearest(builder.path, document.text, index)
        raise UnreadableError(f"not YAML: {message}", document.at(index), path) from None
    return document


def _decoded(raw: bytes) -> str:
    text = raw.removeprefix(codecs.BOM_UTF8)
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        before = Document(text[: error.start].decode())
        raise UnreadableError("not UTF-8", before.at(len(before.text))) from None


def _nearest(read: Path, text: str, index: int) -> Path:
    """Return the value in which a character stands, as the lines are indented, unless it is none of what is read.

    The parser looks ahead: what it has told of by then may be many lines before that.
    """
    stack: list[tuple[int, str | int]] = []
    end = text.find("\n", index)
    for line in text[: len(text) if end < 0 else end].split("\n"):
        column = 0
        # A search instead would look at the blanks of a line again from each of them.
        while match := _DASH_OR_NAME.match(line, column):
            begin, column = match.start(match.lastgroup or 0), match.end()
            dash = match.lastgroup == "dash"
            while stack and (stack[-1][0] > begin or (stack[-1][0] == begin and not dash)):
                stack.pop()
            if not dash:
                stack.append((begin, match["name"]))
                break
            before = stack[-1][1] if stack and stack[-1][0] == begin else None
            if isinstance(before, int):
                stack[-1] = (begin, before + 1)
            else:
                stack.append((begin, 0))
    path = tuple(part for _, part in stack)
    return path if path[: len(read)] == read else read


class _Builder:
    """Makes values of the parser's events, so that depth is bounded before anything recurses."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._events: Iterator[Any] = iter(yaml.parse(document.text, Loader=yaml.CSafeLoader))
        # The value that is being read.
        self.path: Path = ()

    def read(self) -> None:
        next(self._events)
        start = next(self._events)
        if isinstance(start, yaml.StreamEndEvent):
            self._refuse(start, (), "the file is empty")
            return
        if start.version or start.tags:
            self._refuse(start, (), "directives are not read")
        self._document.value = self._value(next(self._events), (), MAX_LEVELS)
        next(self._events)
        if not isinstance(rest := next(self._events), yaml.StreamEndEvent):
            self._refuse(rest, (), "a second document: each has a file of its own")

    def _value(self, event: Any, path: Path, levels: int) -> Any:
        self.path = path
        self._document.spans[path] = self._span(event)
        if isinstance(event, yaml.AliasEvent):
            self._refuse(event, path, "aliases are not read: write the value again")
            return None
        if event.anchor is not None:
            self._refuse(event, path, "anchors are not read: nothing may refer to them")
        if event.tag is not None:
            self._refuse(event, path, "tags are not read")
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, path)
        if levels == 0:
            place = self._document.at(event.start_mark.index)
            raise UnreadableError(f"a file has at most {MAX_LEVELS} levels", place, path)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._array(path, levels)
        return self._object(path, levels)

    def _span(self, event: Any) -> _Span:
        start, end = event.start_mark.index, event.end_mark.index
        style = getattr(event, "style", None)
        if style in ("'", '"'):
            return _Span(start, end, start + 1)
        if style in ("|", ">"):
            return _Span(start, end, self._document.text.find("\n", start) + 1)
        return _Span(start, end, start)

    def _array(self, path: Path, levels: int) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._value(event, (*path, len(items)), levels - 1))
            self.path = path
        return items

    def _object(self, path: Path, levels: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            name = self._name(event, path, levels)
            self.path = path if name is None else (*path, name)
            if name in members:
                self._refuse(event, self.path, f"{name[:_SHOWN]!r} stands here twice")
            if name is None or name in members:
                # The value has no place of its own, but what is wrong in it is told all the same.
                self._value(next(self._events), (*path, -1), levels - 1)
            else:
                self._document.names[self.path] = event.start_mark.index
                members[name] = self._value(next(self._events), self.path, levels - 1)
            self.path = path
        return members

    def _name(self, event: Any, path: Path, levels: int) -> str | None:
        known = len(self._document.problems)
        name = self._value(event, (*path, -1), levels - 1)
        if name == "<<" and not event.style:
            self._refuse(event, path, "merge keys are not read: write the members again")
        elif isinstance(name, str):
            return name
        elif len(self._document.problems) == known:
            self._refuse(event, path, "the name of a member is text: put it in quotes")
        return None

    def _scalar(self, event: Any, path: Path) -> Any:
        text: str = event.value
        if event.style:
            return text
        if text in _WORDS:
            return _WORDS[text]
        if len(text) <= _MAX_DIGITS and _NUMBER.fullmatch(text):
            return self._number(event, path, text)
        if _UNCLEAR.fullmatch(text):
            message = f"{text[:_SHOWN]!r} is not the same to every reader: put it in quotes or write it as JSON"
            self._refuse(event, path, message)
            return None
        return text

    def _number(self, event: Any, path: Path, text: str) -> int | float | None:
        """Read a number; a whole one is an integer, as in canonical JSON."""
        value = float(text)
        if not -MAX_NUMBER <= value <= MAX_NUMBER:
            self._refuse(event, path, "the value has a number beyond 2^53-1")
            return None
        return int(value) if value.is_integer() else value

    def _refuse(self, event: Any, path: Path, message: str) -> None:
        # To find a place takes as long as the file is, and it may be nothing but problems.
        if len(self._document.problems) < MAX_PROBLEMS:
            self._document.problems.append(Problem(self._document.at(event.start_mark.index), message, path))

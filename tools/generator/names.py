"""Turns the names of a document into the names of Python code, always in the same way."""

from __future__ import annotations

import builtins
import keyword
import re
from http import HTTPStatus
from typing import Final

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+[a-z]*")

# A field of one of these names would hide the type from the annotations of the fields after it.
_ANNOTATIONS: Final = frozenset({"bool", "bytes", "dict", "int", "list", "str"})

SUCCESSES: Final = frozenset(
    "".join(word.capitalize() for word in re.split(r"[ -]", status.phrase))
    for status in HTTPStatus
    if 200 <= status < 300
)

_TAKEN_CLASSES: Final = SUCCESSES | frozenset(dir(builtins)) | {
    "Annotated", "Answer", "Any", "Authenticator", "Authenticators", "Awaitable", "Body", "Callable",
    "ClassVar", "Final", "Handler", "Literal", "Meta", "Never", "OPERATION", "Operation", "Parameter", "Problem",
    "Problems", "Request", "Response", "Scheme", "Service", "Stream", "Struct", "TypeAlias", "UNSET", "UnsetType",
}  # fmt: skip


def words(name: str) -> list[str]:
    """Split `listRuns`, `X-Run-Id`, `event.too-large` or `JOIN_ENDED` into its words, as they are written."""
    return _WORDS.findall(name)


def snake(name: str) -> str:
    """Return the field, function or module name of `name`; an empty text where it has no ASCII letter or digit."""
    joined = re.sub(r"(?<=[a-z])_(?=[0-9]+(_|$))", "", "_".join(words(name)).lower())
    if joined[:1].isdecimal():
        joined = f"field_{joined}"
    return f"{joined}_" if keyword.iskeyword(joined) or joined in _ANNOTATIONS else joined


def pascal(name: str) -> str:
    """Return `name` in the manner of classes; an empty text where it has no ASCII letter or digit."""
    return "".join(word.capitalize() for word in words(name))


def is_taken_class(name: str) -> bool:
    """Tell whether a class of this name would hide a builtin or a name that generated modules use."""
    return name in _TAKEN_CLASSES


def success_class(status: int, media_type: str | None) -> str:
    """Return `Ok` for 200, or `OkYaml` with the media type that tells it from another answer of the same status."""
    phrase = pascal(HTTPStatus(status).phrase)
    return phrase if media_type is None else phrase + pascal(media_type.split("/")[1].removeprefix("x-"))


def problem_base(api: str) -> str:
    """Return the class that the problems of an API share."""
    return f"{pascal(api)}Problem"

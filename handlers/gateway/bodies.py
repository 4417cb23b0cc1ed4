"""Request bodies: media type, strict JSON or text, the document's schema, then the generated type."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec
from jsonschema_rs import Draft202012Validator, ValidationError

from generated.runtime import Body
from handlers.gateway import strict_json
from handlers.gateway.answers import is_json
from handlers.gateway.faults import Finding, Meaning, Plain
from handlers.gateway.schemas import Describer, validator

# What is wrong with a longer body, or beyond so many findings, is not listed: each costs a kilobyte to find.
LISTED_BYTES: Final = 65_536
LISTED_FINDINGS: Final = 100

_MEDIA_TYPE: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9a-z-]+/[!#$%&'*+.^_`|~0-9a-z-]+)[ \t]*(?:;.*)?", re.DOTALL)
_NOT_INTEGER: Final = Finding("", "has a number with a fraction or exponent where the document asks for an integer")


class MediaTypeFault(Exception):
    """The body's media type is not one of the operation's, or its content is encoded."""


class BytesFault(Exception):
    """The bytes are not JSON or text as every body must be; the message is a fixed phrase."""


class SchemaFault(Exception):
    """The value does not satisfy the document or has no meaning; `findings` has at least one."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__(findings[0].field)
        self.findings = findings


class Bodies:
    """The body of one operation, compiled once."""

    def __init__(
        self,
        contract: Mapping[str, Any],
        body: Body,
        describer: Describer,
        meaning: Meaning | None = None,
        plain: Plain | None = None,
    ) -> None:
        self._body = body
        self._meaning = meaning
        self._plain = plain and (msgspec.json.Decoder(plain.model), plain.holds)
        loads = strict_json.loads_canonical if body.canonical else strict_json.loads
        self._readers: dict[str, tuple[Callable[[bytes], Any], Draft202012Validator | None]] = {
            media_type: (
                loads if is_json(media_type) else _text,
                None if pointer is None else validator(contract, pointer),
            )
            for media_type, pointer in body.media_types.items()
        }
        self._spelled = {media_type.encode(): media_type for media_type in self._readers}
        self._describer = describer

    def media_type(self, raw: bytes, headers: Sequence[tuple[bytes, bytes]]) -> str | None:
        """Return the documented media type that the body has, or None for no body at all; raises MediaTypeFault."""
        if not raw and not self._body.required:
            return None
        content_type: bytes | None = None
        for name, value in headers:
            if name == b"content-type":
                if content_type is not None:
                    raise MediaTypeFault
                content_type = value
            elif name == b"content-encoding" and value.lower() != b"identity":
                raise MediaTypeFault
        if content_type is None:
            if raw:
                raise MediaTypeFault
            return None
        # Nearly all send it as the document spells it.
        media_type = self._spelled.get(content_type) or parse_media_type(content_type)
        if media_type not in self._readers:
            raise MediaTypeFault
        return media_type

    def decode(self, raw: bytes, media_type: str | None) -> Any:
        """Return the generated type's value, UNSET for no body; raises BytesFault and SchemaFault."""
        if media_type is None:
            if self._body.required:
                raise BytesFault("A body is required.")
            return msgspec.UNSET
        if self._plain is not None and (plain := _plain(*self._plain, raw)) is not None:
            return plain
        loads, check = self._readers[media_type]
        try:
            value = loads(raw)
        except strict_json.NotStrictJson as fault:
            raise BytesFault(str(fault)) from None
        if check is not None and (findings := self._findings(check, value, len(raw))):
            raise SchemaFault(findings)
        try:
            return msgspec.convert(value, self._body.model)
        except msgspec.ValidationError:
            raise SchemaFault([_NOT_INTEGER]) from None

    def _findings(self, check: Draft202012Validator, value: Any, size: int) -> list[Finding]:
        # One fault can break several rules, such as a format and a pattern, which say the same of it.
        findings = list(dict.fromkeys(self._describer.describe(error) for error in listed(check, value, size)))
        if self._meaning is not None:
            findings += beyond(findings, self._meaning(value))
        return findings


def listed(check: Draft202012Validator, value: Any, size: int) -> list[ValidationError]:
    """Return what a schema has against a value of `size` bytes, as far as that is listed."""
    if check.is_valid(value):
        return []
    if size <= LISTED_BYTES:
        return list(islice(check.iter_errors(value), LISTED_FINDINGS))
    try:
        check.validate(value)
    except ValidationError as error:
        return [error]
    raise AssertionError("a value is invalid without a fault")


def beyond(findings: Sequence[Finding], others: Iterable[Finding]) -> list[Finding]:
    """Return those of `others` at whose place nothing is found yet."""
    known = {finding.field for finding in findings}
    return [finding for finding in others if finding.field not in known]


def _plain(decoder: msgspec.json.Decoder[Any], holds: Callable[[Any], bool], raw: bytes) -> Any:
    """Return the value of a body that is plainly as documented; None says nothing."""
    value = strict_json.loads_as(decoder, raw)
    return value if value is not None and holds(value) else None


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise BytesFault("The body is not UTF-8.") from None


def parse_media_type(value: bytes) -> str:
    """Return `type/subtype` in lower case, without parameters (RFC 9110, section 8.3.1), or "" for anything else."""
    match = _MEDIA_TYPE.fullmatch(value.lower())
    return match[1].decode() if match else ""

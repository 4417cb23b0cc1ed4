"""Request bodies: media type, strict JSON, the document's schema, then the generated type."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from generated.runtime import Body
from handlers.gateway import strict_json
from handlers.gateway.schemas import Describer, validator

_MEDIA_TYPE: Final = re.compile(r"([!#$%&'*+.^_`|~0-9a-z-]+/[!#$%&'*+.^_`|~0-9a-z-]+)\s*(?:;.*)?", re.DOTALL)


class MediaTypeFault(Exception):
    """The body's media type is not one of the operation's, or its content is encoded."""


class BytesFault(Exception):
    """The bytes are not JSON as every body must be; the message is a fixed phrase."""


class SchemaFault(Exception):
    """The value does not satisfy the document; `path` and `phrase` say where and why, without received values."""

    def __init__(self, path: str, phrase: str) -> None:
        super().__init__(path)
        self.path = path
        self.phrase = phrase


class Bodies:
    """The body of one operation, compiled once."""

    def __init__(self, contract: Mapping[str, Any], body: Body, describer: Describer) -> None:
        self._body = body
        self._loads = strict_json.loads_canonical if body.canonical else strict_json.loads
        self._validators = {
            media_type: validator(contract, pointer) for media_type, pointer in body.media_types.items()
        }
        self._describer = describer

    def media_type(self, raw: bytes, headers: Sequence[tuple[bytes, bytes]]) -> str | None:
        """Return the documented media type that the body has, or None for no body at all; raises MediaTypeFault."""
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
        media_type = parse_media_type(content_type)
        if media_type not in self._validators:
            raise MediaTypeFault
        return media_type

    def decode(self, raw: bytes, media_type: str | None) -> Any:
        """Return the generated type's value, UNSET for no body; raises BytesFault and SchemaFault."""
        if media_type is None:
            if self._body.required:
                raise BytesFault("A body is required.")
            return msgspec.UNSET
        try:
            value = self._loads(raw)
        except strict_json.NotStrictJson as fault:
            raise BytesFault(str(fault)) from None
        check = self._validators[media_type]
        if not check.is_valid(value):
            raise SchemaFault(*self._describer.describe(check.iter_errors(value).__next__()))
        try:
            return msgspec.convert(value, self._body.model)
        except msgspec.ValidationError:
            raise SchemaFault(
                "", "has a number with a fraction or exponent where the document asks for an integer"
            ) from None


@lru_cache(maxsize=256)
def parse_media_type(value: bytes) -> str:
    """Return `type/subtype` in lower case, without parameters (RFC 9110, section 8.3.1), or "" for anything else."""
    match = _MEDIA_TYPE.fullmatch(value.decode("latin-1").lower())
    return match[1] if match else ""

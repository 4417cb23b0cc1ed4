"""Digests over canonical JSON (RFC 8785), as definitions, packages and bindings have them."""

from __future__ import annotations

import hashlib
from typing import Any

import rfc8785


def digest_of_text(text: bytes) -> str:
    """Return `sha256:` and the 64 hex digits of the digest of these bytes."""
    return f"sha256:{hashlib.sha256(text).hexdigest()}"


def digest_of(value: Any) -> str:
    """Return the digest of a value's canonical JSON; raises rfc8785.CanonicalizationError where it has none."""
    return digest_of_text(rfc8785.dumps(value))

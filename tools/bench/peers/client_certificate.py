"""Who a node is, for both peers of the join: the pin of its certificate's key.

BENCH_AUTHORITY names the file of the authority, BENCH_TRUSTED the proxy whose Client-Cert header counts, "" for none.
"""

import asyncio
import base64
import hashlib
import os
import re
import ssl
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

AUTHORITY: Final = x509.load_pem_x509_certificate(Path(os.environ["BENCH_AUTHORITY"]).read_bytes())
TRUSTED: Final = os.environ["BENCH_TRUSTED"]
# A byte sequence of RFC 9651, as RFC 9440 wants it.
BYTE_SEQUENCE: Final = re.compile(rb":([A-Za-z0-9+/]*={0,2}):")


class TlsProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which tells the application the client's certificate by the ASGI TLS extension."""

    _tls: dict[object, object]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Note the certificate, which the handshake has verified."""
        super().connection_made(transport)
        der = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        self._tls = {"client_cert_chain": [ssl.DER_cert_to_PEM_cert(der)] if der else []}

    def on_message_begin(self) -> None:
        """Put the extension into the scope of a request."""
        super().on_message_begin()
        self.scope.setdefault("extensions", {})["tls"] = self._tls


def pin(scope: Mapping[str, Any]) -> str | None:
    """The SHA-256 of the SubjectPublicKeyInfo in hex; None without a certificate that counts now."""
    told = _shown(scope)
    if told is None:
        return None
    found, begins, ends = told
    return found if begins <= time.time() <= ends else None


def _shown(scope: Mapping[str, Any]) -> tuple[str, float, float] | None:
    if not TRUSTED:
        chain = scope["extensions"]["tls"]["client_cert_chain"]
        return _verified(chain[0]) if chain else None
    if scope["client"][0] != TRUSTED:
        return None
    values = [value for name, value in scope["headers"] if name == b"client-cert"]
    return _told(values[0]) if len(values) == 1 else None


@lru_cache(maxsize=1024)
def _verified(pem: str) -> tuple[str, float, float]:
    """What a certificate says, which the handshake has verified: the pin, and the validity in epoch seconds."""
    return _read(x509.load_pem_x509_certificate(pem.encode()))


@lru_cache(maxsize=1024)
def _told(value: bytes) -> tuple[str, float, float] | None:
    """What a Client-Cert header says, where the authority has signed it for TLS clients."""
    match = BYTE_SEQUENCE.fullmatch(value)
    if match is None:
        return None
    try:
        certificate = x509.load_der_x509_certificate(base64.b64decode(match[1], validate=True))
        certificate.verify_directly_issued_by(AUTHORITY)
        purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return None
    return None if is_authority or ExtendedKeyUsageOID.CLIENT_AUTH not in purposes else _read(certificate)


def _read(certificate: x509.Certificate) -> tuple[str, float, float]:
    spki = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    validity = certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
    return hashlib.sha256(spki).hexdigest(), *validity

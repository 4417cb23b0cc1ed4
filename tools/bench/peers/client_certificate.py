"""Who a node is, for both peers of the join: the pin of its certificate's key.

BENCH_AUTHORITY names the file of the authority, BENCH_TRUSTED the proxy whose Client-Cert header counts, "" for none.
"""

import asyncio
import base64
import hashlib
import os
import re
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
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
    """The SHA-256 of the SubjectPublicKeyInfo in hex; None without a certificate that counts."""
    if not TRUSTED:
        chain = scope["extensions"]["tls"]["client_cert_chain"]
        return _verified(chain[0]) if chain else None
    if scope["client"][0] != TRUSTED:
        return None
    values = [value for name, value in scope["headers"] if name == b"client-cert"]
    told = _told(values[0]) if len(values) == 1 else None
    if told is None:
        return None
    found, begins, ends = told
    return found if begins <= datetime.now(UTC) <= ends else None


@lru_cache(maxsize=1024)
def _verified(pem: str) -> str:
    return _pin(x509.load_pem_x509_certificate(pem.encode()))


@lru_cache(maxsize=1024)
def _told(value: bytes) -> tuple[str, datetime, datetime] | None:
    """What a Client-Cert header says: the pin and the validity, where the authority has signed it."""
    match = BYTE_SEQUENCE.fullmatch(value)
    if match is None:
        return None
    try:
        certificate = x509.load_der_x509_certificate(base64.b64decode(match[1], validate=True))
        certificate.verify_directly_issued_by(AUTHORITY)
    except (ValueError, TypeError, InvalidSignature):
        return None
    return _pin(certificate), certificate.not_valid_before_utc, certificate.not_valid_after_utc


def _pin(certificate: x509.Certificate) -> str:
    spki = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(spki).hexdigest()

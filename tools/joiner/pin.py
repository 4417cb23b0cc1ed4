"""Join tokens, and the founder's authority, which a token's pin tells before anything is sent to whoever answers."""

from __future__ import annotations

import base64
import re
import socket
import ssl
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding

from handlers.join import certificates
from tools.commands.terminal import RefusedError, UnreachableError

SECONDS: Final = 10.0
_TOKEN: Final = re.compile(r"([A-Za-z0-9_-]{1,256})\.([A-Za-z0-9_-]{43})")


class TokenError(Exception):
    """A text that is no join token; it is not repeated."""


@dataclass(frozen=True, slots=True)
class JoinToken:
    """What an operator gives to a node: the secret, which is sent, and the pin, which never has to be."""

    secret: str = field(repr=False)
    pin: bytes


def token(text: str) -> JoinToken:
    """Read `<secret>.<base64url SHA-256 of the authority's SubjectPublicKeyInfo>`; TokenError for anything else."""
    parts = _TOKEN.fullmatch(text.strip())
    if parts is None:
        raise TokenError("no join token: it is SECRET.PIN, as `gatehouse joins token` prints it")
    return JoinToken(parts[1], base64.urlsafe_b64decode(f"{parts[2]}="))


def authority(founder: str, pin: bytes) -> str:
    """Return in PEM the authority that the server at the URL `founder` shows and that has this pin.

    Nothing but a handshake is sent. That the server's own certificate is signed by it is for whoever connects with
    `trusting` to see. Raises UnreachableError, and RefusedError where the server shows no such authority.
    """
    for shown in _shown(founder):
        if _has(shown, pin):
            return shown.public_bytes(Encoding.PEM).decode()
    why = "it does not show the authority that is pinned, as the founder's join listener does"
    raise RefusedError(f"{founder} is not the founder of this token: {why}")


def trusting(authority_pem: str) -> ssl.SSLContext:
    """Make a context whose servers have to prove by a certificate of this one authority that they may be a server.

    The host name is not compared: the authority is private to one founder and gives serverAuth to itself only, so
    that whoever has such a certificate is the founder, by whatever name or address it is reached.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_verify_locations(cadata=authority_pem)
    return context


def _has(certificate: x509.Certificate, pin: bytes) -> bool:
    try:
        return certificates.pin(certificate.public_key()) == pin
    except (ValueError, UnsupportedAlgorithm):
        return False


def _shown(founder: str) -> Iterator[x509.Certificate]:
    for der in _chain(founder):
        try:
            yield x509.load_der_x509_certificate(der)
        except ValueError:
            continue


def _chain(founder: str) -> list[bytes]:
    """Shake hands without trust in anybody, and return the certificates that the server sent."""
    parts = urlsplit(founder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((parts.hostname, parts.port or 443), SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=parts.hostname) as connection,
        ):
            return _sent(connection)
    except ssl.SSLEOFError as error:
        raise UnreachableError(f"{founder} ends the handshake: {error.reason or error}") from None
    except ssl.SSLError as error:
        raise RefusedError(f"{founder} does not speak TLS as a founder does: {error.reason or error}") from None
    except OSError as error:
        raise UnreachableError(f"{founder} does not answer: {error.strerror or error}") from None


def _sent(connection: ssl.SSLSocket) -> list[bytes]:
    if sys.version_info >= (3, 13):
        return connection.get_unverified_chain()
    # The standard library has had the chain since 3.10, but a public name for it only since 3.13.
    sent = connection._sslobj.get_unverified_chain()  # type: ignore[attr-defined]
    return [ssl.PEM_cert_to_DER_cert(each.public_bytes()) for each in sent or ()]

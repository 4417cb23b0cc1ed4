"""The development authority of a state folder: how it is made, and the server certificates that it signs.

Nodes are enrolled by handlers/join; the authority is meant for nothing but a machine of one's own.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

from handlers.join.certificates import Authority, builder, common_name_of, usage

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
AUTHORITY_DAYS: Final = 3650
# Apple's platforms refuse a server certificate that is valid for longer, whoever signed it.
SERVER_DAYS: Final = 825


class KeyFormatError(Exception):
    """The bytes are no PEM of an unencrypted P-256 private key."""


def new_key() -> ec.EllipticCurvePrivateKey:
    """Make an EC P-256 private key."""
    return ec.generate_private_key(ec.SECP256R1())


def key_to_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Write a private key as unencrypted PKCS #8 PEM (RFC 5958)."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def key_from_pem(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Read what `key_to_pem` wrote; KeyFormatError for anything else."""
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise KeyFormatError("no unencrypted private key in PEM") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise KeyFormatError("a private key of another kind than EC P-256")
    return key


def certificate_to_pem(certificate: x509.Certificate) -> bytes:
    """Write a certificate as PEM (RFC 7468)."""
    return certificate.public_bytes(Encoding.PEM)


def authority_certificate(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    """Make the self-signed CA certificate of `key`, with what VERIFY_X509_STRICT asks for (RFC 5280 4.2.1)."""
    # A name of its own for each key lets the authorities of two state folders stand in one trust store.
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key()).digest.hex()
    name = common_name_of(f"Gatehouse development authority {identifier[:8]}")
    return (
        builder(name, name, key.public_key(), _in_days(AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage(signs_certificates=True), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def server_certificate(
    authority: Authority, key: ec.EllipticCurvePrivateKey, names: Sequence[str] = LOOPBACK
) -> x509.Certificate:
    """Make the certificate of a TLS server that is reached by `names`, host names or IP addresses."""
    extensions = [
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
        x509.SubjectAlternativeName([_general_name(name) for name in names]),
    ]
    return authority.sign(key.public_key(), names[0], _in_days(SERVER_DAYS), extensions)


def _in_days(days: int) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)

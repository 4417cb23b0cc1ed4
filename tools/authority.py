"""The development authority of a state folder: a private CA and the server certificates that it signs.

Enrolling clients is not its job; nor is it meant for anything but a machine of one's own.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
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
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
AUTHORITY_DAYS: Final = 3650
# Apple's platforms refuse a server certificate that is valid for longer, whoever signed it.
SERVER_DAYS: Final = 825
# Clocks of two machines differ; a certificate that is valid from a little earlier does not mind.
BACKDATED: Final = timedelta(minutes=5)


class KeyFormatError(Exception):
    """The bytes are no PEM of an unencrypted P-256 private key."""


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA certificate with its key: what signs."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


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
    name = _name(f"Gatehouse development authority {identifier[:8]}")
    return (
        _builder(name, name, key, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def server_certificate(
    authority: Authority, key: ec.EllipticCurvePrivateKey, names: Sequence[str] = LOOPBACK
) -> x509.Certificate:
    """Make the certificate of a TLS server that is reached by `names`, host names or IP addresses."""
    return (
        _builder(_name(names[0]), authority.certificate.subject, key, SERVER_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(_issuer_identifier(authority.certificate), critical=False)
        .sign(authority.key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _issuer_identifier(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )

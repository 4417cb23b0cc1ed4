"""The authority of a state folder: what it is known by, and the certificates that it signs."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Final, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# A key that a node may have.
NodeKey: TypeAlias = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey

# Clocks of two machines differ; a certificate that is valid from a little earlier does not mind.
BACKDATED: Final = timedelta(minutes=5)


@dataclass(frozen=True)
class Authority:
    """A CA certificate with its key: what signs."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @cached_property
    def pin(self) -> bytes:
        """The SHA-256 of the SubjectPublicKeyInfo, 32 bytes."""
        return pin(self.key.public_key())

    @cached_property
    def token_pin(self) -> str:
        """The pin as a join token ends with it: base64url without padding."""
        return base64.urlsafe_b64encode(self.pin).rstrip(b"=").decode()

    @cached_property
    def fingerprint(self) -> str:
        """The pin as a person compares it: `sha256:` and 64 hex digits."""
        return f"sha256:{self.pin.hex()}"

    @cached_property
    def pem(self) -> str:
        """The authority's own certificate."""
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def issue(self, public_key: NodeKey, join_id: str, expires_at: int) -> str:
        """Return the certificate of a node in PEM, good for TLS clients alone; it ends at epoch milliseconds."""
        ends = datetime.fromtimestamp(expires_at // 1000, UTC)
        signed = self.sign(public_key, join_id, ends, [x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])])
        return signed.public_bytes(Encoding.PEM).decode()

    def sign(
        self, public_key: NodeKey, common_name: str, ends: datetime, extensions: Sequence[x509.ExtensionType]
    ) -> x509.Certificate:
        """Sign a certificate for one end of a TLS connection; `extensions` say which, none of them critical."""
        subject = common_name_of(common_name)
        unsigned = (
            builder(subject, self.certificate.subject, public_key, ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(usage(signs_certificates=False), critical=True)
            .add_extension(_issuer_identifier(self.certificate), critical=False)
        )
        for extension in extensions:
            unsigned = unsigned.add_extension(extension, critical=False)
        return unsigned.sign(self.key, hashes.SHA256())


def spki(public_key: CertificatePublicKeyTypes) -> bytes:
    """Return the SubjectPublicKeyInfo of a key in DER (RFC 5280, 4.1)."""
    return public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def pin(public_key: CertificatePublicKeyTypes) -> bytes:
    """Return the SHA-256 of a key's SubjectPublicKeyInfo, 32 bytes."""
    return hashlib.sha256(spki(public_key)).digest()


def spki_pin(public_key: NodeKey) -> str:
    """Return what a node is known by: the pin of its key in hex."""
    return pin(public_key).hex()


def builder(subject: x509.Name, issuer: x509.Name, public_key: NodeKey, ends: datetime) -> x509.CertificateBuilder:
    """Begin a certificate with what each of the authority's has."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - BACKDATED)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def common_name_of(name: str) -> x509.Name:
    """Return the subject that has a common name and nothing else."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """Return the key usage of an authority, or of one end of a TLS connection."""
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


def _issuer_identifier(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)

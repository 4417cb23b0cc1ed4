"""Certificate requests as a node makes them."""

from __future__ import annotations

from typing import TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

PrivateKey: TypeAlias = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


def new_key() -> ec.EllipticCurvePrivateKey:
    """Make a key of the kind that most nodes have."""
    return ec.generate_private_key(ec.SECP256R1())


def csr(key: PrivateKey, *, common_name: str = "a node") -> str:
    """Return a request for `key` in PEM."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    hashed = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return (
        x509.CertificateSigningRequestBuilder()
        .subject_name(subject)
        .sign(key, hashed)
        .public_bytes(Encoding.PEM)
        .decode()
    )

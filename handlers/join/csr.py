"""Certificate requests (PKCS #10, RFC 2986): whether the sender has the key that it wants certified."""

from __future__ import annotations

import base64
import re
from typing import Final, TypeGuard

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from handlers.join.certificates import NodeKey, spki

_PEM: Final = re.compile(
    r"[ \t\r\n]*-----BEGIN ((?:NEW )?)CERTIFICATE REQUEST-----([A-Za-z0-9+/= \t\r\n]+)"
    r"-----END \1CERTIFICATE REQUEST-----[ \t\r\n]*"
)
_RSA_BITS: Final = range(2048, 8193)
_HASHES: Final = (hashes.SHA256, hashes.SHA384, hashes.SHA512)

NOT_A_REQUEST: Final = "is not one certificate request in PEM and nothing else"
OTHER_KEY: Final = "has a key of another kind than EC P-256, Ed25519 or RSA of 2048 to 8192 bits"
WEAK_HASH: Final = "is signed with another hash than SHA-256, SHA-384 or SHA-512"
NOT_ITS_KEY: Final = "is not signed by its own key"


class CsrRefused(Exception):
    """The text is no request that a certificate is issued for; the message is a fixed phrase."""


def read_csr(pem: str) -> NodeKey:
    """Return the key of the request whose PEM (RFC 7468) `pem` is; raises CsrRefused and nothing else.

    Nothing else is read of it: a subject, attributes or extensions that it asks for count for nothing.
    """
    match = _PEM.fullmatch(pem)
    if match is None:
        raise CsrRefused(NOT_A_REQUEST)
    try:
        request = x509.load_der_x509_csr(base64.b64decode("".join(match[2].split()), validate=True))
        key = _key(request)
        if key is None:
            raise CsrRefused(OTHER_KEY)
        if not _hash_is_strong(request, key):
            raise CsrRefused(WEAK_HASH)
        if not request.is_signature_valid:
            raise CsrRefused(NOT_ITS_KEY)
    except CsrRefused:
        raise
    except Exception:  # noqa: BLE001 - whatever bytes of a stranger do to the parser, they are no request.
        raise CsrRefused(NOT_A_REQUEST) from None
    return key


def _key(request: x509.CertificateSigningRequest) -> NodeKey | None:
    """Return the key that the request is for, None for one of another kind.

    A node is known by the bytes of its SubjectPublicKeyInfo; those of a key that is spelled in another way than the
    certificate will spell it (a compressed point, an RSA key for PSS alone) would not be found again.
    """
    key = request.public_key()
    return key if _is_node_key(key) and spki(key) in request.tbs_certrequest_bytes else None


def _is_node_key(key: object) -> TypeGuard[NodeKey]:
    if isinstance(key, ec.EllipticCurvePublicKey):
        return isinstance(key.curve, ec.SECP256R1)
    if isinstance(key, rsa.RSAPublicKey):
        return key.key_size in _RSA_BITS
    return isinstance(key, ed25519.Ed25519PublicKey)


def _hash_is_strong(request: x509.CertificateSigningRequest, key: NodeKey) -> bool:
    return isinstance(key, ed25519.Ed25519PublicKey) or isinstance(request.signature_hash_algorithm, _HASHES)

"""The credential of a node: a certificate of the authority for the key that its join is pinned to.

The node shows it in the handshake; or, where a proxy ends TLS, the proxy hands it on (RFC 9440).
"""

from __future__ import annotations

import binascii
import re
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeAlias

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from generated.join.security import ClientCertificate
from generated.runtime import Incoming
from handlers.join.certificates import Authority, spki_pin
from handlers.join.identities import Identities

Network: TypeAlias = IPv4Network | IPv6Network
# A certificate as it comes: the PEM of the handshake's, or the value of `Client-Cert`.
Shown: TypeAlias = str | bytes

KEPT: Final = 4096
# In PEM, or in a header, where it is shorter. A certificate of the authority has a few thousand characters at most,
# whatever key it is for; what a proxy hands on may have 65,536, and `KEPT` of those would be a quarter of a gigabyte.
LONGEST: Final = 4096

# A byte sequence of RFC 8941, section 3.3.5, and nothing after it.
_BYTE_SEQUENCE: Final = re.compile(rb":((?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?):")


@dataclass(frozen=True, slots=True)
class Certificate:
    """What counts of a certificate: its key's pin, and from when to when it is valid, in seconds since the epoch."""

    pin: str
    begins: float
    ends: float


class ClientCertificates:
    """Authenticates a node for the join of the path; whatever is amiss, the join is unknown to whoever asks."""

    def __init__(
        self,
        authority: Authority,
        identities: Identities,
        trusted_proxies: Sequence[Network],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` gives seconds since the epoch; `Client-Cert` counts on connections from `trusted_proxies` alone."""
        self._identities = identities
        self._clock = clock
        self._has_proxies = bool(trusted_proxies)
        self._is_trusted = lru_cache(maxsize=KEPT)(partial(_is_within, trusted_proxies))
        self._read = lru_cache(maxsize=KEPT)(partial(_read, authority))

    async def authenticate(self, incoming: Incoming) -> ClientCertificate | None:
        """Return the node where it has the key of the join in the path, and a certificate that is valid now.

        Raises what finding a join's identity raises.
        """
        shown = self._shown(incoming)
        certificate = self._read(shown) if shown and len(shown) <= LONGEST else None
        # A connection may outlast the certificate that it began with.
        if certificate is None or not certificate.begins <= self._clock() <= certificate.ends:
            return None
        join_id = incoming.path_parameters["joinId"].lower()
        identity = await self._identities.find(join_id)
        if identity is None or identity.pin != certificate.pin:
            return None
        return ClientCertificate(join_id=join_id)

    def _shown(self, incoming: Incoming) -> Shown | None:
        if self._has_proxies:
            handed_on = [value for name, value in incoming.headers if name == b"client-cert"]
            if handed_on and self._is_trusted(incoming.client):
                return handed_on[0] if len(handed_on) == 1 else None
        chain: Sequence[str] = incoming.tls["client_cert_chain"] if incoming.tls else ()
        return chain[0] if chain else None


def _is_within(networks: Sequence[Network], client: str) -> bool:
    try:
        address = ip_address(client)
    except ValueError:
        return False
    # So is an IPv4 address spelled on a socket that takes both.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return any((mapped or address) in network for network in networks)


def _read(authority: Authority, shown: Shown) -> Certificate | None:
    pem = shown if isinstance(shown, str) else _handed_on(shown)
    return None if pem is None else read_certificate(authority, pem)


def read_certificate(authority: Authority, pem: str) -> Certificate | None:
    """Return what counts of a certificate; None where it is none that the authority has signed for TLS clients."""
    try:
        certificate = x509.load_pem_x509_certificate(pem.encode())
        certificate.verify_directly_issued_by(authority.certificate)
        extensions = certificate.extensions
        is_authority = extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        purposes = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        pin = spki_pin(certificate.public_key())  # type: ignore[arg-type] # any key has its SubjectPublicKeyInfo.
    except Exception:  # noqa: BLE001 - whatever bytes of a stranger do to the parser, they are no certificate.
        return None
    if is_authority or ExtendedKeyUsageOID.CLIENT_AUTH not in purposes:
        return None
    return Certificate(pin, certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp())


def _handed_on(value: bytes) -> str | None:
    """Return the PEM of the certificate in `Client-Cert`; None where it is malformed."""
    match = _BYTE_SEQUENCE.fullmatch(value)
    return None if match is None else ssl.DER_cert_to_PEM_cert(binascii.a2b_base64(match[1]))

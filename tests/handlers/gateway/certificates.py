"""An authority, a server and clients, made anew for a run of the tests."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class Certificates:
    """PEM files in a folder, and the TLS contexts over them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._authority = self._sign("authority", self._key, authority=True)
        for name in ("server", "client"):
            self._issue(name)
        self.client_pem = (folder / "client.pem").read_text()

    def _issue(self, name: str) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        self._sign(name, key, authority=False)
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (self._folder / f"{name}.key").write_bytes(pem)

    def _sign(self, name: str, key: ec.EllipticCurvePrivateKey, *, authority: bool) -> Path:
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        path = self._folder / f"{name}.pem"
        path.write_bytes(certificate.public_bytes(Encoding.PEM))
        return path

    def server(self) -> ssl.SSLContext:
        """Return a server's context that asks for a client certificate and does not insist on it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._folder / "server.pem", self._folder / "server.key")
        context.load_verify_locations(self._authority)
        context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def client(self, version: ssl.TLSVersion, *, certificate: bool) -> ssl.SSLContext:
        """Return a client's context for one version of TLS."""
        context = ssl.create_default_context(cafile=str(self._authority))
        context.minimum_version = context.maximum_version = version
        if certificate:
            context.load_cert_chain(self._folder / "client.pem", self._folder / "client.key")
        return context

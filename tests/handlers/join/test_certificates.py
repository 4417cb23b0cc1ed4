from __future__ import annotations

import base64
import hashlib
import socket
import ssl
import subprocess
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from handlers.join.certificates import BACKDATED, Authority, spki_pin
from tests.support.nodes import Key
from tools import authority

JOIN_ID = "0197f2a4-9d3c-7c51-b0c5-6d2f6c0e8a11"
DAY = 86_400_000

KEYS: list[Key] = [
    authority.new_key(),
    ed25519.Ed25519PrivateKey.generate(),
    rsa.generate_private_key(public_exponent=65537, key_size=2048),
]
KINDS = ["P-256", "Ed25519", "RSA"]


def in_a_day() -> int:
    return (int(time.time()) * 1000) + DAY


def issue(founder: Authority, key: Key | None = None, expires_at: int | None = None) -> x509.Certificate:
    pem = founder.issue((key or authority.new_key()).public_key(), JOIN_ID, expires_at or in_a_day())
    return x509.load_pem_x509_certificate(pem.encode())


def digest_by_openssl(pem: bytes) -> bytes:
    """Return the SHA-256 of a certificate's SubjectPublicKeyInfo as README says to find it."""
    public = subprocess.run(["openssl", "x509", "-pubkey", "-noout"], input=pem, check=True, capture_output=True).stdout
    command = ["openssl", "pkey", "-pubin", "-outform", "DER"]
    return hashlib.sha256(subprocess.run(command, input=public, check=True, capture_output=True).stdout).digest()


def test_the_pin_is_the_digest_of_the_authoritys_public_key_in_each_of_its_spellings(founder: Authority) -> None:
    expected = digest_by_openssl(founder.pem.encode())
    assert founder.pin == expected
    assert founder.fingerprint == f"sha256:{expected.hex()}"
    assert founder.token_pin == base64.urlsafe_b64encode(expected).decode().rstrip("=")


@pytest.mark.parametrize("key", KEYS, ids=KINDS)
def test_a_node_is_known_by_the_digest_of_its_certificates_public_key(key: Key, founder: Authority) -> None:
    pem = issue(founder, key).public_bytes(Encoding.PEM)
    assert spki_pin(key.public_key()) == digest_by_openssl(pem).hex()


def test_a_certificate_names_the_join_and_is_for_tls_clients_alone(founder: Authority) -> None:
    issued = issue(founder)
    extensions = issued.extensions
    constraints = extensions.get_extension_for_class(x509.BasicConstraints)
    usage = extensions.get_extension_for_class(x509.KeyUsage)
    assert issued.subject.rfc4514_string() == f"CN={JOIN_ID}"
    assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert (constraints.critical, constraints.value.ca) == (True, False)
    assert (usage.critical, usage.value.digital_signature, usage.value.key_cert_sign) == (True, True, False)
    assert len(extensions) == 5


def test_a_certificate_names_the_key_that_signed_it_and_its_own(founder: Authority) -> None:
    key = authority.new_key()
    extensions = issue(founder, key).extensions
    own = extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    signer = extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    expected = founder.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    assert own == x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    assert signer.key_identifier == expected.digest


def test_a_certificate_is_valid_from_a_little_earlier_to_the_end_that_was_given(founder: Authority) -> None:
    expires_at = in_a_day()
    issued = issue(founder, expires_at=expires_at)
    began = datetime.now(UTC) - issued.not_valid_before_utc
    assert issued.not_valid_after_utc == datetime.fromtimestamp(expires_at / 1000, UTC)
    assert timedelta() <= began - BACKDATED < timedelta(minutes=1)


def test_no_two_certificates_have_the_same_number(founder: Authority) -> None:
    key = authority.new_key()
    assert issue(founder, key).serial_number != issue(founder, key).serial_number


@pytest.mark.parametrize("key", KEYS, ids=KINDS)
def test_a_strict_server_that_trusts_the_authority_takes_it_in_a_handshake(
    key: Key, founder: Authority, tmp_path: Path
) -> None:
    own = authority.new_key()
    server_pem = authority.certificate_to_pem(authority.server_certificate(founder, own)) + authority.key_to_pem(own)
    node_pem = issue(founder, key).public_bytes(Encoding.PEM) + key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    for name, pem in (("ca", founder.pem.encode()), ("server", server_pem), ("node", node_pem)):
        (tmp_path / f"{name}.pem").write_bytes(pem)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tmp_path / "ca.pem")
    server.load_cert_chain(tmp_path / "server.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    server.verify_flags |= ssl.VERIFY_X509_STRICT
    client = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    client.load_cert_chain(tmp_path / "node.pem")
    assert JOIN_ID in seen_by(server, client)


def seen_by(server: ssl.SSLContext, client: ssl.SSLContext) -> str:
    """Shake hands; return what the server saw as its client's subject."""
    near, far = socket.socketpair()
    seen: list[str] = []

    def accept() -> None:
        with server.wrap_socket(far, server_side=True) as connection:
            found = connection.getpeercert()
            seen.append(str(found and found["subject"]))
            connection.send(b"!")

    thread = threading.Thread(target=accept)
    thread.start()
    with client.wrap_socket(near, server_hostname="localhost") as connection:
        connection.recv(1)
    thread.join()
    return seen[0]

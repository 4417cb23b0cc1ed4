from __future__ import annotations

import socket
import ssl
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from handlers.join.certificates import Authority
from tools import authority
from tools.authority import KeyFormatError


@pytest.fixture(scope="module")
def signer() -> Authority:
    key = authority.new_key()
    return Authority(authority.authority_certificate(key), key)


def handshake(signer: Authority, folder: Path, name: str) -> str:
    """Shake hands with a TLS server that has a certificate of `signer`; return what the client saw as its subject."""
    key = authority.new_key()
    (folder / "ca.pem").write_bytes(authority.certificate_to_pem(signer.certificate))
    (folder / "server.pem").write_bytes(
        authority.certificate_to_pem(authority.server_certificate(signer, key)) + authority.key_to_pem(key)
    )
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(folder / "server.pem")
    client = ssl.create_default_context(cafile=folder / "ca.pem")
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    near, far = socket.socketpair()

    def accept() -> None:
        try:
            server.wrap_socket(far, server_side=True).close()
        except ssl.SSLError:
            far.close()

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        with client.wrap_socket(near, server_hostname=name) as connection:
            found = connection.getpeercert()
    finally:
        near.close()
        thread.join()
    assert found is not None
    return str(found["subject"])


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1"])
def test_a_strict_client_that_trusts_the_authority_accepts_its_server_on_each_loopback_name(
    signer: Authority, tmp_path: Path, name: str
) -> None:
    assert "localhost" in handshake(signer, tmp_path, name)


def test_a_strict_client_refuses_the_server_under_another_name(signer: Authority, tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match=r"example\.org"):
        handshake(signer, tmp_path, "example.org")


def test_the_authority_may_sign_certificates_and_nothing_else(signer: Authority) -> None:
    extensions = signer.certificate.extensions
    constraints = extensions.get_extension_for_class(x509.BasicConstraints)
    usage = extensions.get_extension_for_class(x509.KeyUsage)
    assert constraints.critical
    assert (constraints.value.ca, constraints.value.path_length) == (True, 0)
    assert usage.critical
    assert (usage.value.key_cert_sign, usage.value.crl_sign, usage.value.digital_signature) == (True, True, False)


def test_a_server_may_not_sign_certificates(signer: Authority) -> None:
    extensions = authority.server_certificate(signer, authority.new_key()).extensions
    constraints = extensions.get_extension_for_class(x509.BasicConstraints)
    usage = extensions.get_extension_for_class(x509.KeyUsage)
    assert constraints.critical
    assert not constraints.value.ca
    assert usage.critical
    assert (usage.value.key_cert_sign, usage.value.digital_signature) == (False, True)


def test_a_server_certificate_names_the_key_that_signed_it(signer: Authority) -> None:
    issued = authority.server_certificate(signer, authority.new_key())
    signed_by = issued.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    own = signer.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    assert signed_by == own


def test_a_server_certificate_is_valid_now_and_for_no_longer_than_apple_takes(signer: Authority) -> None:
    issued = authority.server_certificate(signer, authority.new_key())
    assert issued.not_valid_before_utc < datetime.now(UTC) < issued.not_valid_after_utc
    assert (issued.not_valid_after_utc - issued.not_valid_before_utc).days <= 825


def test_the_authorities_of_two_folders_have_different_names_and_one_key_always_has_the_same() -> None:
    one, other = authority.new_key(), authority.new_key()
    subjects = [authority.authority_certificate(key).subject for key in (one, one, other)]
    assert subjects[0] == subjects[1] != subjects[2]


def test_a_key_that_was_written_is_read_back() -> None:
    key = authority.new_key()
    assert authority.key_from_pem(authority.key_to_pem(key)).private_numbers() == key.private_numbers()


@pytest.mark.parametrize(
    "pem",
    [
        b"",
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        ec.generate_private_key(ec.SECP384R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        ed25519.Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    ],
    ids=["empty", "broken", "P-384", "Ed25519"],
)
def test_anything_but_a_p256_key_is_refused(pem: bytes) -> None:
    with pytest.raises(KeyFormatError):
        authority.key_from_pem(pem)

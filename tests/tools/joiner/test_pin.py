from __future__ import annotations

import base64
import socket
import ssl
import threading
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from handlers.join import certificates
from tests.tools.joiner.conftest import Signer, Tls
from tools import authority
from tools.commands.terminal import RefusedError, UnreachableError
from tools.joiner import pin
from tools.joiner.pin import JoinToken, TokenError

DAY = timedelta(days=1)
SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


def server(folder: Path, signer: Signer, shown: bytes, usage: object = SERVER) -> Tls:
    """A server whose certificate `signer` has signed, and which shows `shown` after it."""
    key = authority.new_key()
    return Tls.showing(folder, signer.sign(key.public_key(), usage, -DAY, DAY) + shown, key)  # type: ignore[arg-type] # one of the two above


def greet(url: str, authority_pem: str) -> None:
    """Send a byte to the server as far as it is trusted."""
    parts = urlsplit(url)
    with (
        socket.create_connection((parts.hostname, parts.port), 10) as plain,
        pin.trusting(authority_pem).wrap_socket(plain, server_hostname=parts.hostname) as connection,
    ):
        connection.sendall(b"x")


def test_a_token_is_a_secret_and_the_pin_of_an_authority(signer: Signer) -> None:
    digest = certificates.pin(signer.certificate.public_key())
    text = f"s3cret-_.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}\n"
    assert pin.token(text) == JoinToken("s3cret-_", digest)
    assert "s3cret" not in repr(pin.token(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "secret",
        ".",
        f".{'A' * 43}",
        "secret.",
        f"secret.{'A' * 42}",
        f"secret.{'A' * 44}",
        f"se cret.{'A' * 43}",
        f"secret.{'A' * 42}+",
        f"sécret.{'A' * 43}",
        f"a.b.{'A' * 43}",
    ],
)
def test_what_is_no_token_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(TokenError) as refused:
        pin.token(text)
    assert "cret" not in str(refused.value).replace("SECRET", "")


def test_the_authority_of_the_pin_is_found_and_its_server_trusted(signer: Signer, tmp_path: Path) -> None:
    with server(tmp_path, signer, signer.pem).listening() as founder:
        found = pin.authority(founder.url, signer.token.pin)
        greet(founder.url, found)
    assert found.encode() == signer.pem
    assert founder.received == b"x"


def test_another_authority_is_refused_before_a_byte_is_sent(signer: Signer, tmp_path: Path) -> None:
    other = Signer.new()
    with server(tmp_path, other, other.pem).listening() as middle:
        with pytest.raises(RefusedError, match="is not the founder of this token"):
            pin.authority(middle.url, signer.token.pin)
        with pytest.raises(ssl.SSLCertVerificationError):
            greet(middle.url, signer.pem.decode())
    assert middle.received == b""


def test_who_shows_the_authority_without_its_signature_gets_nothing(signer: Signer, tmp_path: Path) -> None:
    with server(tmp_path, Signer.new(), signer.pem).listening() as middle:
        found = pin.authority(middle.url, signer.token.pin)
        with pytest.raises(ssl.SSLCertVerificationError):
            greet(middle.url, found)
    assert middle.received == b""


def test_a_node_of_the_founder_is_not_the_founder(signer: Signer, tmp_path: Path) -> None:
    node = server(tmp_path, signer, signer.pem, CLIENT)
    with node.listening(), pytest.raises(ssl.SSLCertVerificationError):
        greet(node.url, signer.pem.decode())
    assert node.received == b""


def test_a_server_that_shows_only_its_own_certificate_is_refused(signer: Signer, tmp_path: Path) -> None:
    with server(tmp_path, signer, b"").listening() as founder, pytest.raises(RefusedError):
        pin.authority(founder.url, signer.token.pin)


def test_a_server_without_tls_is_refused(signer: Signer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            plain, _ = listening.accept()
            with plain:
                plain.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(RefusedError, match="does not speak TLS"):
            pin.authority(f"https://127.0.0.1:{listening.getsockname()[1]}", signer.token.pin)
        thread.join()


def test_no_server_at_all_is_unreachable(signer: Signer) -> None:
    with pytest.raises(UnreachableError, match="does not answer: Connection refused"):
        pin.authority("https://127.0.0.1:1", signer.token.pin)

from __future__ import annotations

import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509

from tests.tools.joiner.conftest import NODE, Signer
from tools.commands.terminal import RefusedError
from tools.joiner.folder import Batch, Join, Node, NodeFolder, token_digest

JOIN = Join(join_id="join-1", token=token_digest("secret"), node=NODE)


def test_a_new_folder_is_its_owners_alone_and_so_is_the_key(tmp_path: Path) -> None:
    folder = NodeFolder(tmp_path / "a" / "node")
    with folder.held():
        folder.key()
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.key_file.stat().st_mode) == 0o600


def test_one_joiner_at_a_time_has_the_folder(folder: NodeFolder) -> None:
    with folder.held(), pytest.raises(RefusedError, match="another `gatehouse join` uses"), folder.held():
        pytest.fail("held twice")


def test_the_key_stays_and_every_request_proves_it(folder: NodeFolder) -> None:
    key = folder.key()
    request = x509.load_pem_x509_csr(folder.csr().encode())
    assert request.is_signature_valid
    assert request.public_key() == key.public_key() == NodeFolder(folder.path).key().public_key()


def test_a_damaged_key_is_refused_and_not_replaced(folder: NodeFolder) -> None:
    folder.key_file.write_text("x")
    with pytest.raises(RefusedError, match=r"node\.key: no unencrypted private key"):
        folder.key()
    assert folder.key_file.read_text() == "x"


def test_what_is_kept_is_found_by_the_next_process(folder: NodeFolder) -> None:
    assert (folder.join(), folder.unsent(), folder.authority(), folder.validity()) == (None, None, None, None)
    batch = Batch("key-1", '{"events":["é\\u0000"]}')
    folder.joined_as(JOIN)
    folder.sending(batch)
    again = NodeFolder(folder.path)
    assert (again.join(), again.unsent()) == (JOIN, batch)
    again.sent()
    again.sent()
    assert folder.unsent() is None


def test_a_new_join_does_not_send_what_was_left_of_another(folder: NodeFolder) -> None:
    folder.joined_as(JOIN)
    folder.sending(Batch("key-1", "{}"))
    folder.joined_as(JOIN)
    assert folder.unsent() is not None
    folder.joined_as(Join(join_id="join-2", token=JOIN.token, node=NODE))
    assert folder.unsent() is None


def test_the_secret_of_the_token_is_not_kept(folder: NodeFolder) -> None:
    folder.joined_as(JOIN)
    assert '"secret"' not in folder.join_file.read_text()


def test_another_nodes_options_are_refused(folder: NodeFolder) -> None:
    folder.be(NODE)
    folder.joined_as(JOIN)
    folder.be(NODE)
    with pytest.raises(RefusedError, match=r"joins as node-1, compute, at 10\.0\.0\.7; give the same again"):
        folder.be(Node(name="node-1", role="compute", address="10.0.0.7", peer_urls=("http://10.0.0.7:2380",)))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"join_id":"x","token":"x","node":{}}'])
def test_a_damaged_file_is_told_by_its_name(folder: NodeFolder, text: str) -> None:
    folder.join_file.write_text(text)
    with pytest.raises(RefusedError, match=r"join\.json is damaged"):
        folder.join()


@pytest.mark.parametrize("text", ["", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "é"])
def test_a_damaged_authority_is_told_by_its_name_and_a_damaged_certificate_is_none(
    folder: NodeFolder, text: str
) -> None:
    folder.authority_file.write_text(text)
    with pytest.raises(RefusedError, match=r"ca\.pem is damaged"):
        folder.authority()
    folder.certificate_file.write_text(text)
    assert folder.validity() is None


def test_the_certificate_of_another_key_is_refused_by_its_name(folder: NodeFolder) -> None:
    folder.key()
    signer = Signer.new()
    folder.certify(signer.pem.decode())
    with pytest.raises(RefusedError, match=r"node\.pem is not for .*node\.key$"):
        folder.identify(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

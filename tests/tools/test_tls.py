from __future__ import annotations

import contextlib
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from handlers.join.certificates import Authority
from tools import authority, state, tls
from tools.settings import Connection, ListenerName, Raft
from tools.settingsfile import SettingsError
from tools.state import TLS_LISTENERS, StateError, StateFolder

CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
SERVER = ExtendedKeyUsageOID.SERVER_AUTH


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    made = StateFolder(tmp_path / "state")
    state.make_folder(made)
    state.make_files(made, {})
    return made


def shake(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Shake hands in memory, and return both ends; raises what either end finds wrong."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    far = server.wrap_bio(to_server, to_client, server_side=True)
    for end in (near, far) * 4:
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()
    return near, far


def client_of(folder: StateFolder, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=folder.authority_certificate)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.minimum_version = context.maximum_version = version
    return context


def with_certificate(
    folder: StateFolder, signer: Authority, usage: x509.ObjectIdentifier, *, days: int = 1
) -> ssl.SSLContext:
    key = authority.new_key()
    ends = datetime.now(UTC) + timedelta(days=days)
    signed = signer.sign(key.public_key(), "node", ends, [x509.ExtendedKeyUsage([usage])])
    file = folder.path / "node.pem"
    file.write_bytes(authority.certificate_to_pem(signed) + authority.key_to_pem(key))
    context = client_of(folder)
    context.load_cert_chain(file)
    return context


def test_the_authority_is_in_the_chain_that_a_node_is_shown(folder: StateFolder) -> None:
    near, _ = shake(tls.server_context(folder, "join"), client_of(folder))
    # The standard library has no public name for the chain before 3.13.
    shown = near._sslobj.get_unverified_chain()  # type: ignore[attr-defined]
    files = (folder.server_certificate("join"), folder.authority_certificate)
    assert [each.public_bytes() for each in shown] == [file.read_text() for file in files]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_needs_no_certificate(folder: StateFolder, version: ssl.TLSVersion) -> None:
    _, far = shake(tls.server_context(folder, "join"), client_of(folder, version))
    assert far.getpeercert(binary_form=True) is None


def test_a_client_may_have_a_certificate_of_the_folder_s_authority(folder: StateFolder) -> None:
    client = with_certificate(folder, state.signing_authority(folder), CLIENT)
    _, far = shake(tls.server_context(folder, "join"), client)
    assert far.getpeercert() is not None


def test_the_installer_s_clients_are_known_by_the_authority_s_file_and_asked_for_no_certificate(
    folder: StateFolder,
) -> None:
    client = with_certificate(folder, state.signing_authority(folder), CLIENT)
    near, far = shake(tls.server_context(folder, "installer"), client)
    assert near.getpeercert(binary_form=True) != b""
    assert far.getpeercert(binary_form=True) is None


def test_a_certificate_that_is_another_authority_s_or_out_of_date_or_a_server_s_is_refused(folder: StateFolder) -> None:
    key = authority.new_key()
    own = state.signing_authority(folder)
    clients = [
        with_certificate(folder, Authority(authority.authority_certificate(key), key), CLIENT),
        with_certificate(folder, Authority(own.certificate, key), CLIENT),
        with_certificate(folder, own, SERVER),
    ]
    for client in clients:
        with pytest.raises(ssl.SSLCertVerificationError):
            shake(tls.server_context(folder, "join"), client)


@pytest.mark.parametrize("listener", TLS_LISTENERS)
def test_neither_older_tls_nor_a_second_handshake_is_spoken(folder: StateFolder, listener: ListenerName) -> None:
    context = tls.server_context(folder, listener)
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_RENEGOTIATION


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("join.pem", None, "join.pem: No such file"),
        ("join.key", None, "join.key: No such file"),
        ("join.key", b"no key", r"join\.pem and .*join\.key: "),
        ("join.key", authority.key_to_pem(authority.new_key()), "key values mismatch"),
        ("installer.pem", None, "installer.pem: No such file"),
        ("ca.pem", b"no certificate", r"ca\.pem: "),
    ],
)
def test_a_file_that_is_missing_or_wrong_is_told_by_its_name(
    folder: StateFolder, file: str, content: bytes | None, words: str
) -> None:
    place = folder.path / "ca" / file
    if content is None:
        place.unlink()
    else:
        place.write_bytes(content)
    with pytest.raises(StateError, match=words):
        tls.server_context(folder, "installer" if file.startswith("installer") else "join")


def service(file: Path) -> dict[str, Connection]:
    return {"crm": Connection.model_validate({"baseUrl": "https://crm.example", "caFile": file})}


def test_the_authority_of_a_connection_is_looked_at(folder: StateFolder) -> None:
    tls.check_authorities(service(folder.authority_certificate))
    for file, words in (("none.pem", "No such file"), ("join.key", ""), ("", "")):
        with pytest.raises(SettingsError, match=rf"connections: crm: .*{file}: {words}"):
            tls.check_authorities(service(folder.path / "ca" / file))


def etcd(**more: object) -> Raft:
    return Raft.model_validate({"name": "store", "kind": "etcd", "endpoints": ["https://localhost:2379"], **more})


def test_an_etcd_cluster_is_reached_with_the_files_of_its_setting(folder: StateFolder) -> None:
    certificate, key = folder.server_certificate("join"), folder.server_key("join")
    files = {"caFile": folder.authority_certificate, "certFile": certificate, "keyFile": key}
    assert tls.etcd_context(etcd(**files)) is not None
    trusting = tls.etcd_context(etcd(caFile=folder.authority_certificate))
    assert trusting is not None
    shake(tls.server_context(folder, "join"), trusting)
    assert tls.etcd_context(etcd(endpoints=["http://localhost:2379"])) is None
    strangers = tls.etcd_context(etcd())
    assert strangers is not None
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(tls.server_context(folder, "join"), strangers)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"caFile": "none.pem"}, r"rafts: store: .*none\.pem: No such file"),
        ({"caFile": "join.key"}, r"rafts: store: .*join\.key: "),
        ({"certFile": "join.pem", "keyFile": "installer.key"}, "key values mismatch"),
    ],
)
def test_a_file_of_an_etcd_cluster_that_is_wrong_is_told_by_its_name(
    folder: StateFolder, files: dict[str, str], words: str
) -> None:
    paths = {name: folder.path / "ca" / file for name, file in files.items()}
    with pytest.raises(SettingsError, match=words):
        tls.etcd_context(etcd(**paths))

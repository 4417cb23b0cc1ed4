"""TLS: contexts of listeners, over the files of a state folder, and towards an etcd cluster; services' authorities."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.settings import Connection, ListenerName, Raft
from tools.settingsfile import SettingsError
from tools.state import StateError, StateFolder


def server_context(folder: StateFolder, listener: ListenerName) -> ssl.SSLContext:
    """Return the context of a listener; raises StateError with the name of the file that is wrong.

    Clients of join are asked for a certificate that the folder's authority has signed, and need not have one; those of
    another listener are not asked.
    """
    certificate, key = folder.server_certificate(listener), folder.server_key(listener)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Whom a connection is from is noted once, after its handshake.
    context.options |= ssl.OP_NO_RENEGOTIATION
    with _told(certificate, key):
        context.load_cert_chain(certificate, key)
    if listener == "join":
        _ask_for_certificates(context, folder)
    return context


def _ask_for_certificates(context: ssl.SSLContext, folder: StateFolder) -> None:
    # OpenSSL also completes the server's own chain from it: nodes look there for the authority that they were told of.
    with _told(folder.authority_certificate):
        context.load_verify_locations(folder.authority_certificate)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.verify_mode = ssl.CERT_OPTIONAL


def etcd_context(raft: Raft) -> ssl.SSLContext | None:
    """Return the context for the endpoints of an etcd cluster, None where none has TLS.

    Raises SettingsError with the name of the file that is wrong.
    """
    if not any(endpoint.startswith("https:") for endpoint in raft.endpoints):
        return None
    try:
        context = ssl.create_default_context()
        if raft.ca_file is not None:
            with _told(raft.ca_file):
                context = ssl.create_default_context(cafile=raft.ca_file)
        if raft.cert_file is not None and raft.key_file is not None:
            with _told(raft.cert_file, raft.key_file):
                context.load_cert_chain(raft.cert_file, raft.key_file)
    except StateError as error:
        raise SettingsError([f"rafts: {raft.name}: {error}"]) from None
    return context


def check_authorities(connections: Mapping[str, Connection]) -> None:
    """Raise SettingsError with the name of the file, where one has no authority of a connection in it."""
    for name, connection in connections.items():
        if connection.ca_file is None:
            continue
        try:
            with _told(connection.ca_file):
                ssl.create_default_context(cafile=connection.ca_file)
        except StateError as error:
            raise SettingsError([f"connections: {name}: {error}"]) from None


@contextlib.contextmanager
def _told(*files: Path) -> Iterator[None]:
    """Tell what OpenSSL says of some files with their names; of a missing one it does not say which."""
    missing = next((file for file in files if not file.exists()), None)
    if missing is not None:
        raise StateError(f"{missing}: No such file or directory")
    try:
        yield
    except ssl.SSLError as error:
        names = " and ".join(map(str, files))
        raise StateError(f"{names}: {(error.reason or 'not usable').lower().replace('_', ' ')}") from None
    except OSError as error:
        raise StateError(f"{files[0]}: {error.strerror}") from None

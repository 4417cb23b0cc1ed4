"""The state folder: where its files are, how a first start makes them, and the locks of the servers that use it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.x509 import Certificate, load_pem_x509_certificate

from handlers.join.certificates import Authority
from tools import authority
from tools.settings import ListenerName

DEFAULT_FOLDER: Final = Path(".gatehouse")
TLS_LISTENERS: Final[tuple[ListenerName, ...]] = ("installer", "join")
KEY_BYTES: Final = 32
SECRET: Final = 0o600
PUBLIC: Final = 0o644
# Without 0, 1, I, L, O and U: a code is read from one screen and typed on another.
CODE_ALPHABET: Final = "23456789ABCDEFGHJKMNPQRSTVWXYZ"

SETTINGS: Final = """\
# The settings of this server. Relative paths are relative to this file; the environment wins over it:
# GATEHOUSE_CONTROL_BIND, GATEHOUSE_INSTALLER_BIND, GATEHOUSE_JOIN_BIND, GATEHOUSE_DATABASE_URL, GATEHOUSE_NODE, …
control:
  bind: 127.0.0.1:8080

# Where this machine is installed, over TLS with the certificate ca/installer.pem, by whoever has the code in
# install.code. Where there is nothing to tell, the stream of an install shows every commentSeconds that it lives.
installer:
  bind: 127.0.0.1:9443
  commentSeconds: 15

# Where nodes join, over TLS with the certificate ca/join.pem. With tls: false something in front of it ends TLS, and
# trustedProxies has the addresses or networks from which its Client-Cert header (RFC 9440) is believed.
# A node whose turn it is fails after turnTimeoutSeconds without a report.
join:
  bind: 127.0.0.1:8443
  tls: true
  trustedProxies: []
  turnTimeoutSeconds: 600

# The rafts that each node joins, read at start. A ledger is kept in the server's own database; of an etcd cluster:
#   {name: store, kind: etcd, endpoints: ["https://10.0.0.1:2379"], caFile: …, certFile: …, keyFile: …}
# A node that does not say where its peers reach it is at peerScheme://ADDRESS:peerPort.
rafts:
  - {name: control, kind: ledger, peerPort: 2380, peerScheme: https}

# sqlite:///PATH or postgresql://USER:PASSWORD@HOST/DATABASE
databaseUrl: sqlite:///gatehouse.db

# The name of this server in the audit chain; servers that share a database each have their own.
node: local

# Who may send events: the keys of each workflow's trigger, one file, or two while a key is being rotated.
# A running server reads them again when this file changes; all else it reads at start.
events:
  - workflow: case-follow-up
    trigger: case-created
    keyFiles: [sources/demo.key]

# The services that workflows may call, by the names that they use, read at start. Of each: baseUrl (https, or http to
# this machine), the methods and paths that calls may have, how a command recovers that was sent and whose effect is not
# known (hold-after-dispatch, same-command, same-command-and-receipt with a receiptPath, or read-again), and, where they
# are wanted, tokenFile, caFile, timeoutSeconds, maxResponseBytes and responseSchema.
# The demo's is where `gatehouse demo receiver` listens.
connections:
  demo-receiver:
    baseUrl: http://127.0.0.1:8099
    methods: [POST]
    paths: [/notices]
    recovery: same-command

# Whether this server carries runs out, and how many at a time.
execution:
  enabled: true
  concurrency: 8
"""
# The connection that the demo workflow calls.
DEMO_CONNECTION: Final = "demo-receiver"

INSTALL_PLAN: Final = """\
# What an install does, read anew for each attempt: one step after the other, each a command that runs in this folder,
# without a shell of its own. GATEHOUSE_NODE_YAML is the file with the node's config as it stood when the attempt began,
# GATEHOUSE_ATTEMPT the attempt's number. What a command writes is told line by line; where one ends with another code
# than 0, or not within timeoutSeconds, the attempt has failed.
steps:
  - name: check-config
    run:
      - sh
      - -ec
      - test -s "$GATEHOUSE_NODE_YAML"; grep -n "" "$GATEHOUSE_NODE_YAML"
    timeoutSeconds: 30
  - name: stage-files
    run:
      - sh
      - -ec
      - |
        mkdir -p "install/$GATEHOUSE_ATTEMPT"
        cd "install/$GATEHOUSE_ATTEMPT"
        cp -v "$GATEHOUSE_NODE_YAML" node.yaml
        sha256sum node.yaml | tee SHA256SUMS
    timeoutSeconds: 60
  - name: verify-files
    run:
      - sh
      - -ec
      - |
        cd "install/$GATEHOUSE_ATTEMPT"
        sha256sum -c SHA256SUMS
        cmp "$GATEHOUSE_NODE_YAML" node.yaml
        echo verified
    timeoutSeconds: 60
"""


class StateError(Exception):
    """The state folder cannot be made or used as asked; the text names the file."""


class HeldError(StateError):
    """Another process holds the lock."""


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The names of the files in a state folder; whether they are there is not its concern."""

    path: Path

    @property
    def settings_file(self) -> Path:
        """The settings, whose presence says that the folder was made to its end."""
        return self.path / "gatehouse.yaml"

    @property
    def database(self) -> Path:
        """The SQLite file that is used where the settings name no other database."""
        return self.path / "gatehouse.db"

    @property
    def engine_database(self) -> Path:
        """The SQLite file of the engine that carries runs out, where the database is SQLite too."""
        return self.path / "engine.db"

    @property
    def executor_id(self) -> Path:
        """What tells this folder's executor from one of another folder whose server has the same node by mistake."""
        return self.path / "executor.id"

    @property
    def audit_file(self) -> Path:
        """The export of the audit chain."""
        return self.path / "audit.jsonl"

    @property
    def operator_token(self) -> Path:
        """The operator's bearer token, one line."""
        return self.path / "operator.token"

    @property
    def install_code(self) -> Path:
        """The install code, one line."""
        return self.path / "install.code"

    @property
    def sources(self) -> Path:
        """The folder of the keys that sign events."""
        return self.path / "sources"

    @property
    def demo_key(self) -> Path:
        """The raw bytes of the demo source's key."""
        return self.sources / "demo.key"

    @property
    def workflows(self) -> Path:
        """The demo package, as it was applied at the first start."""
        return self.path / "workflows"

    @property
    def install_plan(self) -> Path:
        """The steps of an install."""
        return self.path / "install-plan.yaml"

    @property
    def authority_certificate(self) -> Path:
        """The certificate of the development authority."""
        return self.path / "ca" / "ca.pem"

    @property
    def authority_key(self) -> Path:
        """The private key of the development authority."""
        return self.path / "ca" / "ca.key"

    def server_certificate(self, listener: ListenerName) -> Path:
        """The TLS certificate of a listener."""
        return self.path / "ca" / f"{listener}.pem"

    def server_key(self, listener: ListenerName) -> Path:
        """The private key of a listener's TLS certificate."""
        return self.path / "ca" / f"{listener}.key"

    def lock_file(self, name: str) -> Path:
        """The file whose flock is the lock `name`; it says where the listener of that name is served."""
        return self.path / f"lock.{name}"

    def read_secret(self, file: Path) -> str:
        """Read a one-line secret; raises StateError where it is missing, unreadable or empty."""
        try:
            secret = file.read_text(encoding="ascii").strip()
        except UnicodeDecodeError:
            raise StateError(f"{file} is not ASCII") from None
        except OSError as error:
            raise StateError(f"{file}: {error.strerror}") from None
        if not secret:
            raise StateError(f"{file} is empty")
        return secret

    def made(self) -> bool:
        """Whether a first start has made this folder to its end."""
        return self.settings_file.exists()


class Lock:
    """A held flock on a file, in which the holder may leave a note for those who look."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def note(self, text: str) -> None:
        """Replace what the file says."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text.encode(), 0)


@contextlib.contextmanager
def hold(file: Path, refusal: str | None = None) -> Iterator[Lock]:
    """Hold the exclusive flock of `file`, which stays there afterwards, empty.

    Where another process holds it: wait, or raise HeldError with the text `refusal`.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, SECRET)
    try:
        _flock(descriptor, refusal)
        lock = Lock(descriptor)
        lock.note("")
        yield lock
        lock.note("")
    finally:
        os.close(descriptor)


def noted(file: Path) -> str:
    """Return what the holder of a lock has noted in it, or "" where nobody holds it.

    A server that was killed leaves its note behind, and whoever listens at that address now is not it.
    """
    try:
        with file.open(encoding="ascii") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return stream.read().strip()
    except FileNotFoundError:
        pass
    return ""


def _flock(descriptor: int, refusal: str | None) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if refusal is None else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise HeldError(refusal) from None


def replace(file: Path, content: bytes, mode: int) -> None:
    """Write a file so that whoever looks, also after a crash, sees the old or the new content whole."""
    # The callers hold lock.init, so a fixed name is safe, and what a crash leaves of it the next run replaces.
    temporary = file.with_name(f".{file.name}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as stream:
        os.fchmod(descriptor, mode)
        stream.write(content)
        stream.flush()
        os.fsync(descriptor)
    temporary.replace(file)
    _sync(file.parent)


def make_folder(folder: StateFolder) -> None:
    """Make the folder itself, for its owner alone; one that holds something already keeps its mode."""
    folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not any(folder.path.iterdir()):
        folder.path.chmod(0o700)


def make_files(folder: StateFolder, demo: Mapping[str, bytes]) -> list[Path]:
    """Make every file of a first start that is missing but the settings and the database; return those made.

    `demo` is the demo package, a file's text by its name. The caller holds the lock `init`.
    """
    made = _make_authority(folder)
    made += _make(folder.operator_token, f"{secrets.token_urlsafe(32)}\n".encode(), SECRET)
    made += _make(folder.install_code, f"{_code()}\n".encode(), SECRET)
    made += _make(folder.demo_key, secrets.token_bytes(KEY_BYTES), SECRET)
    made += _make(folder.install_plan, INSTALL_PLAN.encode(), PUBLIC)
    return made + _make_package(folder.workflows, demo)


def make_settings(folder: StateFolder) -> list[Path]:
    """Make the settings file where it is missing: the last step, which says that all others were done."""
    return _make(folder.settings_file, SETTINGS.encode(), SECRET)


def _make_authority(folder: StateFolder) -> list[Path]:
    made = _make_certificate(folder.authority_certificate, folder.authority_key, authority.authority_certificate)
    for listener in TLS_LISTENERS:
        files = folder.server_certificate(listener), folder.server_key(listener)
        made += _make_certificate(*files, lambda key: authority.server_certificate(signing_authority(folder), key))
    return made


def _make_certificate(
    file: Path, key_file: Path, issue: Callable[[EllipticCurvePrivateKey], Certificate]
) -> list[Path]:
    """Make a certificate that is missing; the key is written first, so that a key alone is one to be finished."""
    if file.exists():
        return []
    made = _make(key_file, authority.key_to_pem(authority.new_key()), SECRET)
    replace(file, authority.certificate_to_pem(issue(_key(key_file))), PUBLIC)
    return [*made, file]


def signing_authority(folder: StateFolder) -> Authority:
    """Read the folder's authority; raises StateError where a file of it is missing or broken, or belongs to another."""
    try:
        certificate = load_pem_x509_certificate(_content(folder.authority_certificate))
    except ValueError:
        raise StateError(f"{folder.authority_certificate} is no certificate") from None
    key = _key(folder.authority_key)
    if certificate.public_key() != key.public_key():
        raise StateError(f"{folder.authority_key} is not the key of {folder.authority_certificate}")
    return Authority(certificate, key)


def _key(file: Path) -> EllipticCurvePrivateKey:
    try:
        return authority.key_from_pem(_content(file))
    except authority.KeyFormatError as error:
        raise StateError(f"{file}: {error}") from None


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise StateError(f"{file}: {error.strerror}") from None


def _make_package(folder: Path, package: Mapping[str, bytes]) -> list[Path]:
    """Make the files of `package` that are missing, unless the folder holds other files: then it is somebody's own."""
    folder.mkdir(exist_ok=True)
    if {file.name for file in folder.glob("*.y*ml")} - package.keys():
        return []
    return [file for name, content in package.items() for file in _make(folder / name, content, PUBLIC)]


def _make(file: Path, content: bytes, mode: int) -> list[Path]:
    """Write a file that is missing; return it if so."""
    if file.exists():
        return []
    file.parent.mkdir(exist_ok=True)
    replace(file, content, mode)
    return [file]


def _code() -> str:
    digits = "".join(secrets.choice(CODE_ALPHABET) for _ in range(8))
    return f"{digits[:4]}-{digits[4:]}"


def _sync(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""A node's state folder: its key and certificate, the founder's authority, its join, and the batch that is unsent."""

from __future__ import annotations

import contextlib
import hashlib
import json
import ssl
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tools import authority
from tools.commands.terminal import RefusedError
from tools.state import SECRET, HeldError, StateFolder, hold, make_folder, replace

T = TypeVar("T")

DEFAULT_FOLDER: Final = Path(".gatehouse-node")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What a node registers as."""

    name: str
    role: str
    address: str
    peer_urls: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A registration that the founder has answered; `token` is a digest, since the token itself is not kept."""

    join_id: str
    token: str
    node: Node


@dataclass(frozen=True, slots=True)
class Batch:
    """A report as it is sent, also when it is sent again: the same key and the same bytes."""

    key: str
    body: str


class NodeFolder:
    """The files of one node; whoever uses them holds `held`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def key_file(self) -> Path:
        """The node's private key."""
        return self.path / "node.key"

    @property
    def certificate_file(self) -> Path:
        """The node's certificate."""
        return self.path / "node.pem"

    @property
    def authority_file(self) -> Path:
        """The certificate of the founder's authority."""
        return self.path / "ca.pem"

    @property
    def join_file(self) -> Path:
        """The join, whose presence says that the founder has answered."""
        return self.path / "join.json"

    @property
    def unsent_file(self) -> Path:
        """The batch that was last sent and not answered."""
        return self.path / "unsent.json"

    @property
    def mark_file(self) -> Path:
        """The mark of the command that runs."""
        return self.path / "step"

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder where it is missing, for its owner alone, and keep other joiners out of it."""
        make_folder(StateFolder(self.path))
        try:
            with hold(self.path / "lock", f"another `gatehouse join` uses {self.path}"):
                yield
        except HeldError as error:
            raise RefusedError(str(error)) from None

    def key(self) -> ec.EllipticCurvePrivateKey:
        """Return the node's key, made where it is missing."""
        if not self.key_file.exists():
            replace(self.key_file, authority.key_to_pem(authority.new_key()), SECRET)
        try:
            return authority.key_from_pem(self.key_file.read_bytes())
        except authority.KeyFormatError as error:
            raise RefusedError(f"{self.key_file}: {error}") from None

    def csr(self) -> str:
        """Return a request for a certificate of the key in PEM (RFC 2986); only its key and its proof count."""
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "node")])
        request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(self.key(), hashes.SHA256())
        return request.public_bytes(Encoding.PEM).decode()

    def authority(self) -> str | None:
        """Return the founder's authority in PEM, None where it is not known yet."""
        if not self.authority_file.exists():
            return None
        pem = self.authority_file.read_bytes()
        try:
            x509.load_pem_x509_certificate(pem)
        except ValueError:
            raise _damaged(self.authority_file) from None
        return pem.decode()

    def trust(self, authority_pem: str) -> None:
        """Keep the founder's authority."""
        replace(self.authority_file, authority_pem.encode(), SECRET)

    def validity(self) -> tuple[datetime, datetime] | None:
        """Return from when until when the certificate is valid, None where there is none that can be read."""
        try:
            certificate = x509.load_pem_x509_certificate(self.certificate_file.read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        return certificate.not_valid_before_utc, certificate.not_valid_after_utc

    def certify(self, certificate_pem: str) -> None:
        """Keep the node's certificate."""
        replace(self.certificate_file, certificate_pem.encode(), SECRET)

    def identify(self, context: ssl.SSLContext) -> None:
        """Let connections of this context show the certificate."""
        try:
            context.load_cert_chain(self.certificate_file, self.key_file)
        except ssl.SSLError:
            raise RefusedError(f"{self.certificate_file} is not for {self.key_file}") from None

    def join(self) -> Join | None:
        """Return the registration that stands, None where there is none."""
        return self._read(self.join_file, _join)

    def be(self, node: Node) -> None:
        """RefusedError where the folder's registration is another node's."""
        join = self.join()
        if join is not None and join.node != node:
            was = f"{join.node.name}, {join.node.role}, at {' '.join((join.node.address, *join.node.peer_urls))}"
            raise RefusedError(f"{self.path} joins as {was}; give the same again, or take another --state")

    def joined_as(self, join: Join) -> None:
        """Keep a registration; what was unsent for another one is dropped."""
        before = self.join()
        if before is not None and before.join_id != join.join_id:
            self.sent()
        self._write(self.join_file, asdict(join))

    def unsent(self) -> Batch | None:
        """Return the batch that was sent and not answered, None where all were."""
        return self._read(self.unsent_file, lambda value: Batch(**value))

    def sending(self, batch: Batch) -> None:
        """Keep a batch before it is sent for the first time."""
        self._write(self.unsent_file, asdict(batch))

    def sent(self) -> None:
        """Drop the batch that was kept: it has its answer."""
        # A power cut may bring it back; it is then sent again under its key, and nothing is recorded twice.
        self.unsent_file.unlink(missing_ok=True)

    def _read(self, file: Path, make: Callable[[Any], T]) -> T | None:
        try:
            return make(json.loads(file.read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError):
            raise _damaged(file) from None

    def _write(self, file: Path, value: Any) -> None:
        replace(file, json.dumps(value, ensure_ascii=False).encode(), SECRET)


def _damaged(file: Path) -> RefusedError:
    return RefusedError(f"{file} is damaged; a join that is new begins in another --state")


def token_digest(secret: str) -> str:
    """Return what is kept of a token."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _join(value: dict[str, Any]) -> Join:
    node = value["node"] | {"peer_urls": tuple(value["node"]["peer_urls"])}
    return Join(**value | {"node": Node(**node)})

"""A machine that joins, as tests need it: its key, its requests over real TLS, and what makes it another one's."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from handlers.join.certificates import Authority
from tests.support.gatehouse import Gatehouse, wait_for
from tests.support.wire import Answer, Wire, Wrap
from tools.authority import authority_certificate, key_from_pem, new_key

Key: TypeAlias = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey

REGISTRATIONS: Final = "/v1/join/registrations"
JSON: Final = {"Content-Type": "application/json"}
# A step's name in the plan of a server whose settings are those of a new state folder.
RAFT: Final = "raft:control"
PLAN: Final = (RAFT, "services", "complete")

_AT_ONCE: Final = 5
_CONNECTIONS: Final = 4


def authority_of(server: Gatehouse) -> Authority:
    """Return the authority of a server's state folder."""
    certificate = x509.load_pem_x509_certificate(server.ca_file.read_bytes())
    return Authority(certificate, key_from_pem(server.ca_file.with_name("ca.key").read_bytes()))


def another_authority() -> Authority:
    """Return an authority that no server knows."""
    key = new_key()
    return Authority(authority_certificate(key), key)


def request_of(key: Key, name: str = "whatever", extensions: Iterable[x509.ExtensionType] = ()) -> str:
    """Return a certificate signing request of a key, as PEM; the server takes nothing but the key from it."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(_name(name))
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    digest = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key, digest).public_bytes(Encoding.PEM).decode()


def certificate_by(
    authority: Authority,
    key: Key,
    join_id: str,
    *,
    begins: timedelta = timedelta(minutes=-5),
    ends: timedelta = timedelta(days=7),
    usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH,
) -> str:
    """Return a certificate as PEM that is like one of the server's, but by any authority and for any time from now."""
    now = datetime.now(UTC)
    issuer = authority.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_name(join_id))
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins)
        .not_valid_after(now + ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    return certificate.public_bytes(Encoding.PEM).decode()


def client_cert(certificate: str) -> dict[str, str]:
    """Return the header by which a proxy hands on a certificate (RFC 9440, section 2.2)."""
    der = x509.load_pem_x509_certificate(certificate.encode()).public_bytes(Encoding.DER)
    return {"Client-Cert": f":{base64.b64encode(der).decode()}:"}


def step(name: str, status: str, **members: Any) -> dict[str, Any]:
    """Return a step event."""
    return {"type": "step", "step": name, "status": status} | members


def line(message: str, **members: Any) -> dict[str, Any]:
    """Return a log event."""
    return {"type": "log", "message": message} | members


def lines(first: int, count: int) -> list[dict[str, Any]]:
    """Return log events that say their numbers."""
    return [line(f"line {number}") for number in range(first, first + count)]


class Node:
    """One machine; what it is given on its registration it has from then on."""

    def __init__(self, server: Gatehouse, key: Key | None = None) -> None:
        self.server = server
        self.key = key or new_key()
        self.join_id = ""
        # What the operator got when the token of `registered` was minted.
        self.minted: dict[str, str] = {}
        self._certificate = ""

    @classmethod
    def registered(cls, server: Gatehouse, key: Key | None = None, **changes: Any) -> Self:
        """Return a node that has registered with a new token."""
        node = cls(server, key)
        node.minted = server.mint()
        answer = node.register(node.minted["token"], **changes)
        assert answer.status == 201, answer
        return node

    @classmethod
    def in_turn(cls, server: Gatehouse, **changes: Any) -> Self:
        """Return a node whose turn it is; it comes once no other has it."""
        node = cls.registered(server, **changes)
        node.approved()
        wait_for(lambda: node.state == "joining")
        return node

    @property
    def certificate(self) -> str:
        """The certificate that it shows, as PEM; "" for none."""
        return self._certificate

    @certificate.setter
    def certificate(self, pem: str) -> None:
        self._certificate = pem
        self.__dict__.pop("wrap", None)

    @property
    def path(self) -> str:
        """Where its registration is."""
        return f"{REGISTRATIONS}/{self.join_id}"

    @property
    def state(self) -> str:
        """The state of its join, as the operator sees it."""
        return self.server.state_of(self.join_id)

    @property
    def pin(self) -> bytes:
        """The SubjectPublicKeyInfo of its key."""
        return self.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    @property
    def credentials(self) -> bytes:
        """Its certificate, if it has one, and its key, as PEM."""
        key = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return self.certificate.encode() + key

    @cached_property
    def wrap(self) -> Wrap:
        """How it connects: with its certificate if it has one."""
        if not self.certificate:
            return self.server.wrap()
        with tempfile.NamedTemporaryFile() as file:
            file.write(self.credentials)
            file.flush()
            return self.server.wrap(Path(file.name))

    def connect(self, source: str = "127.0.0.1") -> Wire:
        """Open a connection to the join listener, with its certificate if it has one."""
        return Wire(self.server.join_port, self.wrap, source=source)

    def send(
        self,
        method: str,
        target: str,
        fields: Mapping[str, str | bytes] | None = None,
        body: bytes | None = None,
        *,
        chunks: Iterable[bytes] = (),
        over: Wire | None = None,
    ) -> Answer:
        """Send a request to the join listener, over a connection that is there or a new one."""
        if over is not None:
            return self.server.send_join(method, target, fields or {}, body, chunks=chunks, over=over)
        with self.connect() as own:
            return self.server.send_join(method, target, fields or {}, body, chunks=chunks, over=own)

    def post(
        self, target: str, value: Any, fields: Mapping[str, str] | None = None, over: Wire | None = None
    ) -> Answer:
        """Send a JSON body."""
        return self.send("POST", target, JSON | dict(fields or {}), json.dumps(value).encode(), over=over)

    def request(self, **changes: Any) -> dict[str, Any]:
        """Return the body of its registration; `changes` replace members, None takes one away."""
        own = self.pin.hex()[-24:]
        body = {
            "name": f"node-{own}",
            "role": "compute",
            "address": f"{own}.example",
            "csr": request_of(self.key),
        } | changes
        return {name: value for name, value in body.items() if value is not None}

    def register(self, token: str, **changes: Any) -> Answer:
        """Register, without a client certificate; it has what comes of it from then on."""
        bearer = JSON | {"Authorization": f"Bearer {token}"}
        answer = self.server.send_join("POST", REGISTRATIONS, bearer, json.dumps(self.request(**changes)).encode())
        if answer.status in {200, 201}:
            self.join_id, self.certificate = answer.json["joinId"], answer.json["certificate"]
        return answer

    def approved(self, **value: Any) -> Self:
        """Let the operator approve it."""
        answer = self.server.approve(self.join_id, **value)
        assert answer.status == 200, answer
        return self

    def registration(self) -> Answer:
        """Ask for its registration."""
        return self.send("GET", self.path)

    def renew(self, key: Key | None = None) -> Answer:
        """Ask for a new certificate, and have it from then on; with another key the request is that one's."""
        answer = self.post(f"{self.path}/certificate", {"csr": request_of(key or self.key)})
        if answer.status == 200:
            self.certificate = answer.json["certificate"]
        return answer

    def report(self, *events: Any, key: str | None = None, over: Wire | None = None) -> Answer:
        """Report events, under an Idempotency-Key if one is given."""
        fields = {} if key is None else {"Idempotency-Key": key}
        return self.post(f"{self.path}/events", {"events": events}, fields, over)

    def finish(self) -> None:
        """Do every step of the plan, as a node does it, and wait until it has joined."""
        assert self.report(step(RAFT, "running")).status == 204
        wait_for(lambda: self.server.registration(self.join_id)["rafts"][0]["state"] == "learner")
        steps = [step(name, status) for name in PLAN for status in ("running", "done")]
        assert self.report(*steps[1:]).status == 204
        wait_for(lambda: self.state == "joined")

    def fail(self) -> None:
        """Report that a step failed, and wait until it is out of every raft."""
        assert self.report(step("services", "failed")).status == 204
        self.out()

    def leave(self) -> None:
        """End its join where it has not ended, and wait until it is in no raft."""
        if self.state in {"pending", "approved", "joining"}:
            assert self.server.reject(self.join_id).status == 200
            self.out()

    def out(self) -> None:
        """Wait until it is in no raft."""
        outside = {"absent", "removed"}
        wait_for(lambda: {raft["state"] for raft in self.server.registration(self.join_id)["rafts"]} <= outside)


def assert_a_reader_misses_nothing(node: Node, batches: int) -> None:
    """Report batches of five lines over four connections at once; fail unless a reader beside them sees each once."""
    log = node.server.join_log(node.join_id)
    before = len(log["lines"]) + log["dropped"]
    read = _read_beside(node, before, batches)
    assert [each["seq"] for each in read] == list(range(before + 1, before + 1 + batches * _AT_ONCE))
    firsts = [int(each["message"].removeprefix("line ")) for each in read[::_AT_ONCE]]
    assert sorted(firsts) == list(range(0, batches * _AT_ONCE, _AT_ONCE))
    # The lines of a batch stand together.
    messages = [f"line {first + place}" for first in firsts for place in range(_AT_ONCE)]
    assert [each["message"] for each in read] == messages


def _read_beside(node: Node, after: int, batches: int) -> list[dict[str, Any]]:
    read: list[dict[str, Any]] = []
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        each = [range(first, batches, _CONNECTIONS) for first in range(_CONNECTIONS)]
        reports = [pool.submit(_report_all, node, numbers) for numbers in each]
        more: list[dict[str, Any]] = []
        done = False
        while more or not done:
            done = all(report.done() for report in reports)
            more = node.server.join_log(node.join_id, f"?after={after}&limit=100")["lines"]
            read += more
            after = more[-1]["seq"] if more else after
        for report in reports:
            report.result()
    return read


def _report_all(node: Node, numbers: Iterable[int]) -> None:
    with node.connect() as wire:
        for number in numbers:
            assert node.report(*lines(number * _AT_ONCE, _AT_ONCE), over=wire).status == 204


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from handlers.join import certificates
from tools import authority
from tools.joiner.folder import Node, NodeFolder
from tools.joiner.founder import Pace
from tools.joiner.pin import JoinToken

NODE: Final = Node(name="node-1", role="compute", address="10.0.0.7", peer_urls=())
HASTY: Final = Pace(question=0.02, heartbeat=0.05, batch=0.02, first_pause=0.01, longest_pause=0.05)
SECRET: Final = "a-secret"


@dataclass(frozen=True)
class Signer:
    """An authority of its own, which can sign what ours never would."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def new(cls) -> Signer:
        key = authority.new_key()
        return cls(key, authority.authority_certificate(key))

    @property
    def pem(self) -> bytes:
        return authority.certificate_to_pem(self.certificate)

    @property
    def token(self) -> JoinToken:
        return JoinToken(SECRET, certificates.pin(self.certificate.public_key()))

    def sign(self, key: Any, usage: x509.ObjectIdentifier, begins: timedelta, ends: timedelta) -> bytes:
        now = datetime.now(UTC)
        issuer = self.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        return authority.certificate_to_pem(
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "somebody")]))
            .issuer_name(self.certificate.subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + begins)
            .not_valid_after(now + ends)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False)
            .sign(self.key, hashes.SHA256())
        )


@dataclass
class Tls:
    """A TLS server's side: what it shows, and whatever it is sent."""

    context: ssl.SSLContext
    url: str = ""
    received: bytes = b""

    @classmethod
    def showing(cls, folder: Path, chain: bytes, key: Any) -> Tls:
        file = folder / f"{uuid.uuid4()}.pem"
        file.write_bytes(chain + authority.key_to_pem(key))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return cls(context)

    @contextlib.contextmanager
    def listening(self) -> Iterator[Tls]:
        """Shake hands with whoever comes and keep what is sent then."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.url = f"https://127.0.0.1:{server.getsockname()[1]}"
            thread = threading.Thread(target=self._serve, args=[server])
            thread.start()
            try:
                yield self
            finally:
                server.shutdown(socket.SHUT_RDWR)
                thread.join()

    def _serve(self, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                plain, _ = server.accept()
                with contextlib.suppress(OSError), self.context.wrap_socket(plain, server_side=True) as connection:
                    self.received += connection.recv(65_536)


@pytest.fixture(scope="session")
def signer() -> Signer:
    return Signer.new()


@pytest.fixture
def folder(tmp_path: Path) -> NodeFolder:
    made = NodeFolder(tmp_path / "node")
    made.path.mkdir()
    return made


@dataclass
class Founder:
    """A founder with one join, in memory; it has the answers of the real one and the faults that a test gives it."""

    signer: Signer
    url: str = ""
    plan: tuple[str, ...] = ("raft:control", "services", "complete")
    state: str = "joining"
    raft: str = "absent"
    statuses: dict[str, str] = field(default_factory=dict)
    failure: dict[str, Any] | None = None
    life: tuple[timedelta, timedelta] = (timedelta(minutes=-5), timedelta(days=7))
    events: list[dict[str, Any]] = field(default_factory=list)
    reports: list[tuple[str, bytes]] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)
    # Asked before a request is looked at, and before its answer leaves: True cuts the connection instead.
    cuts_request: Callable[[str], bool] = lambda _: False
    cuts_answer: Callable[[str], bool] = lambda _: False
    refusals: list[tuple[int, str]] = field(default_factory=list)
    join_id: str = "01932c07-1111-7000-8000-000000000001"

    @property
    def lines(self) -> list[str]:
        return [event["message"] for event in self.events if event["type"] == "log"]

    @property
    def steps(self) -> list[tuple[str, str]]:
        return [(event["step"], event["status"]) for event in self.events if event["type"] == "step"]

    def registration(self) -> dict[str, Any]:
        peers = [{"name": name, "peerUrl": f"https://{name}:2380"} for name in ("founder", NODE.name)]
        return {
            "joinId": self.join_id,
            "name": NODE.name,
            "role": NODE.role,
            "address": NODE.address,
            "state": self.state,
            "position": {"joining": 0, "approved": 1}.get(self.state),
            "plan": list(self.plan),
            "steps": [
                {
                    "step": step,
                    "status": self.statuses.get(step, "waiting"),
                    "message": None,
                    "startedAt": None,
                    "endedAt": None,
                }
                for step in self.plan
            ],
            "rafts": [
                {
                    "name": "control",
                    "kind": "ledger",
                    "state": self.raft,
                    "memberId": None,
                    "peers": peers if self.raft != "absent" else [],
                    "error": None,
                }
            ],
            "failure": self.failure,
        }

    def answer(self, method: str, target: str, headers: Any, body: bytes) -> tuple[int, Any]:
        if self.refusals:
            status, code = self.refusals.pop(0)
            return status, {"type": "urn:x", "title": code, "status": status, "code": code, "detail": "so"}
        rest = target.removeprefix("/v1/join/registrations").removeprefix(f"/{self.join_id}")
        match method, rest:
            case "POST", "" if target.endswith("registrations"):
                self.tokens.append(headers["Authorization"])
                return 201, self.certificate(json.loads(body)["csr"]) | {"joinId": self.join_id}
            case "POST", "/certificate":
                return 200, self.certificate(json.loads(body)["csr"])
            case "GET", "":
                return 200, self.registration()
            case "POST", "/events":
                return self.report(headers["Idempotency-Key"], body)
        return 404, {"title": "Resource not found", "status": 404, "code": "NOT_FOUND", "detail": "so"}

    def certificate(self, csr: str) -> dict[str, Any]:
        key = x509.load_pem_x509_csr(csr.encode()).public_key()
        return {"certificate": self.signer.sign(key, ExtendedKeyUsageOID.CLIENT_AUTH, *self.life).decode()}

    def report(self, key: str, body: bytes) -> tuple[int, Any]:
        if (key, body) in self.reports:
            return 204, None
        assert key not in [each for each, _ in self.reports]
        if self.state != "joining":
            return 409, {"title": "The join has ended", "status": 409, "code": "JOIN_ENDED", "detail": "so"}
        self.reports.append((key, body))
        for event in json.loads(body)["events"]:
            self.events.append(event)
            if event["type"] == "step":
                self.take_step(event["step"], event["status"])
        return 204, None

    def take_step(self, step: str, status: str) -> None:
        self.statuses[step] = status
        if step.startswith("raft:"):
            self.raft = "learner"
        if step == "complete":
            self.raft = "voter"
        if status == "failed":
            self.state = "failed"
        if Counter(self.statuses.values())["done"] == len(self.plan):
            self.state = "joined"


@pytest.fixture
def founder(signer: Signer, tmp_path: Path) -> Iterator[Founder]:
    """A founder that listens, with TLS and a client's certificate where the client has one."""
    served = Founder(signer)
    key = authority.new_key()
    leaf = signer.sign(key.public_key(), ExtendedKeyUsageOID.SERVER_AUTH, timedelta(minutes=-5), timedelta(days=1))
    tls = Tls.showing(tmp_path, leaf + signer.pem, key).context
    tls.verify_mode = ssl.CERT_OPTIONAL
    tls.load_verify_locations(cadata=signer.pem.decode())

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            assert isinstance(self.connection, ssl.SSLSocket)
            name = f"{self.command} {self.path}" + (" known" if self.connection.getpeercert(True) else "")
            served.seen.append(name)
            if served.cuts_request(name):
                self.close_connection = True
                return
            status, value = served.answer(self.command, self.path, self.headers, body)
            if served.cuts_answer(name):
                self.close_connection = True
                return
            content = b"" if value is None else json.dumps(value).encode()
            self.send_response(status)
            if status != 204:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = answer  # noqa: N815 - http.server asks for these names

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's own name
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    served.url = f"https://127.0.0.1:{server.server_port}"
    yield served
    server.shutdown()
    thread.join()
    server.server_close()

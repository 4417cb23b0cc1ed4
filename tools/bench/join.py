"""The job of the join listener: take the reports of a node whose turn it is, over mutual TLS or behind a proxy."""

import base64
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from handlers.join.certificates import common_name_of, spki_pin
from tools.authority import key_to_pem, new_key
from tools.bench import programs
from tools.bench.budgets import Budget
from tools.bench.load import CONNECTIONS
from tools.bench.programs import PEERS
from tools.bench.reports import report
from tools.bench.servers import HOST, BenchError, Program, Server, serving
from tools.state import StateFolder

SCRIPT: Final = Path(__file__).with_name("repeat.lua")
# Each with its floor and aim against FastAPI.
BATCHES: Final[Mapping[int, tuple[float, float]]] = {500: (3, 6), 1: (5, 5)}
NOTE: Final = (
    "fastapi keeps each log line as a row, inserted in one statement and deleted by number; gatehouse and limit keep"
    " the lines of a commit as one row of JSON text. Reports of lines alone leave no rows in the audit."
)
BEHIND_PROXY: Final[Mapping[str, object]] = {"join": {"tls": False, "trustedProxies": [HOST]}}


@dataclass(frozen=True, slots=True)
class Node:
    """A node whose join has the turn; `identity` is the PEM file of its certificate and key."""

    join_id: str
    pin: str
    identity: Path
    certificate: x509.Certificate

    @property
    def client_cert(self) -> str:
        """The Client-Cert header that a proxy sends for the node (RFC 9440)."""
        return f":{base64.b64encode(self.certificate.public_bytes(Encoding.DER)).decode()}:"


@dataclass(frozen=True, slots=True)
class Reports:
    """The same report again and again; `body` is its file, `lines` the number of its log lines."""

    node: Node
    body: Path
    lines: int
    tls: bool

    @property
    def name(self) -> str:
        """Which of the four jobs it is."""
        return f"join-{self.lines}-{'tls' if self.tls else 'http'}"

    @property
    def work(self) -> str:
        """Lines, bytes and transport."""
        lines = "one log line" if self.lines == 1 else f"{self.lines} log lines"
        size = self.body.stat().st_size
        way = "mutual TLS" if self.tls else "plain HTTP with Client-Cert"
        return f"reportJoinEvents, {lines} in {size:,} bytes, durable, {way}, {CONNECTIONS} connections"

    @property
    def note(self) -> str:
        """How the rows differ."""
        return NOTE

    @property
    def budgets(self) -> Sequence[Budget]:
        """Those of the batch's size."""
        floor, aim = BATCHES[self.lines]
        return Budget("gatehouse", "fastapi", floor, aim), Budget("gatehouse", "limit", 0.5, 0.8)

    @property
    def counted(self) -> int:
        """Every line is numbered."""
        return self.lines

    def arguments(self, server: Server, _seconds: int, _expected_rate: float) -> list[str]:
        """Tell wrk who the node is and what it reports."""
        target = f"{server.url}/v1/join/registrations/{self.node.join_id}/events"
        if self.tls:
            return [f"--script={SCRIPT}", target, "--", str(self.body), str(self.node.identity)]
        return [f"--script={SCRIPT}", f"--header=Client-Cert: {self.node.client_cert}", target, "--", str(self.body)]

    def counts(self) -> Mapping[str, str]:
        """The number of the last line."""
        return {"last_seq": "SELECT last_seq FROM joins"}


@contextmanager
def serving_all(folder: Path, *, tls: bool) -> Iterator[tuple[list[Server], list[Reports]]]:
    """Run Gatehouse, have a node join there until it is its turn, run the peers that know the same; give the jobs."""
    folder.mkdir()
    with ExitStack() as stack:
        program = programs.gatehouse(folder / "gatehouse", "join", tls=tls, settings=None if tls else BEHIND_PROXY)
        gatehouse = stack.enter_context(serving(program))
        state = StateFolder(program.folder)
        node = enrol(gatehouse, state, folder / "node.pem")
        peers = [stack.enter_context(serving(peer(name, folder / name, node, state, tls=tls))) for name in PEERS]
        yield [gatehouse, *peers], [_reports(node, folder, lines, tls=tls) for lines in BATCHES]


def _reports(node: Node, folder: Path, lines: int, *, tls: bool) -> Reports:
    body = folder / f"report-{lines}.json"
    body.write_bytes(report(lines))
    return Reports(node, body, lines, tls)


def enrol(server: Server, state: StateFolder, identity: Path) -> Node:
    """Register a node and approve it, so that it has the turn; `identity` is where its certificate and key are kept."""
    key = new_key()
    request = x509.CertificateSigningRequestBuilder().subject_name(common_name_of("node")).sign(key, hashes.SHA256())
    csr = request.public_bytes(Encoding.PEM).decode()
    operator = {"Authorization": f"Bearer {state.operator_token.read_text().strip()}"}
    trust = ssl.create_default_context(cafile=str(state.authority_certificate))
    with httpx.Client(verify=trust, trust_env=False) as client:
        control = f"{state.lock_file('control').read_text().strip()}/v1/join"
        token = _post(client, f"{control}/tokens", {}, operator)["token"]
        newcomer = {"name": "node", "role": "compute", "address": "192.0.2.1", "csr": csr}
        registered = _post(
            client, f"{server.url}/v1/join/registrations", newcomer, {"Authorization": f"Bearer {token}"}
        )
        join_id = registered["joinId"]
        approved = _post(client, f"{control}/registrations/{join_id}/approve", None, operator)
    if approved["state"] != "joining":
        raise BenchError(f"the node is {approved['state']}, and it is not its turn")
    identity.write_bytes(registered["certificate"].encode() + key_to_pem(key))
    certificate = x509.load_pem_x509_certificate(registered["certificate"].encode())
    return Node(join_id=join_id, pin=spki_pin(key.public_key()), identity=identity, certificate=certificate)


def _post(client: httpx.Client, url: str, value: Any, headers: Mapping[str, str]) -> Any:
    answer = client.post(url, headers=headers, **({} if value is None else {"json": value}))
    if not answer.is_success:
        raise BenchError(f"{url} answered {answer.status_code}: {answer.text}")
    return answer.json()


def peer(name: str, folder: Path, node: Node, state: StateFolder, *, tls: bool) -> Program:
    """A peer that knows the node, and has the authority and certificate of a state folder."""
    environment = {
        "BENCH_JOIN": node.join_id,
        "BENCH_PIN": node.pin,
        "BENCH_AUTHORITY": str(state.authority_certificate),
        "BENCH_TRUSTED": "" if tls else HOST,
    }
    options = [
        f"--ssl-certfile={state.server_certificate('join')}",
        f"--ssl-keyfile={state.server_key('join')}",
        f"--ssl-ca-certs={state.authority_certificate}",
        f"--ssl-cert-reqs={ssl.CERT_OPTIONAL.value}",
        "--http=tools.bench.peers.client_certificate:TlsProtocol",
    ]
    return programs.peer(name, "join", folder, environment, options if tls else None)

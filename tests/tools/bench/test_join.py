import base64
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from handlers.join.certificates import Authority
from tools.authority import authority_certificate, new_key
from tools.bench.join import BATCHES, Node, Reports
from tools.bench.servers import Program, Server


@pytest.fixture
def node(tmp_path: Path) -> Node:
    key = new_key()
    signs = new_key()
    pem = Authority(authority_certificate(signs), signs).issue(key.public_key(), "a-join", 2_000_000_000_000)
    return Node("a-join", "pin", tmp_path / "node.pem", x509.load_pem_x509_certificate(pem.encode()))


def server(folder: Path, *, tls: bool) -> Server:
    program = Program(
        name="limit", command=[], environment={}, port=1, folder=folder, database=folder / "peer.db", tls=tls
    )
    return Server(program=program, pid=0, first_answer=0.0)


def test_the_node_shows_its_certificate_in_the_handshake_where_there_is_one(node: Node, tmp_path: Path) -> None:
    job = Reports(node, tmp_path / "body", 500, tls=True)
    _, target, _, body, identity = job.arguments(server(tmp_path, tls=True), 1, 1.0)
    assert target == "https://127.0.0.1:1/v1/join/registrations/a-join/events"
    assert (body, identity) == (str(tmp_path / "body"), str(node.identity))


def test_behind_a_proxy_the_header_has_the_certificate(node: Node, tmp_path: Path) -> None:
    job = Reports(node, tmp_path / "body", 1, tls=False)
    _, header, target, _, _ = job.arguments(server(tmp_path, tls=False), 1, 1.0)
    assert target.startswith("http://")
    told = header.removeprefix("--header=Client-Cert: :").removesuffix(":")
    assert base64.b64decode(told) == node.certificate.public_bytes(Encoding.DER)


@pytest.mark.parametrize("lines", BATCHES)
def test_a_job_tells_what_it_is_and_what_is_asked_of_it(node: Node, tmp_path: Path, lines: int) -> None:
    (tmp_path / "body").write_bytes(b"x" * 1234)
    job = Reports(node, tmp_path / "body", lines, tls=True)
    assert job.name == f"join-{lines}-tls"
    assert "1,234 bytes" in job.work
    assert "mutual TLS" in job.work
    assert [budget.against for budget in job.budgets] == ["fastapi", "limit"]
    assert job.counted == lines

from __future__ import annotations

import base64
import json
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.support.gatehouse import Gatehouse, NewServer
from tests.support.nodes import (
    JSON,
    REGISTRATIONS,
    Node,
    another_authority,
    authority_of,
    certificate_by,
    client_cert,
    line,
    request_of,
)
from tests.support.programs import needs
from tests.support.wire import Answer, ConnectionEnded, Wire, message
from tools.authority import new_key

UNKNOWN: Final = "019d9079-e78a-7c31-8f02-6b1d4e9a5c77"
# How a client learns that its certificate was refused depends on its library and on how far it had come.
REFUSED: Final = (OSError, ConnectionEnded)

Send: TypeAlias = Callable[[str, str, dict[str, str], bytes | None], Answer]


def asked(send: Send, join_id: str, fields: dict[str, str] | None = None) -> list[Answer]:
    """Send what a node sends of its own join, each operation once."""
    path, more = f"{REGISTRATIONS}/{join_id}", fields or {}
    return [
        send("GET", path, more, None),
        send("POST", f"{path}/certificate", JSON | more, json.dumps({"csr": request_of(new_key())}).encode()),
        send("POST", f"{path}/events", JSON | more, json.dumps({"events": [line("never stored")]}).encode()),
    ]


def bare(answers: list[Answer]) -> list[Any]:
    assert {answer.outcome for answer in answers} == {(404, "NOT_FOUND")}
    return [answer.bare for answer in answers]


def with_certificate(node: Node, certificate: str, key: Any = None) -> Node:
    """Return a node that shows another certificate for the same join."""
    other = Node(node.server, key or node.key)
    other.join_id, other.certificate = node.join_id, certificate
    return other


def is_refused_in_the_handshake(node: Node) -> bool:
    try:
        with node.connect() as wire:
            wire.write(message("GET", node.path))
            wire.read()
    except REFUSED:
        return True
    return False


@pytest.fixture(scope="module")
def node(founder: Gatehouse) -> Iterator[Node]:
    """A node whose turn it is, so that nothing but its key stands in the way of a report."""
    node = Node.in_turn(founder)
    yield node
    node.leave()


@pytest.fixture(scope="module")
def other(founder: Gatehouse) -> Iterator[Node]:
    """Another node of the same authority."""
    node = Node.registered(founder)
    yield node
    node.leave()


@pytest.fixture(scope="module")
def unknown(founder: Gatehouse) -> list[Any]:
    """What a join that does not exist is answered with."""
    return bare(asked(founder.send_join, UNKNOWN))


def test_a_node_is_known_by_its_key_alone(founder: Gatehouse, node: Node) -> None:
    assert node.registration().json["joinId"] == node.join_id
    named_otherwise = with_certificate(node, certificate_by(authority_of(founder), node.key, "another name"))
    assert named_otherwise.registration().json == node.registration().json
    assert named_otherwise.report().status == 204


def test_whoever_lacks_the_key_is_answered_as_for_a_join_that_does_not_exist(
    founder: Gatehouse, node: Node, other: Node, unknown: list[Any]
) -> None:
    key = new_key()
    same_name = with_certificate(node, certificate_by(authority_of(founder), key, node.join_id), key)
    assert bare(asked(founder.send_join, node.join_id)) == unknown
    assert bare(asked(other.send, node.join_id)) == unknown
    assert bare(asked(same_name.send, node.join_id)) == unknown
    assert bare(asked(founder.send_join, node.join_id, founder.operator)) == unknown
    assert bare(asked(node.send, UNKNOWN)) == unknown
    assert bare(asked(node.send, "no-uuid")) == unknown
    assert founder.join_log(node.join_id)["lines"] == []


def test_a_header_that_only_a_proxy_may_send_counts_for_nothing_from_anyone_else(
    founder: Gatehouse, node: Node, other: Node, unknown: list[Any]
) -> None:
    forged = client_cert(node.certificate)
    assert bare(asked(founder.send_join, node.join_id, forged)) == unknown
    assert bare(asked(other.send, node.join_id, forged)) == unknown
    assert node.send("GET", node.path, client_cert(other.certificate)).status == 200


def test_a_stranger_is_refused_before_its_body_is_read(other: Node, node: Node) -> None:
    with other.connect() as wire:
        wire.write(message("POST", f"{node.path}/events", JSON | {"Content-Length": "4000000"}) + b'{"events":')
        assert wire.read().outcome == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    "made",
    [
        lambda node: certificate_by(another_authority(), node.key, node.join_id),
        lambda node: certificate_by(authority_of(node.server), node.key, node.join_id, ends=timedelta(seconds=-60)),
        lambda node: certificate_by(authority_of(node.server), node.key, node.join_id, begins=timedelta(hours=1)),
        lambda node: certificate_by(
            authority_of(node.server), node.key, node.join_id, usage=ExtendedKeyUsageOID.SERVER_AUTH
        ),
    ],
    ids=["of another authority", "that has expired", "that is not valid yet", "of a server"],
)
def test_a_certificate_is_refused_in_the_handshake(made: Callable[[Node], str], node: Node) -> None:
    assert is_refused_in_the_handshake(with_certificate(node, made(node)))
    assert not is_refused_in_the_handshake(node)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=lambda each: each.name)
def test_a_node_is_known_in_a_session_that_is_resumed_as_in_a_new_one(
    version: ssl.TLSVersion, node: Node, other: Node, tmp_path: Path
) -> None:
    (tmp_path / "node.pem").write_bytes(node.credentials)
    context = ssl.create_default_context(cafile=node.server.ca_file)
    context.load_cert_chain(tmp_path / "node.pem")
    context.minimum_version = context.maximum_version = version
    session: ssl.SSLSession | None = None
    for is_resumed in (False, True):

        def wrap(plain: socket.socket, session: ssl.SSLSession | None = session) -> ssl.SSLSocket:
            return context.wrap_socket(plain, server_hostname="127.0.0.1", session=session)

        with Wire(node.server.join_port, wrap) as wire:
            assert node.send("GET", node.path, over=wire).status == 200
            assert node.send("GET", other.path, over=wire).outcome == (404, "NOT_FOUND")
            assert isinstance(wire.socket, ssl.SSLSocket)
            assert wire.socket.session_reused is is_resumed
            session = wire.socket.session


def test_a_renewed_certificate_has_the_same_key_and_passes_as_the_old_one_does(node: Node) -> None:
    old = with_certificate(node, node.certificate)
    assert node.renew().status == 200
    assert node.certificate != old.certificate
    assert node.registration().status == old.registration().status == 200


def test_no_certificate_is_renewed_for_another_key(node: Node) -> None:
    before = node.certificate
    assert node.renew(new_key()).outcome == (409, "JOIN_KEY_MISMATCH")
    assert node.certificate == before
    assert node.registration().status == 200


@needs("curl")
def test_curl_speaks_for_a_node_with_its_certificate_and_key(founder: Gatehouse, node: Node, tmp_path: Path) -> None:
    certificate, key = tmp_path / "node.pem", tmp_path / "node.key"
    certificate.write_text(node.certificate)
    key.write_bytes(node.credentials.removeprefix(node.certificate.encode()))
    own = ["--cert", str(certificate), "--key", str(key)]
    post = ["--header", "Content-Type: application/json", "--data", json.dumps({"events": [line("from curl")]})]
    events = f"{founder.join}{node.path}/events"
    common = ["curl", "--silent", "--cacert", str(founder.ca_file), "--write-out", "%{http_code}"]
    statuses = [
        subprocess.run([*common, *more, *post, events], capture_output=True, text=True, check=True).stdout[-3:]
        for more in (own, [])
    ]
    assert statuses == ["204", "404"]
    assert founder.join_log(node.join_id)["lines"][-1]["message"] == "from curl"


# Behind a proxy that ends TLS (RFC 9440): 127.0.0.2 is one, every other address is anyone.

PROXY: Final = "127.0.0.2"


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "tls"])
def proxied(request: pytest.FixtureRequest, new_server: NewServer) -> Node:
    """A node of a server that trusts a proxy, and listens with TLS or without."""
    server = new_server()
    server.configure(join={"tls": request.param, "trustedProxies": [PROXY, "10.0.0.0/8"]})
    server.start()
    assert server.join.startswith("https:" if request.param else "http:")
    return Node.registered(server)


def by_proxy(node: Node, *values: str, source: str = PROXY) -> Answer:
    """Ask for a registration as a proxy hands it on, which shows no certificate of its own."""
    bare_client = Node(node.server)
    fields = [("Client-Cert", value) for value in values]
    with bare_client.connect(source) as wire:
        wire.write(message("GET", node.path, fields))
        return wire.read()


def test_a_trusted_proxy_hands_on_the_certificate_of_a_node(proxied: Node) -> None:
    (value,) = client_cert(proxied.certificate).values()
    assert by_proxy(proxied, value).json["joinId"] == proxied.join_id
    assert by_proxy(proxied, f" {value}\t").status == 200
    refused = by_proxy(proxied, value, source="127.0.0.1")
    assert refused.outcome == (404, "NOT_FOUND")
    assert by_proxy(proxied).bare == refused.bare


def test_what_a_proxy_hands_on_is_judged_as_in_the_handshake(proxied: Node) -> None:
    authority, key, own = authority_of(proxied.server), proxied.key, proxied.join_id
    refused = {
        "another node's": certificate_by(authority, new_key(), own),
        "of another authority": certificate_by(another_authority(), key, own),
        "expired": certificate_by(authority, key, own, ends=timedelta(seconds=-60)),
        "not valid yet": certificate_by(authority, key, own, begins=timedelta(hours=1)),
        "of a server": certificate_by(authority, key, own, usage=ExtendedKeyUsageOID.SERVER_AUTH),
        "the authority's own": proxied.server.ca_file.read_text(),
    }
    answers = {name: by_proxy(proxied, *client_cert(pem).values()) for name, pem in refused.items()}
    nothing = by_proxy(proxied)
    assert {name: answer.status for name, answer in answers.items()} == dict.fromkeys(refused, 404)
    assert {answer.bare[2] for answer in answers.values()} == {nothing.bare[2]}


def test_a_header_that_is_not_one_byte_sequence_counts_for_nothing(proxied: Node) -> None:
    (value,) = client_cert(proxied.certificate).values()
    inner = value.strip(":")
    malformed = [
        "",
        "::",
        ":",
        inner,
        f":{inner}",
        f":{inner[:-8]}:",
        f":{inner}:, :{inner}:",
        f":{inner[:40]} {inner[40:]}:",
        f":{inner.replace('/', '_').replace('+', '-')}-_:",
        f'"{inner}"',
        f":{base64.b64encode(b'no certificate').decode()}:",
        f":{base64.b64encode(proxied.certificate.encode()).decode()}:",
    ]
    assert {text: by_proxy(proxied, text).status for text in malformed} == dict.fromkeys(malformed, 404)
    assert by_proxy(proxied, value, value).status == 404
    assert by_proxy(proxied, value, ":AAAA:").status == 404

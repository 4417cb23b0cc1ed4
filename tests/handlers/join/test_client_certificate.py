from __future__ import annotations

import asyncio
import base64
import random
import time
import tracemalloc
from collections.abc import Sequence
from datetime import timedelta
from ipaddress import ip_network
from uuid import uuid4

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from generated.join.security import ClientCertificate
from handlers.join.certificates import Authority, spki_pin
from handlers.join.client_certificate import LONGEST, ClientCertificates, read_certificate
from handlers.join.identities import Identities
from storage.join.registrations import Identity
from tests.handlers.join.asking import exchange
from tests.support.nodes import Key, certificate_by, client_cert
from tools import authority

DAY = 86_400_000
PROXY = "192.0.2.7"
PROXIES = ("192.0.2.7/32", "2001:db8::/32")

Headers = Sequence[tuple[bytes, bytes]]


class Joins:
    """Joins with their keys, and the authenticator over them."""

    def __init__(self, founder: Authority) -> None:
        self.founder = founder
        self.now = time.time()
        self._known: dict[str, Identity] = {}
        self._authenticator = ClientCertificates(
            founder, Identities(self._find), [ip_network(each) for each in PROXIES], clock=lambda: self.now
        )

    async def _find(self, join_id: str) -> Identity | None:
        return self._known.get(join_id)

    def add(self, key: Key) -> str:
        join_id = str(uuid4())
        self._known[join_id] = Identity(spki_pin(key.public_key()), ())
        return join_id

    def issue(self, key: Key, join_id: str) -> str:
        return self.founder.issue(key.public_key(), join_id, int(self.now) * 1000 + DAY)

    def over_tls(self, join_id: str, *chain: str) -> bool:
        return self.ask(join_id, chain=chain)

    def handed_on(self, join_id: str, *values: bytes, client: str = PROXY) -> bool:
        return self.ask(join_id, [(b"client-cert", value) for value in values], client=client)

    def ask(
        self, join_id: str, headers: Headers = (), *, client: str = "127.0.0.1", chain: Sequence[str] | None = None
    ) -> bool:
        """Whether the request is the node's; anything but yes and no fails the test."""
        asking = exchange(headers, join_id=join_id, client=client, chain=chain)
        found = asyncio.run(self._authenticator.authenticate(asking))
        assert found in {None, ClientCertificate(join_id=join_id.lower())}
        return found is not None


@pytest.fixture(scope="module")
def joins(founder: Authority) -> Joins:
    return Joins(founder)


@pytest.fixture(scope="module")
def key() -> ec.EllipticCurvePrivateKey:
    return authority.new_key()


@pytest.fixture(scope="module")
def join_id(joins: Joins, key: Key) -> str:
    return joins.add(key)


@pytest.fixture(scope="module")
def certificate(joins: Joins, key: Key, join_id: str) -> str:
    return joins.issue(key, join_id)


def sequence(pem: str) -> bytes:
    """Return the value of Client-Cert for a certificate."""
    return client_cert(pem)["Client-Cert"].encode()


@pytest.mark.parametrize(
    "key",
    [authority.new_key(), ed25519.Ed25519PrivateKey.generate(), rsa.generate_private_key(65537, 2048)],
    ids=["P-256", "Ed25519", "RSA"],
)
def test_a_node_is_known_by_the_key_of_its_certificate(key: Key, joins: Joins) -> None:
    join_id = joins.add(key)
    issued = joins.issue(key, join_id)
    assert joins.over_tls(join_id, issued)
    assert joins.over_tls(join_id.upper(), issued)
    assert joins.handed_on(join_id, sequence(issued))


def test_a_renewed_certificate_of_the_same_key_counts_and_one_of_another_key_does_not(
    joins: Joins, key: Key, join_id: str
) -> None:
    assert joins.over_tls(join_id, joins.issue(key, join_id))
    assert not joins.over_tls(join_id, joins.issue(authority.new_key(), join_id))


def test_no_certificate_and_another_nodes_count_for_nothing(joins: Joins, join_id: str) -> None:
    others = authority.new_key()
    its = joins.issue(others, joins.add(others))
    assert not joins.ask(join_id)
    assert not joins.over_tls(join_id)
    assert not joins.over_tls(join_id, its)
    assert not joins.handed_on(join_id, sequence(its))


@pytest.mark.parametrize(
    "other", ["", "no-uuid", "\0", "\N{REPLACEMENT CHARACTER}", "019d9079-e78a-7c31-8f02-6b1d4e9a5c77"]
)
def test_nobody_is_a_node_of_a_join_that_is_not_known(other: str, joins: Joins, certificate: str) -> None:
    assert not joins.over_tls(other, certificate)


def test_the_certificates_name_is_not_what_counts(joins: Joins, key: Key, join_id: str) -> None:
    again = joins.add(key)
    assert joins.over_tls(again, joins.issue(key, join_id))


def test_a_certificate_counts_while_it_is_valid_however_old_the_connection_is(founder: Authority, key: Key) -> None:
    joins = Joins(founder)
    join_id = joins.add(key)
    issued = joins.issue(key, join_id)
    began = joins.now
    for after, counts in ((-301, False), (-299, True), (0, True), (86_398, True), (86_401, False), (0, True)):
        joins.now = began + after
        assert joins.over_tls(join_id, issued) == counts, after
        assert joins.handed_on(join_id, sequence(issued)) == counts, after


def test_a_certificate_of_another_authority_counts_for_nothing(
    stranger: Authority, joins: Joins, key: Key, join_id: str
) -> None:
    forged = stranger.issue(key.public_key(), join_id, int(joins.now) * 1000 + DAY)
    assert not joins.over_tls(join_id, forged)
    assert not joins.handed_on(join_id, sequence(forged))


def test_another_authority_of_the_same_name_is_found_out(joins: Joins, key: Key, join_id: str) -> None:
    namesake = Authority(joins.founder.certificate, authority.new_key())
    assert not joins.handed_on(
        join_id, sequence(namesake.issue(key.public_key(), join_id, int(joins.now) * 1000 + DAY))
    )


def test_a_certificate_for_servers_and_the_authoritys_own_count_for_nothing(joins: Joins) -> None:
    server = authority.new_key()
    for owner, pem in (
        (server, authority.certificate_to_pem(authority.server_certificate(joins.founder, server)).decode()),
        (joins.founder.key, joins.founder.pem),
        (server, certificate_by(joins.founder, server, "server", usage=ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE)),
    ):
        join_id = joins.add(owner)
        assert not joins.over_tls(join_id, pem)
        assert not joins.handed_on(join_id, sequence(pem))


def test_one_that_is_not_valid_yet_counts_for_nothing(joins: Joins, key: Key, join_id: str) -> None:
    early = certificate_by(joins.founder, key, join_id, begins=timedelta(hours=1))
    assert not joins.over_tls(join_id, early)


@pytest.mark.parametrize(
    ("client", "counts"),
    [
        (PROXY, True),
        ("2001:db8::1", True),
        ("::ffff:192.0.2.7", True),
        ("192.0.2.8", False),
        ("127.0.0.1", False),
        ("::1", False),
        ("", False),
        ("unix", False),
    ],
)
def test_a_header_counts_from_a_trusted_proxy_alone(
    client: str, counts: bool, joins: Joins, join_id: str, certificate: str
) -> None:
    assert joins.handed_on(join_id, sequence(certificate), client=client) == counts


def test_a_header_of_anyone_else_does_not_even_hide_the_certificate_of_the_handshake(
    joins: Joins, join_id: str, certificate: str
) -> None:
    others = authority.new_key()
    its = joins.add(others)
    forged = [(b"client-cert", sequence(joins.issue(others, its)))]
    assert joins.ask(join_id, forged, chain=[certificate])
    assert not joins.ask(its, forged, chain=[certificate])


def test_a_header_of_a_proxy_stands_for_the_certificate_that_the_proxy_itself_showed(
    joins: Joins, join_id: str, certificate: str
) -> None:
    proxys = authority.new_key()
    its = joins.add(proxys)
    shown = [joins.issue(proxys, its)]
    handed_on = [(b"client-cert", sequence(certificate))]
    assert joins.ask(join_id, handed_on, client=PROXY, chain=shown)
    assert not joins.ask(its, handed_on, client=PROXY, chain=shown)
    assert not joins.ask(its, [(b"client-cert", b"")], client=PROXY, chain=shown)
    assert joins.ask(its, client=PROXY, chain=shown)


def test_a_header_that_comes_twice_counts_for_nothing(joins: Joins, join_id: str, certificate: str) -> None:
    value = sequence(certificate)
    assert not joins.handed_on(join_id, value, value)
    assert not joins.handed_on(join_id, value, b"")
    assert not joins.handed_on(join_id, value + b", " + value)


@pytest.mark.parametrize(
    "form",
    [
        b"",
        b":",
        b"::",
        b":%b",
        b"%b:",
        b"%b",
        b'"%b"',
        b" :%b:",
        b":%b: ",
        b":%b:;a=1",
        b":%b::",
        b":%b=:",
        b":%b====:",
        b":=%b:",
        b":%bA:",
        b":%bAAAA:",
        b":AAAA%b:",
        b":%b\xff:",
        b":%b\x00:",
        b":\n%b:",
        b":-%b:",
        b"?%b?",
        b":%%2B%b:",
        b":-----BEGIN CERTIFICATE-----%b-----END CERTIFICATE-----:",
    ],
)
def test_a_header_of_another_form_counts_for_nothing(form: bytes, joins: Joins, join_id: str, certificate: str) -> None:
    inner = sequence(certificate).strip(b":")
    assert joins.handed_on(join_id, b":%b:" % inner)
    assert not joins.handed_on(join_id, form % inner if b"%b" in form else form)


def test_whatever_bytes_a_header_holds_they_are_no_fault(joins: Joins, join_id: str, certificate: str) -> None:
    der = x509.load_pem_x509_certificate(certificate.encode()).public_bytes(Encoding.DER)
    chance = random.Random(0)
    for _ in range(2000):
        changed = bytearray(der)
        for _ in range(chance.randint(1, 3)):
            changed[chance.randrange(len(changed))] ^= chance.randrange(1, 256)
        joins.handed_on(join_id, b":%b:" % base64.b64encode(changed))
        joins.handed_on(join_id, chance.randbytes(chance.randint(1, 80)))


def test_text_that_is_no_certificate_is_none(founder: Authority) -> None:
    for text in ("", "x", "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n", "\N{SNOWMAN}", "\ud800"):
        assert read_certificate(founder, text) is None


def test_what_a_proxy_hands_on_does_not_stay_in_memory_but_for_what_may_be_a_certificate(
    joins: Joins, join_id: str, certificate: str
) -> None:
    chance = random.Random(0)
    asking = [b":%b:" % base64.b64encode(chance.randbytes(45_000)) for _ in range(100)]
    tracemalloc.start()
    try:
        for each in asking:
            assert not joins.handed_on(join_id, each)
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
    assert joins.handed_on(join_id, sequence(certificate))


def test_the_longest_certificate_that_the_authority_signs_is_read(joins: Joins, join_id: str) -> None:
    longest = rsa.RSAPublicNumbers(65537, 2**8191 + 1).public_key()
    pem = joins.founder.issue(longest, join_id, int(joins.now) * 1000 + DAY)
    assert read_certificate(joins.founder, pem) is not None
    assert len(pem) <= LONGEST

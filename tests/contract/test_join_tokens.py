from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.support import wire
from tests.support.contract import check
from tests.support.gatehouse import Gatehouse
from tests.support.nodes import JSON, REGISTRATIONS, Key, Node, authority_of, request_of, step
from tests.support.wire import Answer
from tools.authority import new_key

UNAUTHENTICATED: Final = (401, "UNAUTHENTICATED")
INVALID: Final = (400, "INVALID_INPUT")
UNKNOWN: Final = "019d9079-e78a-7c31-8f02-6b1d4e9a5c77"


def rows(server: Gatehouse) -> int:
    with server.database() as database:
        count: int = database.execute("SELECT count(*) FROM joins").fetchone()[0]
        return count


def with_credential(node: Node, *values: str | bytes) -> Answer:
    """Register with whatever stands in Authorization."""
    fields: list[tuple[str, str | bytes]] = [*JSON.items(), *(("Authorization", value) for value in values)]
    return node.server.send_join("POST", REGISTRATIONS, fields, json.dumps(node.request()).encode())


def expire(server: Gatehouse, minted: Any) -> None:
    """Let a token expire now: none is good for less than a minute."""
    with server.database() as database:
        hashed = f"sha256:{hashlib.sha256(minted['token'].partition('.')[0].encode()).hexdigest()}"
        done = database.execute("UPDATE join_tokens SET expires_at = 1 WHERE secret_hash = ?", [hashed])
        assert done.rowcount == 1


def test_a_token_is_two_parts_of_which_the_second_pins_the_authority(founder: Gatehouse) -> None:
    before = datetime.now(UTC)
    minted = founder.mint(name="rack 4, top", ttlSeconds=60)
    secret, _, pin = minted["token"].partition(".")
    spki = authority_of(founder).key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    digest = hashlib.sha256(spki).digest()
    assert base64.urlsafe_b64decode(f"{pin}=") == digest
    assert minted["caFingerprint"] == f"sha256:{digest.hex()}"
    assert len(base64.urlsafe_b64decode(f"{secret}=")) == 32
    life = datetime.fromisoformat(minted["expiresAt"]) - before
    assert timedelta(seconds=59) < life < timedelta(seconds=90)
    with founder.database() as database:
        assert secret not in "\n".join(database.iterdump())
    assert secret not in founder.log
    assert secret not in (founder.state / "audit.jsonl").read_text()


def test_a_token_is_minted_for_a_minute_to_a_week(founder: Gatehouse) -> None:
    goods: list[dict[str, Any]] = [{}, {"ttlSeconds": 60}, {"ttlSeconds": 604_800}, {"name": "x" * 64}]
    for good in goods:
        assert founder.mint(**good)["tokenId"]
    bads: list[Any] = [
        {"ttlSeconds": 59},
        {"ttlSeconds": 604_801},
        {"ttlSeconds": 60.0},
        {"ttlSeconds": "60"},
        {"ttlSeconds": True},
        {"name": ""},
        {"name": "x" * 65},
        {"more": 1},
        [],
    ]
    for bad in bads:
        answer = founder.operate("POST", "/v1/join/tokens", bad)
        assert answer.outcome == INVALID, bad
        assert answer.json["errors"], bad


def test_the_whole_token_is_understood_and_so_is_its_secret(founder: Gatehouse) -> None:
    for end in (None, 43):
        node = Node(founder)
        assert node.register(founder.mint()["token"][:end]).status == 201
        node.leave()


def test_every_token_that_cannot_be_used_is_refused_alike(founder: Gatehouse) -> None:
    spender, stranger = Node.registered(founder), Node(founder)
    expired, revoked, good = founder.mint(), founder.mint(), founder.mint()
    expire(founder, expired)
    assert founder.revoke(revoked["tokenId"]).status == 204
    before = rows(founder)
    secret = good["token"].partition(".")[0]
    refused = {
        "spent by another key": [f"Bearer {spender.minted['token']}"],
        "expired": [f"Bearer {expired['token']}"],
        "revoked": [f"Bearer {revoked['token']}"],
        "unknown": [f"Bearer {'A' * 43}.{good['token'].partition('.')[2]}"],
        "in other letters": [f"Bearer {good['token'].swapcase()}"],
        "cut off": [f"Bearer {secret[:-1]}"],
        "with the pin of another authority alone": [f"Bearer .{good['token'].partition('.')[2]}"],
        "of the operator": list(founder.operator.values()),
        "none": [],
        "empty": [""],
        "without a scheme": [good["token"]],
        "of another scheme": [f"Basic {good['token']}"],
        "beyond ASCII": [b"Bearer caf\xe9"],
        "twice": [f"Bearer {good['token']}"] * 2,
        "the id": [f"Bearer {good['tokenId']}"],
    }
    answers = {name: with_credential(stranger, *values) for name, values in refused.items()}
    assert {answer.outcome for answer in answers.values()} == {UNAUTHENTICATED}, answers
    assert len({str(answer.bare) for answer in answers.values()}) == 1
    assert rows(founder) == before
    assert "Traceback" not in founder.log
    assert stranger.register(good["token"]).status == 201
    stranger.leave()
    spender.leave()


def test_a_token_with_its_key_gets_its_registration_again_while_the_join_lives(founder: Gatehouse) -> None:
    node = Node.registered(founder)
    token, first = node.minted["token"], node.certificate
    expire(founder, node.minted)
    again = node.register(token, name="another", role="storage", address="other.example")
    assert again.status == 200
    assert (again.json["joinId"], again.json["state"], again.json["position"]) == (node.join_id, "pending", None)
    assert node.certificate != first
    assert node.registration().json["name"] != "another"
    node.approved()
    assert node.register(token).json["position"] == 0
    node.leave()
    assert node.register(token).outcome == UNAUTHENTICATED


def test_a_token_that_is_revoked_is_refused_to_the_key_that_spent_it(founder: Gatehouse) -> None:
    node = Node.registered(founder)
    assert founder.revoke(node.minted["tokenId"]).status == 204
    assert founder.revoke(node.minted["tokenId"]).status == 204
    assert node.register(node.minted["token"]).outcome == UNAUTHENTICATED
    assert node.registration().status == 200
    node.leave()


def test_an_unknown_token_is_not_revoked(founder: Gatehouse) -> None:
    for token_id in (UNKNOWN, "no-uuid", founder.mint()["token"]):
        assert founder.revoke(token_id).outcome == (404, "NOT_FOUND")


def test_a_registration_that_is_refused_does_not_spend_its_token(founder: Gatehouse) -> None:
    there, node, token = Node.registered(founder, name="there"), Node(founder), founder.mint()["token"]
    for _ in range(2):
        assert node.register(token, csr="no request").outcome == INVALID
        assert node.register(token, role=None).outcome == INVALID
        assert node.register(token, name="there").outcome == (409, "JOIN_NAME_TAKEN")
    assert Node(founder).register(token, role="other").outcome == INVALID
    assert node.register(token).status == 201
    node.leave()
    there.leave()


def test_a_token_that_twenty_nodes_use_at_once_is_spent_by_one(founder: Gatehouse) -> None:
    before, token = rows(founder), founder.mint()["token"]
    answers = at_once([Node(founder) for _ in range(20)], token)
    assert Counter(answer.outcome for answer in answers) == {(201, ""): 1, UNAUTHENTICATED: 19}
    assert rows(founder) == before + 1


def test_a_node_that_registers_twenty_times_at_once_is_registered_once(founder: Gatehouse) -> None:
    before, token, node = rows(founder), founder.mint()["token"], Node(founder)
    answers = at_once([node] * 20, token)
    assert Counter(answer.status for answer in answers) == {201: 1, 200: 19}
    assert len({answer.json["joinId"] for answer in answers}) == 1
    assert rows(founder) == before + 1


def at_once(nodes: list[Node], token: str) -> list[Answer]:
    fields = JSON | {"Authorization": f"Bearer {token}"}
    requests = [wire.message("POST", REGISTRATIONS, fields, json.dumps(node.request()).encode()) for node in nodes]
    answers = wire.send_at_once(nodes[0].server.join_port, requests, nodes[0].server.wrap())
    for answer in answers:
        check("POST", REGISTRATIONS, answer, "join")
    return answers


# Certificates.

KEYS: Final[dict[str, Key]] = {
    "EC P-256": new_key(),
    "Ed25519": ed25519.Ed25519PrivateKey.generate(),
    "RSA of 2,048 bits": rsa.generate_private_key(65537, 2048),
}


@pytest.mark.parametrize("name", KEYS)
def test_a_certificate_is_issued_for_the_key_and_takes_nothing_else_of_the_request(
    name: str, founder: Gatehouse
) -> None:
    key = KEYS[name]
    greedy = [
        x509.BasicConstraints(ca=True, path_length=9),
        x509.SubjectAlternativeName([x509.DNSName("founder.example")]),
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
    ]
    node = Node.registered(founder, key, csr=request_of(key, "founder.example", greedy))
    certificate = x509.load_pem_x509_certificate(node.certificate.encode())
    assert certificate.public_key() == key.public_key()
    assert [each.value for each in certificate.subject] == [node.join_id]
    assert certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    with pytest.raises(x509.ExtensionNotFound):
        certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    now = datetime.now(UTC)
    assert certificate.not_valid_before_utc < now - timedelta(minutes=4)
    assert now + timedelta(days=6) < certificate.not_valid_after_utc < now + timedelta(days=7)
    certificate.verify_directly_issued_by(authority_of(founder).certificate)
    shown = datetime.fromisoformat(founder.registration(node.join_id)["certificateExpiresAt"])
    assert shown == certificate.not_valid_after_utc
    assert node.renew().status == 200
    assert node.registration().status == 200
    node.leave()


def test_a_request_that_does_not_prove_a_strong_key_is_refused_at_its_field(founder: Gatehouse) -> None:
    whole = request_of(new_key())
    head, *middle, foot = whole.splitlines()
    tampered = base64.b64decode("".join(middle))
    signature = tampered[:-4] + bytes([tampered[-4] ^ 1]) + tampered[-3:]
    bad = {
        "of no kind": "no request",
        "of a certificate": founder.ca_file.read_text(),
        "cut off": whole[:-40],
        "twice": whole + whole,
        "signed by another key": "\n".join([head, base64.b64encode(signature).decode(), foot]),
        "EC P-384": request_of(ec.generate_private_key(ec.SECP384R1())),
        "RSA of 1,024 bits": request_of(rsa.generate_private_key(65537, 1024)),  # noqa: S505 - it is to be refused.
    }
    node, token = Node(founder), founder.mint()["token"]
    for name, csr in bad.items():
        answer = node.register(token, csr=csr)
        assert answer.outcome == INVALID, name
        assert [error["field"] for error in answer.json["errors"]] == ["csr"], name
    assert node.register(token).status == 201
    for name, csr in bad.items():
        answer = node.post(f"{node.path}/certificate", {"csr": csr})
        assert answer.outcome == INVALID, name
        assert [error["field"] for error in answer.json["errors"]] == ["csr"], name
    node.leave()


def test_a_node_that_has_joined_renews_its_certificate_and_one_that_failed_does_not(founder: Gatehouse) -> None:
    joined = Node.in_turn(founder)
    joined.finish()
    assert joined.renew().status == 200
    assert joined.registration().json["state"] == "joined"
    failed = Node.in_turn(founder)
    assert failed.report(step("services", "failed")).status == 204
    answer = failed.renew()
    assert answer.outcome == (409, "JOIN_ENDED")
    assert answer.json["details"] == {"state": "failed", "position": None}
    assert failed.registration().json["state"] == "failed"


def test_what_a_node_is_is_told_field_by_field(founder: Gatehouse) -> None:
    node, token = Node(founder), founder.mint()["token"]
    faults: list[tuple[dict[str, Any], str]] = [
        ({"name": ""}, "name"),
        ({"name": "-node"}, "name"),
        ({"name": "no de"}, "name"),
        ({"name": "x" * 64}, "name"),
        ({"name": "node\u0000"}, "name"),
        ({"name": "nöde"}, "name"),
        ({"role": "Compute"}, "role"),
        ({"address": ""}, "address"),
        ({"address": "10.0.0.1:2380"}, "address"),
        ({"address": "[::1]"}, "address"),
        ({"address": "https://node.example"}, "address"),
        ({"peerUrls": []}, "peerUrls"),
        ({"peerUrls": ["https://node.example"]}, "peerUrls[0]"),
        ({"peerUrls": ["https://node.example:2380", "ftp://node.example:2380"]}, "peerUrls[1]"),
        ({"more": 1}, ""),
    ]
    for changes, field in faults:
        answer = node.register(token, **changes)
        assert answer.outcome == INVALID, changes
        assert any(error["field"].startswith(field) for error in answer.json["errors"]), (changes, answer.json)
    for number, address in enumerate(("10.20.0.7", "::1", "2001:db8::7", "node-7.example", "NODE")):
        known = Node.registered(founder, name=f"address-{number}", address=address)
        assert known.registration().json["address"] == address
        known.leave()

from __future__ import annotations

import asyncio
import uuid
from datetime import datetime, timedelta

import pytest
from cryptography import x509

from handlers.gateway.endpoint import UNAUTHENTICATED
from tests.handlers.join.house import RAFT, REGISTRATIONS, Answer, House, Node, errors, newcomer, outcome
from tests.support.nodes import request_of
from tools.authority import new_key

pytestmark = pytest.mark.anyio

UNKNOWN = "019d9079-e78a-7c31-8f02-6b1d4e9a5c77"
REFUSED = (401, "UNAUTHENTICATED")
CONFLICT = (409, "JOIN_STATE_CONFLICT")
TAKEN = (409, "JOIN_NAME_TAKEN")
PLAN = [RAFT, "services", "complete"]


def time_of(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def test_a_newcomer_gets_a_certificate_for_its_key_and_waits(house: House) -> None:
    key = new_key()
    answer = await house.register(await house.mint(), newcomer(key))
    told = answer.json()
    certificate = x509.load_pem_x509_certificate(told["certificate"].encode())
    assert answer.status_code == 201
    assert (told["state"], told["position"]) == ("pending", None)
    assert certificate.public_key() == key.public_key()
    assert certificate.subject.rfc4514_string() == f"CN={told['joinId']}"
    assert certificate.not_valid_after_utc == time_of(told["certificateExpiresAt"])
    assert told["caCertificate"] == house.app.authority.pem
    assert uuid.UUID(told["joinId"]).version == 7
    registered_at = time_of((await house.registration(told["joinId"]))["registeredAt"])
    assert time_of(told["expiresAt"]) - registered_at == timedelta(hours=24)
    assert timedelta(days=7) - timedelta(seconds=1) < time_of(told["certificateExpiresAt"]) - registered_at
    assert time_of(told["certificateExpiresAt"]) - registered_at <= timedelta(days=7)


async def test_a_registration_is_shown_whole_to_the_operator_and_to_the_node(house: House) -> None:
    node = await Node.registered(house, "node-7", role="storage", address="2001:db8::7")
    seen = await house.registration(node.join_id)
    assert seen | {"registeredAt": "", "certificateExpiresAt": ""} == {
        "joinId": node.join_id,
        "name": "node-7",
        "role": "storage",
        "address": "2001:db8::7",
        "state": "pending",
        "position": None,
        "plan": PLAN,
        "steps": [
            {"step": step, "status": "waiting", "message": None, "startedAt": None, "endedAt": None} for step in PLAN
        ],
        "rafts": [
            {"name": "control", "kind": "ledger", "state": "absent", "memberId": None, "peers": [], "error": None}
        ],
        "registeredAt": "",
        "approvedAt": None,
        "turnStartedAt": None,
        "endedAt": None,
        "failure": None,
        "certificateExpiresAt": "",
    }
    assert (await node.send("GET", node.path)).json() == seen
    assert (await node.send("GET", node.path.upper().replace("/V1/JOIN/REGISTRATIONS", REGISTRATIONS))).json() == seen


async def test_a_node_sees_no_join_but_its_own(house: House) -> None:
    node, other = await Node.registered(house, "node-1"), await Node.registered(house, "node-2")
    answers = [await node.send("GET", path) for path in (other.path, f"{REGISTRATIONS}/{UNKNOWN}")]
    node.certificate = ""
    answers += [await node.send("GET", path) for path in (node.path, f"{REGISTRATIONS}/no-uuid")]
    assert [answer.status_code for answer in answers] == [404] * 4
    assert len({without_request_id(answer) for answer in answers}) == 1


def without_request_id(answer: Answer) -> str:
    """Return an answer's content and headers, but for the id of the request."""
    request_id = answer.headers["X-Request-Id"]
    return (answer.text + str(sorted(answer.headers.items()))).replace(request_id, "")


async def test_the_operator_finds_no_join_that_there_is_not(house: House) -> None:
    for path in (UNKNOWN, f"{UNKNOWN}/log", "no-uuid", "no-uuid/log", "%00", "%ff/log"):
        assert outcome(await house.operate("GET", f"{REGISTRATIONS}/{path}")) == (404, "NOT_FOUND"), path


async def test_the_same_key_with_the_same_token_gets_its_own_registration_again(house: House) -> None:
    key, token = new_key(), await house.mint()
    first = await house.register(token, newcomer(key))
    assert (await house.approve(first.json()["joinId"])).status_code == 200
    again = await house.register(token, newcomer(key, "another-name", role="control"))
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["joinId"] == first.json()["joinId"]
    assert (again.json()["state"], again.json()["position"]) == ("joining", 0)
    assert again.json()["certificate"] != first.json()["certificate"]
    assert (await house.registration(first.json()["joinId"]))["name"] == "node-1"


async def test_a_token_is_spent_once_whoever_comes_with_it_at_the_same_time(house: House) -> None:
    token = await house.mint()
    answers = await asyncio.gather(
        *(house.register(token, newcomer(new_key(), f"node-{number}")) for number in range(8))
    )
    assert sorted(answer.status_code for answer in answers) == [201] + [401] * 7
    assert len((await house.operate("GET", REGISTRATIONS)).json()["registrations"]) == 1


async def test_every_refusal_of_a_token_is_the_same(house: House) -> None:
    spent, ended = await house.mint(), await house.mint()
    key = new_key()
    assert (await house.register(spent, newcomer(new_key()))).status_code == 201
    join_id = (await house.register(ended, newcomer(key, "node-2"))).json()["joinId"]
    assert (await house.reject(join_id)).status_code == 200
    answers = [
        await house.register(spent, newcomer(new_key())),
        await house.register(ended, newcomer(key, "node-2")),
        await house.register("unknown", newcomer(key)),
        await house.register("unknown", []),
    ]
    assert [outcome(answer) for answer in answers] == [REFUSED] * 4
    assert len({without_request_id(answer) for answer in answers}) == 1
    assert answers[0].headers["WWW-Authenticate"] == 'Bearer realm="join"'
    assert answers[0].json()["detail"] == UNAUTHENTICATED


async def test_a_registration_that_is_refused_does_not_spend_the_token(house: House) -> None:
    await Node.registered(house, "taken")
    key, token = new_key(), await house.mint()
    for value, expected in (
        (newcomer(key, "taken"), TAKEN),
        (newcomer(key, csr="none"), (400, "INVALID_INPUT")),
        (newcomer(key, role="none"), (400, "INVALID_INPUT")),
        (newcomer(key, extra=1), (400, "INVALID_INPUT")),
    ):
        assert outcome(await house.register(token, value)) == expected
    assert (await house.register(token, newcomer(new_key(), "free"))).status_code == 201


async def test_a_name_is_free_again_after_the_join_that_had_it(house: House) -> None:
    node = await Node.registered(house, "node-1")
    assert (await house.reject(node.join_id)).status_code == 200
    assert (await Node.registered(house, "node-1")).join_id != node.join_id


async def test_a_request_that_proves_no_key_is_refused_before_the_token_is_judged(house: House) -> None:
    token, value = await house.mint(), newcomer(new_key())
    assert (await house.register(token, value)).status_code == 201
    broken = await house.register(token, value | {"csr": value["csr"] + "x"})
    assert errors(broken) == [("csr", "is not one certificate request in PEM and nothing else")]


async def test_joins_are_listed_oldest_first_and_by_state(house: House) -> None:
    nodes = [await Node.registered(house, f"node-{number}") for number in range(3)]
    assert (await house.approve(nodes[1].join_id)).status_code == 200
    for query, expected in (
        ("", [0, 1, 2]),
        ("?state=pending", [0, 2]),
        ("?state=joining", [1]),
        ("?state=expired", []),
        ("?limit=2", [0, 1]),
        ("?state=pending&limit=1", [0]),
    ):
        found = (await house.operate("GET", REGISTRATIONS + query)).json()["registrations"]
        assert [each["joinId"] for each in found] == [nodes[number].join_id for number in expected], query


@pytest.mark.parametrize(
    "query", ["state=none", "state=", "limit=0", "limit=501", "limit=x", "state=pending&state=pending"]
)
async def test_a_list_that_is_not_asked_for_as_documented_is_refused(query: str, house: House) -> None:
    assert errors(await house.operate("GET", f"{REGISTRATIONS}?{query}"))


async def test_approved_joins_wait_in_order_and_approving_again_changes_nothing(house: House) -> None:
    nodes = [await Node.registered(house, f"node-{number}") for number in range(3)]
    for position in (0, 1, 2):
        answer = await house.approve(nodes[position].join_id)
        told = answer.json()
        assert (told["state"], told["position"]) == ("approved" if position else "joining", position)
    again = [(await house.approve(node.join_id, role="control")).json() for node in nodes]
    assert [(each["role"], each["position"]) for each in again] == [("compute", 0), ("compute", 1), ("compute", 2)]
    assert house.turns.woken == 6


async def test_an_approval_may_say_role_and_address_unless_another_live_join_has_them(house: House) -> None:
    first, second = await Node.registered(house, "node-1"), await Node.registered(house, "node-2", role="control")
    refused = await house.approve(second.join_id, role="compute", address="node-1.example")
    assert outcome(refused) == (409, "JOIN_APPROVAL_REFUSED")
    assert [error["field"] for error in refused.json()["errors"]] == ["role", "address"]
    assert (await house.registration(second.join_id))["state"] == "pending"
    assert (await house.reject(first.join_id)).status_code == 200
    told = (await house.approve(second.join_id, role="compute", address="node-1.example")).json()
    assert (told["state"], told["role"], told["address"]) == ("joining", "compute", "node-1.example")


async def test_before_its_turn_a_join_is_rejected_and_in_its_turn_it_fails(house: House) -> None:
    joining, approved, pending = [await Node.registered(house, f"node-{number}") for number in range(3)]
    for node in (joining, approved):
        assert (await house.approve(node.join_id)).status_code == 200
    for node, state in ((pending, "rejected"), (approved, "rejected"), (joining, "failed")):
        woken = house.turns.woken
        told = (await house.reject(node.join_id, "wrong disks\0")).json()
        assert (told["state"], told["failure"]) == (state, {"step": None, "reason": "wrong disks\0"})
        assert told["endedAt"]
        assert house.turns.woken == woken + 1
        assert outcome(await house.reject(node.join_id)) == CONFLICT
        assert outcome(await house.approve(node.join_id)) == CONFLICT


async def test_a_join_that_there_is_not_is_neither_approved_nor_rejected(house: House) -> None:
    for join_id in (UNKNOWN, "no-uuid"):
        assert outcome(await house.approve(join_id)) == (404, "NOT_FOUND")
        assert outcome(await house.reject(join_id)) == (404, "NOT_FOUND")
    assert house.turns.woken == 0


async def test_a_node_renews_its_certificate_for_the_same_key(house: House) -> None:
    node = await Node.registered(house)
    answer = await node.renew()
    told = answer.json()
    certificate = x509.load_pem_x509_certificate(told["certificate"].encode())
    assert answer.status_code == 200
    assert told.keys() == {"certificate", "caCertificate", "certificateExpiresAt"}
    assert certificate.public_key() == node.key.public_key()
    assert certificate.not_valid_after_utc == time_of(told["certificateExpiresAt"])
    node.certificate = told["certificate"]
    assert (await node.send("GET", node.path)).json()["certificateExpiresAt"] == told["certificateExpiresAt"]


async def test_a_certificate_is_not_renewed_for_another_key_or_none(house: House) -> None:
    node = await Node.registered(house)
    assert outcome(await node.renew(request_of(new_key()))) == (409, "JOIN_KEY_MISMATCH")
    assert [field for field, _ in errors(await node.renew("none"))] == ["csr"]


async def test_after_the_end_a_node_sees_its_join_and_has_its_certificate_renewed_no_more(house: House) -> None:
    node = await Node.registered(house)
    assert (await house.reject(node.join_id)).status_code == 200
    refused = await node.renew()
    assert outcome(refused) == (409, "JOIN_ENDED")
    assert refused.json()["details"] == {"state": "rejected", "position": None}
    assert (await node.send("GET", node.path)).json()["state"] == "rejected"

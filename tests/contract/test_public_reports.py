"""Faults that were reported of servers like this one, by their numbers in the project's collection of such reports."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

import httpx
import pytest
import rfc8785

from tests.support import wire
from tests.support.contract import check
from tests.support.deliveries import PATH, Delivery, envelope
from tests.support.gatehouse import Gatehouse, NewServer
from tests.support.inprocess import listener_of
from tests.support.wire import Answer, Wire

START: Final = b'{"flow":"case-follow-up","input":{"caseId":"C-1"}}'


# Case 1: a body that comes in chunks.


def test_a_body_in_chunks_is_the_body_that_it_makes(server: Gatehouse) -> None:
    delivery = Delivery()
    run = server.deliver(delivery).run
    key = delivery.body.index(b"recordReference") + 6
    for chunks in (
        [delivery.body],
        [delivery.body[:key], delivery.body[key:]],
        [bytes([one]) for one in delivery.body],
    ):
        assert server.deliver(delivery, chunks=chunks).run == run


def test_a_new_event_may_come_in_chunks_that_arrive_one_by_one(server: Gatehouse) -> None:
    delivery = Delivery()
    key = delivery.body.index(b"recordReference") + 6
    request = wire.message(
        "POST", PATH, delivery.headers(server.key), chunks=[delivery.body[:key], delivery.body[key:]]
    )
    with Wire(server.port) as connection:
        for end in range(0, len(request), 97):
            connection.write(request[end : end + 97])
        answer = connection.read()
    check("POST", PATH, answer)
    assert answer.run == server.deliver(delivery).run


def test_the_limit_of_a_body_holds_for_its_chunks_together(server: Gatehouse) -> None:
    chunks = [b" " * 65_536] * 16
    assert server.deliver(Delivery(body=b"".join(chunks)), chunks=chunks).outcome == (400, "event.invalid")
    chunks.append(b" ")
    answer = server.deliver(Delivery(body=b"".join(chunks)), chunks=chunks)
    assert answer.outcome == (413, "request.body-too-large")


def test_the_signature_is_over_the_chunks_together(server: Gatehouse) -> None:
    delivery = Delivery()
    assert server.deliver(delivery, chunks=[delivery.body, b" "]).outcome == (401, "event.unauthenticated")


def test_a_run_may_be_started_by_a_body_in_chunks(server: Gatehouse) -> None:
    fields = server.operator | {"Content-Type": "application/json", "Idempotency-Key": "a start in chunks"}
    assert server.send("POST", "/v1/runs", fields, chunks=[START[:9], START[9:]]).status == 201
    assert server.send("POST", "/v1/runs", fields, START).status == 200


# Case 2: the letter case of media types.


@pytest.mark.parametrize(
    "media_type",
    [
        "Application/JSON",
        "application/json;charset=UTF-8",
        "application/json ; charset=utf-8",
        'APPLICATION/json; a="text/plain"',
    ],
)
def test_a_media_type_is_compared_without_regard_to_case_and_parameters(media_type: str, server: Gatehouse) -> None:
    kind = {"Content-Type": media_type}
    assert server.deliver(Delivery(changes=kind)).status == 204
    broken = Delivery(body=rfc8785.dumps(envelope(subject={})), changes=kind)
    assert server.deliver(broken).outcome == (400, "event.invalid")


@pytest.mark.parametrize(
    "media_type",
    [
        "text/plain",
        "text/plain; a=application/json",
        "text/plain, application/json",
        "application/json, text/plain",
        "application/jsonx",
        "application/problem+json",
        "json",
        "application/",
        "*/*",
    ],
)
def test_another_media_type_is_refused_whatever_its_parameters(media_type: str, server: Gatehouse) -> None:
    kind = {"Content-Type": media_type}
    assert server.deliver(Delivery(changes=kind)).outcome == (400, "request.invalid")
    fields = server.operator | kind | {"Idempotency-Key": "never used"}
    answer = server.send("POST", "/v1/runs", fields, START)
    assert answer.outcome == (415, "request.unsupported-media-type")


def test_an_encoded_body_is_a_wrong_media_type(server: Gatehouse) -> None:
    assert server.deliver(unsigned={"Content-Encoding": "gzip"}).outcome == (400, "request.invalid")
    assert server.deliver(unsigned={"Content-Encoding": "Identity"}).status == 204


# Case 3: JSON that is not UTF-8.


@pytest.mark.parametrize("body", [b'{"k":"\xff"}', b'{"k":"\xc0\xaf"}', b'{"k":"\xe2\x82', b'\xef\xbb\xbf{"k":1}'])
def test_a_body_that_is_not_utf_8_is_refused_and_leaves_nothing(body: bytes, server: Gatehouse) -> None:
    event = envelope()
    before = server.rows()
    assert server.deliver(Delivery(event=event, body=body)).outcome == (400, "event.invalid")
    fields = server.operator | {"Content-Type": "application/json", "Idempotency-Key": f"not UTF-8 {body!r}"}
    assert server.send("POST", "/v1/runs", fields, body).outcome == (400, "request.invalid")
    assert server.rows() == before
    assert server.deliver(Delivery(event=event)).status == 204
    assert server.send("POST", "/v1/runs", fields, START).status == 201


# Case 5: what Python takes for a number and nobody else does.

NO_NUMBERS: Final = ["1_7", "-0", "+1", "01", "1.0", "1e1", "0x1", "1 7", "0", "12345678901234567890", "one"]


@pytest.mark.parametrize("name", ["X-Registry-Delivery-Attempt", "X-Registry-Event-Generation"])
@pytest.mark.parametrize("text", NO_NUMBERS)
def test_a_header_is_a_number_in_its_one_form_only(name: str, text: str, server: Gatehouse) -> None:
    assert server.deliver(Delivery(changes={name: text})).outcome == (400, "request.invalid")


@pytest.mark.parametrize("text", ["1_7", "-0", "+1", "1"])
def test_a_delivery_time_is_no_number(text: str, server: Gatehouse) -> None:
    answer = server.deliver(Delivery(changes={"X-Registry-Delivery-Time": text}))
    assert answer.outcome == (401, "event.unauthenticated")


@pytest.mark.parametrize(
    "text", ["1_000", "1_0", "%2B1", "+1", "%201", "1%20", "%D9%A3", "01", "1.0", "-0", "-1", "0", "101", "", "9" * 30]
)
def test_a_query_is_a_number_in_its_one_form_only(text: str, server: Gatehouse) -> None:
    answer = server.operate("GET", f"/v1/runs?limit={text}")
    assert answer.outcome == (400, "request.limit-out-of-range")


@pytest.mark.parametrize("text", ["+5", "1_0", "-0", "5 5", "0x5", "5,6", "\u00b3".encode("latin-1")])
def test_a_content_length_is_a_number_in_its_one_form_only(text: str | bytes, server: Gatehouse) -> None:
    answer = wire.send(server.port, wire.message("POST", PATH, {"Content-Length": text}) + b"12345")
    assert answer.outcome == (400, "request.invalid")


# Case 8: times that one part takes and another does not.


@pytest.mark.parametrize(
    "time",
    [
        "2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05.1Z",
        "2026-01-02T03:04:05.12Z",
        "2026-01-02T03:04:05.123Z",
        "2026-01-02T03:04:05.003Z",
        "2024-02-29T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999Z",
    ],
)
def test_a_time_in_its_wire_form_is_taken(time: str, server: Gatehouse) -> None:
    assert server.deliver(Delivery(event=envelope(time=time))).status == 204


@pytest.mark.parametrize(
    ("time", "code"),
    [
        ("2026-01-02t03:04:05z", "event.invalid"),
        ("2026-01-02T03:04:05z", "event.invalid"),
        ("2016-12-31T23:59:60Z", "event.invalid"),
        ("2026-01-02T03:04:60Z", "request.invalid"),
        ("0000-01-01T00:00:00Z", "event.invalid"),
        ("2026-01-02T03:04:05.123456789012Z", "event.invalid"),
        ("2026-01-02T03:04:05.1234Z", "event.invalid"),
        ("2026-01-02T03:04:05.120Z", "event.invalid"),
        ("2026-01-02T03:04:05.Z", "request.invalid"),
        ("2026-01-02T03:04:05-00:00", "event.invalid"),
        ("2026-01-02T03:04:05+00:00", "event.invalid"),
        ("2026-01-02T03:04:05+24:00", "request.invalid"),
        ("2026-01-02T24:00:00Z", "request.invalid"),
        ("2026-02-30T03:04:05Z", "request.invalid"),
        ("2026-01-02 03:04:05Z", "request.invalid"),
        ("2026-01-02T03:04:05", "request.invalid"),
        ("2026-01-02", "request.invalid"),
        ("20260102T030405Z", "request.invalid"),
    ],
)
def test_a_time_in_any_other_form_is_refused(time: str, code: str, server: Gatehouse) -> None:
    before = server.rows()
    assert server.deliver(Delivery(event=envelope(time=time))).outcome == (400, code)
    assert server.rows() == before


def test_a_time_in_the_body_has_nothing_after_it(server: Gatehouse) -> None:
    event = envelope(time="2026-01-02T03:04:05Z\n")
    delivery = Delivery(event=event, changes={"ce-time": "2026-01-02T03:04:05Z"})
    assert server.deliver(delivery).outcome == (400, "event.invalid")


# Case 9: another process writes to the database.


def test_no_delivery_fails_or_is_lost_while_another_process_writes(own_server: Gatehouse) -> None:
    events = [envelope() for _ in range(100)]
    runs: set[str] = set()
    with own_server.database() as database:
        database.execute("CREATE TABLE elsewhere (number INTEGER)")
        for start in range(0, 100, 10):
            # Ten new events and, from the second round on, ten that are known.
            deliveries = [Delivery(event=event) for event in events[max(0, start - 10) : start + 10]]
            database.execute("BEGIN IMMEDIATE")
            database.executemany("INSERT INTO elsewhere VALUES (?)", [(number,) for number in range(500)])
            answers = send_and_then(own_server, deliveries, database.commit)
            assert {answer.status for answer in answers} == {204}
            runs |= {answer.run for answer in answers}
    assert len(runs) == 100
    assert own_server.rows()["admissions"] == 100


def send_and_then(server: Gatehouse, deliveries: list[Delivery], then: Callable[[], None]) -> list[Answer]:
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(server.port)) for _ in deliveries]
        for connection, delivery in zip(wires, deliveries, strict=True):
            connection.write(wire.message("POST", PATH, delivery.headers(server.key), delivery.body))
        then()
        answers = [connection.read() for connection in wires]
    for answer in answers:
        check("POST", PATH, answer)
    return answers


# Case 10: a credential with a byte beyond ASCII.


def test_a_credential_with_a_byte_beyond_ascii_is_refused_without_a_traceback(server: Gatehouse) -> None:
    for credential in (b"Bearer caf\xe9", b"Bearer " + server.token.encode() + b"\xe9", b"Bearer \xff\xfe", b"caf\xe9"):
        answer = server.send("GET", "/v1/runs", {"Authorization": credential})
        assert answer.outcome == (401, "authentication.refused")
    for signature in (b"v1=" + b"\xe9" * 43, b"v1=" + b"A" * 42 + b"\xe9", b"\xe9"):
        answer = server.deliver(unsigned={"X-Registry-Signature": signature})
        assert answer.outcome == (401, "event.unauthenticated")
    assert "Traceback" not in server.log


# Case 11: what the request target is.

# Pairs of workflow and trigger with names that can be spelled in several ways; none has a trigger in the package, so
# that an authenticated delivery is told so.
PAIRS: Final = {
    "a slash": ("case-follow-up", "case/created"),
    "a letter beyond ASCII": ("case-follow-up", "ö"),
    "a tilde": ("case-follow-up", "~"),
}
SPELLINGS: Final = [
    "/v1/events/case-follow-up/case%2Fcreated",
    "/v1/events/case-follow-up/case%2fcreated",
    "/v1/events/case%2Dfollow-up/case%2Fcreated?x=%2F",
    "/v1/events/case-follow-up/%C3%B6",
    "/v1/events/case-follow-up/%c3%b6?",
    "/v1/events/case-follow-up/~",
    "/v1/events/case-follow-up/%7e",
    "/v1/events/case-follow-up/%7E?a=1&a=2&%zz",
    "/v1/events/case-follow-up/~?x=1",
    "/v1/events/case-follow-up/~??x=1?",
]


@pytest.fixture(scope="module")
def spelled(new_server: NewServer) -> Gatehouse:
    server = new_server()
    for number, (workflow, trigger) in enumerate(PAIRS.values()):
        server.add_source(workflow, trigger, server.key, f"{number}.key")
    server.start()
    return server


@pytest.mark.parametrize("target", SPELLINGS)
def test_a_signature_is_over_the_target_as_it_is_sent(target: str, spelled: Gatehouse) -> None:
    assert spelled.deliver(Delivery(path=target)).outcome == (409, "deployment.refused")


@pytest.mark.parametrize("target", SPELLINGS)
def test_a_target_that_was_changed_on_the_way_is_refused(target: str, spelled: Gatehouse) -> None:
    for other in SPELLINGS:
        if other != target:
            delivery = Delivery(path=target)
            answer = spelled.send("POST", other, delivery.headers(spelled.key), delivery.body)
            assert answer.outcome == (401, "event.unauthenticated")


def test_a_query_is_signed_and_then_ignored(server: Gatehouse) -> None:
    event = envelope()
    run = server.deliver(Delivery(event=event, path=f"{PATH}?x=1")).run
    for query in ("?", "?x=2", "?workflow=other&ce-id=1", "?%ff"):
        assert server.deliver(Delivery(event=event, path=PATH + query)).run == run


def test_the_target_is_the_same_without_a_socket(new_server: NewServer) -> None:
    idle = new_server()
    for number, (workflow, trigger) in enumerate(PAIRS.values()):
        idle.add_source(workflow, trigger, idle.key, f"{number}.key")
    # That transport cannot carry a question mark with nothing after it.
    targets = [target for target in SPELLINGS if not target.endswith("?")] + [PATH, f"{PATH}?x=1"]
    outcomes = asyncio.run(deliver_without_socket(idle, targets))
    assert outcomes == {target: 204 if target.startswith(PATH) else 409 for target in targets}


async def deliver_without_socket(server: Gatehouse, targets: list[str]) -> dict[str, int]:
    async with listener_of(server.state) as listener:
        transport = httpx.ASGITransport(listener)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return {target: (await deliver_by(client, target, server.key)).status_code for target in targets}


async def deliver_by(client: httpx.AsyncClient, target: str, key: bytes) -> httpx.Response:
    delivery = Delivery(path=target)
    url = httpx.URL("http://127.0.0.1").copy_with(raw_path=target.encode())
    return await client.post(url, content=delivery.body, headers=delivery.headers(key))

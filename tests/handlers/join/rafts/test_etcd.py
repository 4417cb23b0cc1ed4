"""The adapter against a stand-in; against a real etcd it is tried in test_real_etcd.py."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from handlers.join.rafts.etcd import EtcdRaft
from handlers.join.rafts.port import Member, RaftRefused, RaftSilent, RaftTrouble
from tests.handlers.gateway.certificates import Certificates
from tests.handlers.join.rafts.gateway import LEARNER, UNHEALTHY, Gateway, Says, refuses, says, serving

pytestmark = pytest.mark.anyio

FOUNDER = {"ID": "16622949369418400590", "name": "founder", "peerURLs": ["http://10.0.0.1:2380"]}
NEWCOMER = {"ID": "8221212210856558120", "peerURLs": ["http://10.0.0.2:2380"], "isLearner": True}
URLS = ("http://10.0.0.2:2380",)


@contextlib.asynccontextmanager
async def raft(*gateways: Gateway, tls: ssl.SSLContext | None = None) -> AsyncIterator[EtcdRaft]:
    async with contextlib.AsyncExitStack() as stack:
        endpoints = [await stack.enter_async_context(serving(each)) for each in gateways]
        made = EtcdRaft("store", endpoints, 2380, "http", tls, call_seconds=0.2)
        stack.push_async_callback(made.close)
        yield made


async def test_a_member_at_an_address_has_the_port_and_scheme_of_the_settings() -> None:
    async with raft() as store:
        assert store.peer_urls("10.0.0.2") == URLS


async def test_what_the_gateway_leaves_out_is_empty_or_false() -> None:
    gateway = Gateway(list=says({"header": {"raft_term": "2"}, "members": [FOUNDER, NEWCOMER]}))
    async with raft(gateway) as store:
        assert await store.members() == [
            Member("16622949369418400590", "founder", ("http://10.0.0.1:2380",), learner=False),
            Member("8221212210856558120", "", URLS, learner=True),
        ]


async def test_a_list_is_asked_for_after_something_that_takes_the_way_through_the_log() -> None:
    gateway = Gateway(list=says({"members": [FOUNDER]}))
    async with raft(gateway) as store:
        await store.members()
        assert gateway.asked == [("alarm", {"action": "GET"}), ("list", {})]
        gateway.answers = {"alarm": refuses(503, 14, "etcdserver: request timed out")}
        with pytest.raises(RaftTrouble, match="request timed out"):
            await store.members()


async def test_a_newcomer_is_added_as_a_learner_and_its_id_stays_a_string() -> None:
    gateway = Gateway(add=says({"member": NEWCOMER, "members": [FOUNDER, NEWCOMER]}), promote=says({"members": []}))
    async with raft(gateway) as store:
        added = await store.add("node-2", URLS)
        assert added == Member("8221212210856558120", "", URLS, learner=True)
        await store.promote(added.member_id)
    assert gateway.asked == [
        ("add", {"peerURLs": list(URLS), "isLearner": True}),
        ("promote", {"ID": "8221212210856558120"}),
    ]


async def test_what_does_not_answer_or_only_learns_is_left_for_the_next_endpoint() -> None:
    learner, hanging = Gateway(alarm=LEARNER), Gateway(alarm=None)
    voter = Gateway(list=says({"members": [FOUNDER]}))
    async with raft(learner, hanging, voter) as store:
        assert len(await store.members()) == 1
        assert len(await store.members()) == 1
    # The one that answered is the first to be asked from then on.
    assert (len(learner.asked), len(hanging.asked), len(voter.asked)) == (1, 1, 4)


@pytest.mark.parametrize(
    ("said", "trouble"),
    [
        (refuses(412, 9, "etcdserver: too many learner members in cluster"), RaftTrouble),
        (refuses(412, 9, "etcdserver: Peer URLs already exists"), RaftTrouble),
        (UNHEALTHY, RaftTrouble),
        (LEARNER, RaftTrouble),
        (refuses(400, 3, "etcdserver: given member URLs are invalid"), RaftRefused),
        (refuses(503, 14, "etcdserver: request timed out"), RaftSilent),
        (refuses(500, 2, "context canceled"), RaftSilent),
        (refuses(408, 1, "context canceled"), RaftSilent),
        (refuses(404, 12, "Not Found"), RaftSilent),
        (Says(404, b"Not Found"), RaftSilent),
        (Says(302, b""), RaftSilent),
        (Says(200, b"<html>"), RaftSilent),
        (says({"member": {"ID": 7}}), RaftSilent),
        (says({"member": NEWCOMER | {"ID": "7\0"}}), RaftSilent),
        (says({"member": NEWCOMER, "more": "x" * 1_048_576}), RaftSilent),
        (Says(200, b'{"member":' + b"[" * 100_000), RaftSilent),
        (Says(503, b'{"code":14,"message":' + b"[" * 100_000), RaftSilent),
        (None, RaftSilent),
    ],
)
async def test_an_add_that_may_have_been_made_all_the_same_is_told_from_one_that_was_not(
    said: Says | None, trouble: type[Exception]
) -> None:
    async with raft(Gateway(add=said)) as store:
        with pytest.raises(trouble) as raised:
            await store.add("node-2", URLS)
    assert raised.type is trouble


async def test_an_add_that_one_endpoint_was_silent_on_may_have_been_made_whatever_the_next_one_says() -> None:
    async with raft(Gateway(add=None), Gateway(add=UNHEALTHY)) as store:
        with pytest.raises(RaftSilent, match="has not answered"):
            await store.add("node-2", URLS)


async def test_nothing_was_asked_of_an_endpoint_that_takes_no_connection() -> None:
    async with serving(Gateway()) as url:
        pass
    store = EtcdRaft("store", [url], 2380, "http")
    with pytest.raises(RaftTrouble, match="cannot be reached") as raised:
        await store.add("node-2", URLS)
    assert raised.type is RaftTrouble
    await store.close()


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (refuses(412, 9, "etcdserver: can only promote a learner member"), None),
        (refuses(412, 9, "etcdserver: can only promote a learner member which is in sync with leader"), RaftTrouble),
        (refuses(404, 5, "etcdserver: member not found"), RaftRefused),
        (Says(404, b"Not Found"), RaftTrouble),
        (UNHEALTHY, RaftTrouble),
    ],
)
async def test_a_voter_stays_one_and_a_learner_that_lags_is_asked_for_again(
    said: Says, error: type[Exception] | None
) -> None:
    async with raft(Gateway(promote=said)) as store:
        with pytest.raises(error) if error else contextlib.nullcontext():
            await store.promote("7")


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (says({"members": [FOUNDER]}), None),
        (refuses(404, 5, "etcdserver: member not found"), None),
        (Says(404, b"Not Found"), RaftTrouble),
        (refuses(400, 3, "parsing field ID"), RaftTrouble),
        (UNHEALTHY, RaftTrouble),
    ],
)
async def test_a_member_that_is_gone_needs_no_removal_and_only_etcd_itself_can_say_so(
    said: Says, error: type[Exception] | None
) -> None:
    async with raft(Gateway(remove=said)) as store:
        with pytest.raises(error) if error else contextlib.nullcontext():
            await store.remove("7")


async def test_a_text_for_an_operator_is_one_short_line_without_credentials() -> None:
    gateway = Gateway(add=refuses(503, 14, "etcdserver:\r\n\x1b[31m" + "x" * 5000))
    async with serving(gateway) as url:
        store = EtcdRaft("store", [url.replace("//", "//root:secret@")], 2380, "http")
        with pytest.raises(RaftTrouble) as raised:
            await store.add("node-2", URLS)
        await store.close()
    text = str(raised.value)
    assert text.startswith(f"{url}: etcdserver:   [31mxxx")
    assert "secret" not in text
    assert text.isprintable()
    assert len(text) < 250


async def test_an_endpoint_is_reached_over_tls_with_a_client_certificate(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    asking = certificates.server()
    asking.verify_mode = ssl.CERT_REQUIRED
    gateway = Gateway(list=says({"members": [FOUNDER]}))

    async def members(tls: ssl.SSLContext | None) -> Any:
        async with serving(gateway, asking) as url:
            store = EtcdRaft("store", [url], 2380, "https", tls)
            try:
                return await store.members()
            finally:
                await store.close()

    known = certificates.client(ssl.TLSVersion.TLSv1_3, certificate=True)
    assert len(await members(known)) == 1
    with pytest.raises(RaftTrouble, match=r"its certificate does not pass: [a-z]"):
        await members(ssl.create_default_context())
    # The refusal of a handshake in TLS 1.3 seldom comes through; what is seen is a connection that ends.
    with pytest.raises(RaftTrouble, match="has not answered"):
        await members(certificates.client(ssl.TLSVersion.TLSv1_3, certificate=False))


async def test_what_answers_and_does_not_speak_tls_is_told_from_what_is_away() -> None:
    async def blurt(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(blurt, "127.0.0.1", 0) as server:
        endpoint = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        store = EtcdRaft("store", [endpoint], 2380, "https", ssl.create_default_context())
        with pytest.raises(RaftTrouble, match="TLS fails: WRONG_VERSION_NUMBER"):
            await store.members()
        await store.close()


async def test_without_an_endpoint_there_is_nobody_to_ask() -> None:
    async with raft() as store:
        with pytest.raises(RaftTrouble, match="no endpoint is configured"):
            await store.members()

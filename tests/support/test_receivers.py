from __future__ import annotations

import threading

import httpx
import pytest

from tests.support.receivers import NEVER, Idempotent, Receiver, Reply, always, in_turn, of_json


@pytest.fixture
def client() -> httpx.Client:
    return httpx.Client(trust_env=False, timeout=10)


def test_it_keeps_each_request_as_it_came_and_in_its_order(client: httpx.Client) -> None:
    with Receiver() as receiver, client:
        client.post(f"{receiver.url}/a%20b?c=d", content=b"\x00\xff", headers={"Idempotency-Key": "k"})
        client.get(f"{receiver.url}/next")
    first, second = receiver.received
    assert (first.number, first.method, first.target, first.body) == (0, "POST", "/a%20b?c=d", b"\x00\xff")
    assert (second.number, second.method, second.target, second.key) == (1, "GET", "/next", None)
    assert receiver.by_key == {"k": [first]}


def test_it_gives_the_answers_of_its_script_and_then_the_last_one_again(client: httpx.Client) -> None:
    script = in_turn(of_json({}, 429, Retry_After="3"), Reply(status=204, body=b""), Reply(body=b"{"))
    with Receiver(script) as receiver, client:
        answers = [client.get(receiver.url) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [429, 204, 200, 200]
    assert answers[0].headers["Retry-After"] == "3"
    assert answers[-1].content == b"{"


def test_it_cuts_an_answer_off(client: httpx.Client) -> None:
    with Receiver(always(Reply(body=b"whole", cut=2))) as receiver, client, pytest.raises(httpx.RemoteProtocolError):
        client.get(receiver.url)


def test_it_holds_an_answer_back_until_it_is_told(client: httpx.Client) -> None:
    told = threading.Event()
    with Receiver(always(Reply(after=told))) as receiver, client:
        asking = threading.Thread(target=client.get, args=[receiver.url])
        asking.start()
        receiver.wait_for(1)
        assert asking.is_alive()
        told.set()
        asking.join()


def test_it_ends_while_it_holds_answers_back() -> None:
    with Receiver(in_turn(NEVER, Reply(after=threading.Event()))) as receiver:
        for _ in range(2):
            with pytest.raises(httpx.ReadTimeout):
                httpx.get(receiver.url, timeout=0.05, trust_env=False)


def test_it_refuses_connections_until_it_listens(client: httpx.Client) -> None:
    with Receiver(refusing=True) as receiver, client:
        with pytest.raises(httpx.ConnectError):
            client.get(receiver.url)
        receiver.listen()
        assert client.get(receiver.url).status_code == 200


def test_an_idempotent_one_works_once_on_a_key_and_tells_by_it(client: httpx.Client) -> None:
    memory = Idempotent(loses=lambda received: received.key == "lost")
    with Receiver(memory) as receiver, client:
        key = {"Idempotency-Key": "k"}
        assert client.get(f"{receiver.url}/receipts/k").status_code == 404
        with pytest.raises(httpx.RemoteProtocolError):
            client.post(receiver.url, headers={"Idempotency-Key": "lost"})
        assert client.get(f"{receiver.url}/receipts/lost").json() == {"key": "lost"}
        answers = [client.post(receiver.url, content=body, headers=key) for body in (b"1", b"1", b"2")]
        assert [answer.status_code for answer in answers] == [201, 201, 409]
        memory.expired.add("k")
        assert client.get(f"{receiver.url}/receipts/k").status_code == 410
    assert list(memory.effects) == ["lost", "k"]
    assert [received.body for received in memory.conflicts] == [b"2"]

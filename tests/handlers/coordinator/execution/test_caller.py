from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from handlers.coordinator.execution.caller import Caller
from handlers.coordinator.execution.connection import Connection
from handlers.coordinator.execution.exchange import Answered, Encoded, Exchange, NotConnected, TooLarge, Unanswered
from tests.handlers.coordinator.execution.positions import command_of, flow, reading, registry
from tests.handlers.gateway.certificates import Certificates

pytestmark = pytest.mark.anyio

LIMIT = 1_000
# The clock of the callers here: Thursday, 1 January 2026, 00:00:00 GMT.
NOW = 1_767_225_600.0
OK = b"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """The loop of the executor, which is not the standard library's."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
def caller() -> Caller:
    """A caller for all tests: it keeps nothing open between two calls, and to be made takes it a tenth of a second."""
    return Caller(clock=lambda: NOW)


@dataclass
class Raw:
    """A server that gives every request the same bytes; what it got, and which of its connections have ended."""

    port: int
    asked: list[bytes]
    ended: asyncio.Event

    def connection(self, **members: object) -> Connection:
        base_url = f"http://127.0.0.1:{self.port}/api"
        return registry("same-command-and-receipt", **{"baseUrl": base_url, "maxResponseBytes": LIMIT, **members})


@contextlib.asynccontextmanager
async def serving(
    *pieces: bytes, then: str = "close", pause: float = 0.0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Raw]:
    """Answer with these pieces, then close, or `wait` for the other side, or `repeat` the last piece for ever."""
    raw = Raw(0, [], asyncio.Event())

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with (
            contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ssl.SSLError),
            contextlib.closing(writer),
        ):
            raw.asked.append(await _request(reader))
            for piece in _endless(pieces) if then == "repeat" else pieces:
                # uvloop raises what no one would expect where one writes after the other side has gone.
                if writer.transport.is_closing():
                    break
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(pause)
            if then == "wait":
                await reader.read()
        raw.ended.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    async with server:
        raw.port = server.sockets[0].getsockname()[1]
        yield raw


def _endless(pieces: tuple[bytes, ...]) -> Iterable[bytes]:
    yield from pieces
    while True:
        yield pieces[-1]


async def _request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return head + await reader.readexactly(int(lengths[0].split(b":")[1]) if lengths else 0)


async def sent(caller: Caller, raw: Raw, **members: object) -> Exchange:
    connection = raw.connection(**members)
    return await caller.send(connection, command_of(flow(), connection))


def refusing() -> Connection:
    return registry(baseUrl="http://127.0.0.1:1")


async def test_a_command_is_sent_byte_for_byte_each_time(caller: Caller) -> None:
    async with serving(OK) as raw:
        connection = raw.connection()
        command = command_of(flow(), connection)
        for _ in range(2):
            assert await caller.send(connection, command) == Answered(200, b"{}")
    expected = (
        f"POST /api/cases/c-1/decision?wait=true&run={command.key.removesuffix('.ask')} HTTP/1.1\r\n"
        f"Host: 127.0.0.1:{raw.port}\r\n"
        "Accept: application/json\r\n"
        "Accept-Encoding: identity\r\n"
        "User-Agent: gatehouse\r\n"
        f"Idempotency-Key: {command.key}\r\n"
        "Content-Type: application/json\r\n"
        "Connection: close\r\n"
        "Content-Length: 47\r\n"
        "\r\n"
        '{"at":"2026-01-01T00:00:00.000Z","urgent":"no"}'
    )
    assert raw.asked == [expected.encode()] * 2


@pytest.mark.parametrize(
    "target",
    ["/a%2Fb%20c/%2E%C3%A9/~!$&'()*+,;=:@-", "/x?a%5B%5D%26=%25%2B%20&b=%7B%7D", "/?", "//a//b/"],
)
async def test_a_target_goes_out_as_it_was_made(caller: Caller, target: str) -> None:
    async with serving(OK) as raw:
        connection = raw.connection()
        command = replace(command_of(reading(), connection), url=f"http://127.0.0.1:{raw.port}{target}")
        assert await caller.send(connection, command) == Answered(200, b"{}")
    assert raw.asked[0].split(b" ")[1] == target.encode()


async def test_a_receipt_is_asked_for_by_the_key(caller: Caller) -> None:
    async with serving(OK) as raw:
        connection = raw.connection()
        command = command_of(flow(), connection)
        assert await caller.receipt(connection, command) == Answered(200, b"{}")
    head = raw.asked[0]
    assert head.startswith(f"GET /api/receipts/{command.key} HTTP/1.1\r\n".encode())
    assert b"Idempotency-Key" not in head
    assert b"Content-Length" not in head


@pytest.mark.parametrize(
    ("answer", "exchange"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n{}", Answered(200, b"{}")),
        (b"HTTP/1.1 204 \r\n\r\n", Answered(204)),
        (b"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", Answered(200, b"{}")),
        (b"HTTP/1.1 100 \r\n\r\nHTTP/1.1 103 \r\n\r\n" + OK, Answered(200, b"{}")),
        (b"HTTP/1.1 200 \r\nContent-Encoding: Identity\r\n\r\n{}", Answered(200, b"{}")),
        (b"HTTP/1.1 404 \r\n\r\nnot read", Answered(404)),
        (b"HTTP/1.1 302 \r\nLocation: http://127.0.0.1:1/\r\n\r\n", Answered(302)),
        (b"HTTP/1.1 500 \r\nContent-Length: 10\r\n\r\ncut", Answered(500)),
        (b"HTTP/1.1 101 \r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", Unanswered()),
        (b"HTTP/1.1 999 \r\n\r\n", Unanswered()),
        (b"", Unanswered()),
        (b"HTTP/1.1 200 \r\nContent-Len", Unanswered()),
        (b"HTTP/1.1 200 \r\nContent-Length: 10\r\n\r\n{}", Unanswered()),
        (b"HTTP/1.1 200 \r\nContent-Length: -1\r\n\r\n{}", Unanswered()),
        (b"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", Unanswered()),
        (b"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", Unanswered()),
        (b"SSH-2.0-OpenSSH_9.2\r\n", Unanswered()),
        (b"HTTP/1.1 200 \r\nX: " + b"x" * 200_000 + b"\r\n\r\n{}", Unanswered()),
    ],
    ids=range(18),
)
async def test_what_comes_back_is_an_answer_only_where_it_is_whole(
    caller: Caller, answer: bytes, exchange: Exchange
) -> None:
    async with serving(answer) as raw:
        assert await sent(caller, raw) == exchange
    assert len(raw.asked) == 1


async def test_what_is_longer_than_its_length_says_ends_there(caller: Caller) -> None:
    async with serving(OK + b"more") as raw:
        assert await sent(caller, raw) == Answered(200, b"{}")


@pytest.mark.parametrize("fields", [b"Content-Length: 5242880\r\n", b""], ids=["announced", "not announced"])
async def test_an_answer_of_5_mb_is_not_read_to_its_end(caller: Caller, fields: bytes) -> None:
    async with serving(b"HTTP/1.1 201 \r\n" + fields + b"\r\n", b"x" * 5_242_880) as raw:
        assert await sent(caller, raw) == TooLarge(201)
        await raw.ended.wait()


async def test_an_answer_has_its_last_byte_within_the_bound(caller: Caller) -> None:
    async with serving(b"HTTP/1.1 200 \r\n\r\n" + b"1" * LIMIT) as raw:
        assert await sent(caller, raw) == Answered(200, b"1" * LIMIT)
    async with serving(b"HTTP/1.1 200 \r\n\r\n" + b"1" * (LIMIT + 1)) as raw:
        assert await sent(caller, raw) == TooLarge(200)


async def test_a_body_without_end_of_a_failure_is_not_read(caller: Caller) -> None:
    async with serving(b"HTTP/1.1 503 \r\n\r\n", b"x" * 65_536, then="repeat") as raw:
        assert await sent(caller, raw) == Answered(503)
        await raw.ended.wait()


async def test_an_encoded_answer_is_not_decoded(caller: Caller) -> None:
    packed = gzip.compress(b"1" * 1_000_000)
    async with serving(b"HTTP/1.1 200 \r\nContent-Encoding: gzip\r\n\r\n" + packed) as raw:
        assert await sent(caller, raw, maxResponseBytes=1_048_576) == Encoded(200)


@pytest.mark.parametrize(
    "pieces",
    [
        (),
        (b"HTTP/1.1 200 \r\n",),
        (b"HTTP/1.1 200 \r\nContent-Length: 3\r\n\r\n{}",),
        (b"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",),
    ],
    ids=["nothing", "half a head", "half a body", "no end"],
)
async def test_an_answer_that_does_not_come_is_waited_for_so_long_and_no_longer(
    caller: Caller, pieces: tuple[bytes, ...]
) -> None:
    async with serving(*pieces, then="wait") as raw:
        assert await sent(caller, raw, timeoutSeconds=0.8) == Unanswered()
        await raw.ended.wait()


@pytest.mark.parametrize(
    "pieces",
    [(b"HTTP/1.1 200 \r\n", b"X: 1\r\n"), (b"HTTP/1.1 200 \r\n\r\n", b"1")],
    ids=["head", "body"],
)
async def test_an_answer_that_trickles_wins_no_time(caller: Caller, pieces: tuple[bytes, ...]) -> None:
    async with serving(*pieces, then="repeat", pause=0.01) as raw:
        assert await sent(caller, raw, timeoutSeconds=0.8) == Unanswered()
        await raw.ended.wait()


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        (b"0", 0),
        (b"120", 120_000),
        (b"Thu, 01 Jan 2026 00:01:30 GMT", 90_000),
        (b"Thu Jan  1 00:01:30 2026", 90_000),
        (b"Wed, 31 Dec 2025 23:59:59 GMT", 0),
        (b"-1", None),
        (b"1.5", None),
        (b"soon", None),
        (b"Thu, 99 Jan 2026 00:00:00 GMT", None),
        (b"0" * 20 + b"12", 12_000),
        (b"9" * 5_000, 999_999_999_000),
        (b"", None),
        (b"1\r\nRetry-After: 2", None),
    ],
    ids=range(13),
)
async def test_how_long_the_receiver_wants_to_be_left_alone_is_told(
    caller: Caller, value: bytes, milliseconds: int | None
) -> None:
    async with serving(b"HTTP/1.1 429 \r\nRetry-After: " + value + b"\r\n\r\n") as raw:
        assert await sent(caller, raw) == Answered(429, retry_after=milliseconds)


async def test_a_cookie_is_not_given_back(caller: Caller) -> None:
    async with serving(b"HTTP/1.1 200 \r\nSet-Cookie: a=b\r\n\r\n{}") as raw:
        for _ in range(2):
            await sent(caller, raw)
    assert not any(b"ookie" in asked for asked in raw.asked)


async def test_where_nobody_listens_nothing_is_sent(caller: Caller) -> None:
    assert await caller.send(refusing(), command_of(flow(), refusing())) == NotConnected()


async def test_where_no_host_can_be_nothing_is_sent(caller: Caller) -> None:
    nowhere = registry(baseUrl="http://256.256.256.256")
    assert await caller.send(nowhere, command_of(flow(), nowhere)) == NotConnected()


async def test_nothing_is_sent_to_whom_no_public_authority_vouches_for(caller: Caller, tmp_path: Path) -> None:
    async with serving(OK, tls=Certificates(tmp_path).server()) as raw:
        assert await sent(caller, raw, baseUrl=f"https://127.0.0.1:{raw.port}") == NotConnected()
    assert raw.asked == []


async def test_the_authority_of_a_connection_vouches_for_its_service_alone(caller: Caller, tmp_path: Path) -> None:
    async with serving(OK, tls=Certificates(tmp_path).server()) as raw:
        trusted = {"baseUrl": f"https://localhost:{raw.port}", "caFile": str(tmp_path / "authority.pem")}
        for _ in range(2):
            assert await sent(caller, raw, **trusted) == Answered(200, b"{}")
        connection = raw.connection(**trusted)
        assert await caller.receipt(connection, command_of(flow(), connection)) == Answered(200, b"{}")
        # The certificate is one for localhost.
        assert await sent(caller, raw, **trusted | {"baseUrl": f"https://127.0.0.1:{raw.port}"}) == NotConnected()
        assert await sent(caller, raw, baseUrl=trusted["baseUrl"]) == NotConnected()
    assert len(raw.asked) == 3


@pytest.mark.parametrize("file", ["none.pem", "server.key"])
async def test_without_an_authority_nothing_is_sent(
    caller: Caller, tmp_path: Path, caplog: pytest.LogCaptureFixture, file: str
) -> None:
    async with serving(OK, tls=Certificates(tmp_path).server()) as raw:
        place = {"baseUrl": f"https://localhost:{raw.port}", "caFile": str(tmp_path / file)}
        assert await sent(caller, raw, **place) == NotConnected()
    assert raw.asked == []
    assert f"the authority file {tmp_path / file} cannot be used" in caplog.text


async def test_nothing_is_sent_to_who_does_not_speak_tls(caller: Caller) -> None:
    async with serving(OK) as raw:
        assert await sent(caller, raw, baseUrl=f"https://127.0.0.1:{raw.port}", timeoutSeconds=0.1) == NotConnected()
        await raw.ended.wait()


async def test_proxies_of_the_environment_are_not_asked(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        for each in (name, name.upper()):
            monkeypatch.setenv(each, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    async with serving(OK) as raw:
        assert await sent(caller, raw) == Answered(200, b"{}")
        fresh = Caller()
        assert await sent(fresh, raw) == Answered(200, b"{}")
        await fresh.close()


async def test_the_token_is_what_its_file_has_at_each_sending(caller: Caller, tmp_path: Path) -> None:
    file = tmp_path / "x.token"
    async with serving(OK) as raw:
        for content in ("one\n", "two"):
            file.write_text(content)
            await sent(caller, raw, tokenFile=str(file))
        connection = raw.connection(tokenFile=str(file))
        await caller.receipt(connection, command_of(flow(), connection))
    authorized = [asked.split(b"Authorization: ")[1].split(b"\r\n")[0] for asked in raw.asked]
    assert authorized == [b"Bearer one", b"Bearer two", b"Bearer two"]


def _absent(file: Path) -> None:
    file.unlink(missing_ok=True)


def _with(content: bytes) -> Callable[[Path], object]:
    return lambda file: file.write_bytes(content)


@pytest.mark.parametrize(
    "make",
    [
        _absent,
        Path.mkdir,
        os.mkfifo,
        _with(b""),
        _with(b"\n"),
        _with(b"hush\n\n"),
        _with(b"hush\r\n"),
        _with(b"hu sh"),
        _with("h\u00fcsh".encode()),
        _with(b"x" * 8_193),
    ],
    ids=range(10),
)
async def test_without_a_token_that_can_be_sent_nothing_is(
    caller: Caller, tmp_path: Path, make: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "x.token"
    make(file)
    async with serving(OK) as raw:
        assert await sent(caller, raw, tokenFile=str(file)) == NotConnected()
    assert raw.asked == []
    assert str(file) in caplog.text
    assert "hush" not in caplog.text


async def test_what_is_sent_and_received_is_not_logged(
    caller: Caller, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    file = tmp_path / "x.token"
    file.write_text("hush")
    async with serving(b"HTTP/1.1 500 hush\r\nX: hush\r\n\r\nhush") as raw:
        await sent(caller, raw, tokenFile=str(file))
    assert caplog.text == ""


async def test_who_is_stopped_meanwhile_asks_no_longer(caller: Caller) -> None:
    async with serving(then="wait") as raw:
        connection = raw.connection()
        task = asyncio.create_task(caller.send(connection, command_of(flow(), connection)))
        while not raw.asked:  # noqa: ASYNC110 - the server of this test tells nobody else of a request
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await raw.ended.wait()


async def test_many_wait_at_once(caller: Caller) -> None:
    async with serving(OK, pause=0.01) as raw:
        connection = raw.connection()
        commands = [replace(command_of(flow(), connection), key=f"run-{number}.ask") for number in range(40)]
        answers = await asyncio.gather(*(caller.send(connection, command) for command in commands))
    assert answers == [Answered(200, b"{}")] * 40

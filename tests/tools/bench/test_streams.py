import socket
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.handlers.gateway.certificates import Certificates
from tools.bench import streams
from tools.bench.servers import BenchError
from tools.bench.streams import OPENING, Chunk, Reader, frames, readers, take_until, understood

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def event(number: int, at: str = "2026-04-15T12:00:00.250Z") -> bytes:
    data = f'{{"id":{number},"at":"{at}","line":"1776254400125000 text"}}'
    return f"id: {number}\nevent: log\ndata: {data}\n\n".encode()


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


def reader(*pieces: bytes, times: Sequence[int] = ()) -> Reader:
    """A reader that has received these pieces."""
    made = object.__new__(Reader)
    made.pieces = list(pieces)
    made.ends = [sum(map(len, pieces[: number + 1])) for number in range(len(pieces))]
    made.times = list(times)
    return made


def test_the_frames_of_a_stream_are_its_events_with_their_times() -> None:
    first, second = frames(OPENING + event(8) + event(9), 7)
    assert (first.id, first.type, second.id) == (8, "log", 9)
    assert second.end - first.end == len(event(9))
    assert first.committed - first.written == 125.0


@pytest.mark.parametrize(
    "body", [b"", event(1), OPENING + event(2), OPENING + event(1) + b":\n\n", OPENING + b"id: 1\n"]
)
def test_what_is_no_stream_of_events_without_gaps_is_refused(body: bytes) -> None:
    with pytest.raises(BenchError):
        frames(body, 0)


def test_a_body_is_put_together_from_its_chunks_however_they_came() -> None:
    whole = HEAD + chunked(OPENING, event(1) + event(2)) + END
    for cut in (1, len(HEAD), len(HEAD) + 2, len(whole) - 3):
        assert reader(whole[:cut], whole[cut:]).body()[0] == OPENING + event(1) + event(2)


def test_an_event_has_come_when_its_last_byte_has() -> None:
    whole = HEAD + chunked(OPENING, event(1) + event(2), event(3)) + END
    end_of_first = whole.index(event(2))
    made = reader(
        whole[: end_of_first - 1], whole[end_of_first - 1 : -20], whole[-20:], times=[10**6, 2 * 10**6, 3 * 10**6]
    )
    body, chunks = made.body()
    assert list(made.arrivals(chunks, frames(body, 0))) == [2.0, 2.0, 3.0]


@pytest.mark.parametrize("answer", [b"HTTP/1.1 401 Unauthorized\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_another_answer_is_refused_with_its_beginning(answer: bytes) -> None:
    with pytest.raises(BenchError, match="no stream"):
        reader(answer).body()


def test_readers_of_the_same_stream_have_to_have_the_same_bytes_in_whatever_chunks() -> None:
    one = reader(HEAD + chunked(OPENING, event(1)) + END)
    other = reader(HEAD + chunked(OPENING + event(1)) + END)
    found, chunks = understood([one, other], 0)
    assert [frame.id for frame in found] == [1]
    assert [len(each) for each in chunks] == [2, 1]
    assert chunks[1] == [Chunk(found[0].end, len(HEAD) + len(chunked(OPENING + event(1))) - 2)]
    with pytest.raises(BenchError, match="different bytes"):
        understood([one, reader(HEAD + chunked(OPENING) + END)], 0)


@contextmanager
def answering(certificates: Certificates, answer: bytes, *, stays: bool = False) -> Iterator[list[Reader]]:
    """Two readers of a server that gives each of them this answer, and ends the connection unless it stays."""

    def serve() -> None:
        taken = [certificates.server().wrap_socket(listening.accept()[0], server_side=True) for _ in range(2)]
        for each in taken:
            # A reader may leave before its answer, since another one's is refused; one that stays waits for that.
            with each, suppress(OSError):
                each.recv(4096)
                each.sendall(answer)
                if stays:
                    each.recv(1)

    context = certificates.client(ssl.TLSVersion.TLSv1_3, certificate=False)
    context.check_hostname = False
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=serve)
        serving.start()
        try:
            with readers(listening.getsockname()[1], context, 2) as opened:
                for reader in opened:
                    reader.ask("CODE", 7)
                yield opened
        finally:
            serving.join()


def test_all_readers_take_what_comes_to_the_end_and_note_when(certificates: Certificates) -> None:
    before = time.time_ns()
    with answering(certificates, HEAD + chunked(OPENING, *map(event, range(8, 1000))) + END) as opened:
        take_until(lambda each: each.opened, opened)
        take_until(lambda each: each.ended, opened)
        found, chunks = understood(opened, 7)
    assert [frame.id for frame in found] == list(range(8, 1000))
    for reader, own in zip(opened, chunks, strict=True):
        arrivals = list(reader.arrivals(own, found))
        assert before / 1e6 <= arrivals[0]
        assert arrivals == sorted(arrivals)


def test_a_stream_that_is_broken_off_is_refused(certificates: Certificates) -> None:
    with (
        answering(certificates, HEAD + chunked(OPENING, event(8))) as opened,
        pytest.raises(BenchError, match="broken"),
    ):
        take_until(lambda each: each.ended, opened)


def test_streams_that_do_not_end_are_not_waited_for_for_ever(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(certificates, HEAD, stays=True) as opened:
        monkeypatch.setattr(streams, "PATIENCE_SECONDS", 0.0)
        with pytest.raises(BenchError, match="did not end within 0 s"):
            take_until(lambda _: False, opened)

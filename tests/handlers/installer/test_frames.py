from __future__ import annotations

from handlers.installer.frames import CHUNK_BYTES, Chunk, frame, pack
from storage.installer.events import StoredEvent


def events(*sizes: int, after: int = 0) -> list[StoredEvent]:
    return [StoredEvent(number, "log", b"x" * size) for number, size in enumerate(sizes, after + 1)]


def test_a_frame_is_the_id_the_type_and_one_line_of_data() -> None:
    assert frame(StoredEvent(7, "step", b'{"id":7}')) == b'id: 7\nevent: step\ndata: {"id":7}\n\n'


def test_events_are_packed_to_the_bound_and_no_further() -> None:
    size = CHUNK_BYTES // 4 - len(frame(StoredEvent(1, "log", b"")))
    chunks: list[Chunk] = []
    pack(chunks, events(*[size] * 9))
    assert [(chunk.after, chunk.last, len(chunk)) for chunk in chunks] == [
        (0, 4, CHUNK_BYTES),
        (4, 8, CHUNK_BYTES),
        (8, 9, CHUNK_BYTES // 4),
    ]


def test_an_event_beyond_the_bound_is_a_chunk_by_itself() -> None:
    chunks: list[Chunk] = []
    pack(chunks, events(10, CHUNK_BYTES, 10, 10, after=5))
    assert [(chunk.after, chunk.last) for chunk in chunks] == [(5, 6), (6, 7), (7, 9)]


def test_what_comes_later_is_added_to_the_last_chunk_and_each_begins_where_it_is_asked_to() -> None:
    chunks: list[Chunk] = []
    pack(chunks, events(1, 2, after=10))
    pack(chunks, events(3, after=12))
    frames = [frame(event) for event in events(1, 2, 3, after=10)]
    assert len(chunks) == 1
    assert [chunks[0].beyond(position) for position in (10, 11, 12)] == [
        b"".join(frames),
        b"".join(frames[1:]),
        frames[2],
    ]


def test_of_a_full_chunk_all_readers_get_the_same_bytes() -> None:
    chunks: list[Chunk] = []
    pack(chunks, events(CHUNK_BYTES, 1))
    assert chunks[0].beyond(0) is chunks[0].beyond(0)

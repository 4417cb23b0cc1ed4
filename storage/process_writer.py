"""A group-commit writer in a process of its own, with an interpreter of its own.

Committing is a dozen statements a batch. In a thread, each of them has to win the interpreter's lock back from a loop
that is busy with the next requests, and most of the time nobody commits; a process needs it for none.

What goes to it is a frame an item, four bytes of length and a pickle: the pickled kind of work and the item. What comes
back is one frame a batch, the list of its outcomes and errors. Both ends are the same program, and nothing else can
write into the pipes.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import io
import logging
import os
import pickle
import select
import signal
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import chain
from operator import attrgetter
from typing import Any, Final, NamedTuple, NoReturn

from storage.aggregates import Aggregates
from storage.committer import Committer, Kind, Work
from storage.errors import StorageError, Unavailable, Unstorable
from storage.opening import Opened, Place
from storage.readers import Readers
from storage.writer import Writer

_LENGTH: Final = struct.Struct(">I")
# So many bytes of what waits share a commit at most, and so many the pipe may hold where the system lets it.
_TAKEN_BYTES: Final = 4 << 20
_PIPE_BYTES: Final = 1 << 20

# So long the child has, when the server ends, to finish what it was given.
END_SECONDS: Final = 10.0

_ENDED: Final = "the process that commits has ended"

_log = logging.getLogger(__name__)


class Child(NamedTuple):
    """The process that commits, and the two pipes that lead to it and back."""

    pid: int
    requests: int
    answers: int


def start(
    place: Place, *, recovery_only: bool, around: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext
) -> Child:
    """Fork the process that commits; to be called before this one has a loop, a thread or a connection.

    Within `around`, it opens the database, tells whether it could, and commits until this process ends, whose signals
    are not meant for it.
    """
    request_end, requests = _pipe()
    answers, answer_end = _pipe()
    pid = os.fork()
    if pid == 0:
        _become(place, recovery_only, around, request_end, answer_end)
    os.close(request_end)
    os.close(answer_end)
    return Child(pid, requests, answers)


def _pipe() -> tuple[int, int]:
    ends = os.pipe()
    # Linux alone has it, and may refuse more than it gives.
    with contextlib.suppress(AttributeError, OSError):
        fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return ends


def _become(
    place: Place,
    recovery_only: bool,
    around: Callable[[], AbstractContextManager[object]],
    requests: int,
    answers: int,
) -> NoReturn:
    """Be that process until the other end of a pipe is closed; nothing of it goes on in what its parent began."""
    code = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        _close_all_but(requests, answers)
        with around():
            code = _tell_failure(lambda: _serve(place, recovery_only, requests, answers))
    finally:
        os._exit(code)


def _tell_failure(work: Callable[[], None]) -> int:
    """Return the exit code of the work, and log why it is not 0."""
    try:
        work()
    except BrokenPipeError:
        # Who would have taken the outcomes is gone.
        return 0
    except Exception:  # noqa: BLE001 - whatever it was, it is told, and this process ends.
        _log.critical("the process that commits failed", exc_info=True)
        return 1
    return 0


def _close_all_but(*kept: int) -> None:
    """Let go of locks, sockets and the like, which are the other process's."""
    below = 3
    for descriptor in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
        os.closerange(below, descriptor)
        below = max(below, descriptor + 1)


def _serve(place: Place, recovery_only: bool, requests: int, answers: int) -> None:
    try:
        opened = Opened(place, readers=0)
        opened.prepare()
    except (StorageError, ValueError) as error:
        _write(answers, error)
        return
    _write(answers, None)
    committer = Committer(opened.writing, opened.audit, node=place.node)
    readers = Readers(opened.reading, size=1, waiting=0)
    aggregates = Aggregates(_Absent(waiting=0), readers, opened.writing.dialect, recovery_only=recovery_only)
    kinds: dict[bytes, Kind[Any, Any]] = {}
    try:
        for pieces in _batches(requests):
            for kind in {kind for kind, _ in pieces} - kinds.keys():
                kinds[kind] = _KindUnpickler(kind, aggregates).load()
            results = committer.run([Work(kinds[kind], item) for kind, item in pieces])
            _tell_causes(results)
            _write(answers, results)
    finally:
        committer.disconnect()
        opened.release()


def _batches(descriptor: int) -> Iterator[list[tuple[bytes, Any]]]:
    """All that has come since the last batch, until the pipe's other end is closed."""
    frames, more = _Frames(), select.poll()
    more.register(descriptor, select.POLLIN)
    while received := os.read(descriptor, _PIPE_BYTES):
        pieces = frames.whole(received)
        taken = len(received)
        while taken < _TAKEN_BYTES and more.poll(0):
            received = os.read(descriptor, _PIPE_BYTES)
            if not received:
                break
            pieces += frames.whole(received)
            taken += len(received)
        if pieces:
            yield pieces


def _tell_causes(results: list[object]) -> None:
    """Log what an item broke: of an error the type and text alone go to the other process."""
    for result in results:
        if isinstance(result, Unstorable):
            _log.error("an item cannot be stored", exc_info=result.__cause__)


def _write(descriptor: int, value: object) -> None:
    rest = memoryview(b"".join(_framed(value)))
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _framed(value: object) -> tuple[bytes, bytes]:
    """The length and the pickle of a value, apart: an item may be long, and is not copied to stand behind the one."""
    payload = pickle.dumps(value)
    return _LENGTH.pack(len(payload)), payload


class _Frames:
    """Puts frames together from what a pipe gives."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def whole(self, received: bytes) -> list[Any]:
        """The values of the frames that are whole by now."""
        self._rest += received
        values, start = [], 0
        while len(self._rest) >= start + _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._rest, start)
            end = start + _LENGTH.size + length
            if len(self._rest) < end:
                break
            values.append(pickle.loads(memoryview(self._rest)[start + _LENGTH.size : end]))  # noqa: S301 - see above
            start = end
        del self._rest[:start]
        return values


class _KindPickler(pickle.Pickler):
    """Writes a kind of work by its name; where it is a method, by the name of its aggregate, too."""

    def __init__(self, file: io.BytesIO, names: Mapping[int, str]) -> None:
        super().__init__(file)
        self._names = names

    def persistent_id(self, obj: object) -> str | None:
        """Return the name of what the other process has by itself."""
        return self._names.get(id(obj))


def _pickled_kind(kind: Kind[Any, Any], names: Mapping[int, str]) -> bytes:
    written = io.BytesIO()
    _KindPickler(written, names).dump(kind)
    return written.getvalue()


class _KindUnpickler(pickle.Unpickler):
    """Finds a kind of work by its name."""

    def __init__(self, kind: bytes, aggregates: Aggregates) -> None:
        super().__init__(io.BytesIO(kind))
        self._aggregates = aggregates

    def persistent_load(self, pid: str) -> object:
        """Return this process's own aggregate of that name."""
        return attrgetter(pid)(self._aggregates)


def _named(root: object, path: str = "") -> Iterator[tuple[int, str]]:
    """The identity and the dotted name of each of storage's objects that can be reached from one of them."""
    for name, value in vars(root).items():
        if type(value).__module__.startswith("storage.") and hasattr(value, "__dict__"):
            if isinstance(value, Writer | Readers):
                continue
            yield id(value), path + name
            yield from _named(value, f"{path}{name}.")


class _Absent(Writer):
    """Stands for the writer in the process that commits, where nothing is submitted."""

    def _packed(self, kind: Kind[Any, Any], item: object) -> NoReturn:
        raise NotImplementedError

    def _send(self, pieces: list[Any]) -> NoReturn:
        raise NotImplementedError

    async def _end(self) -> None:
        return


class ProcessWriter(Writer):
    """Has a child commit. Where that ends before it was told to, what waits fails and `on_loss` is called."""

    # While the loop is busy with the rest of a long turn, the child commits the beginning of it.
    _most = 16

    def __init__(
        self,
        child: Child,
        *,
        waiting: int,
        on_commit: Callable[[int], None] | None = None,
        on_loss: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(waiting=waiting, on_commit=on_commit)
        self._child = child
        self._on_loss = on_loss
        self._names: Mapping[int, str] = {}
        self._kinds: dict[Kind[Any, Any], bytes] = {}
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = loop.create_future()
        self._told = False
        self._ended: asyncio.Future[None] = loop.create_future()
        self._requests: asyncio.WriteTransport | None = None

    async def connect(self) -> None:
        """Wait until the child has opened the database; raises what it raised, or Unavailable where it ended."""
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: _Answers(self._received, self._lost), os.fdopen(self._child.answers, "rb"))
        self._requests, _ = await loop.connect_write_pipe(
            asyncio.BaseProtocol, os.fdopen(self._child.requests, "wb", buffering=0)
        )
        await self._ready

    def know(self, aggregates: Aggregates) -> None:
        """Name the aggregates whose methods are kinds of work; the child has the same."""
        self._names = dict(_named(aggregates))

    def _packed(self, kind: Kind[Any, Any], item: object) -> tuple[bytes, bytes]:
        try:
            known = self._kinds.get(kind)
            if known is None:
                known = self._kinds[kind] = _pickled_kind(kind, self._names)
            return _framed((known, item))
        except Exception as error:
            raise Unstorable("this item cannot be sent to the process that commits") from error

    def _send(self, pieces: list[tuple[bytes, bytes]]) -> None:
        if self._requests is not None:
            self._requests.writelines(chain.from_iterable(pieces))

    def _received(self, value: Any) -> None:
        if self._told:
            self._answer(value)
        else:
            self._tell(value)

    def _lost(self) -> None:
        """Fail what waits: what was sent may stand."""
        self._tell(Unavailable(_ENDED))
        self._gathered.clear()
        self._settle([Unavailable(_ENDED) for _ in self._waiting])
        self._ended.set_result(None)
        if not self._closed and self._ready.exception() is None:
            self._closed = True
            self._on_loss()

    def _tell(self, failure: Exception | None) -> None:
        """Let `connect` return, or raise why the child could not open the database; only the first word counts."""
        self._told = True
        if self._ready.done():
            return
        if failure is None:
            self._ready.set_result(None)
        else:
            self._ready.set_exception(failure)

    async def _end(self) -> None:
        if self._requests is not None:
            self._requests.close()
            # One that is stopped, or waits for a disk without end, has answered nobody for what it then leaves undone.
            await asyncio.wait([self._ended], timeout=END_SECONDS)
            if not self._ended.done():
                os.kill(self._child.pid, signal.SIGKILL)
                await self._ended
            self._requests = None
            await asyncio.to_thread(os.waitpid, self._child.pid, 0)


class _Answers(asyncio.Protocol):
    """The end of the pipe by which the child answers."""

    def __init__(self, received: Callable[[Any], None], lost: Callable[[], None]) -> None:
        self._frames = _Frames()
        self._received = received
        self._lost = lost

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        for value in self._frames.whole(data):
            self._received(value)

    def connection_lost(self, _: Exception | None) -> None:
        """Tell that the child has ended."""
        self._lost()

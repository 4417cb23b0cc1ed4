"""The keys of those who may send events, one or two a pair of workflow and trigger, kept in step with their files.

What an entry of the settings looks like is the loader's matter, and what a key signs is signature.py's.
"""

from __future__ import annotations

import hmac
import logging
import math
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeAlias

# An HMAC-SHA-256 that has taken its key and nothing else; a copy of it begins a message.
KeyState: TypeAlias = hmac.HMAC

MIN_KEY_BYTES: Final = 32
MAX_KEY_BYTES: Final = 65_536

# For so many nanoseconds a file may change again and keep its times, so what was read is no last word.
_UNSETTLED: Final = 100_000_000
_RETRY_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


class Entry(Protocol):
    """One of the settings' `events`: a pair of workflow and trigger, and its one or two key files."""

    @property
    def workflow(self) -> str: ...
    @property
    def trigger(self) -> str: ...
    @property
    def key_files(self) -> Sequence[Path]: ...


class SourceKeys(NamedTuple):
    """The keys of a pair: always two, of which the first `configured` are its own and the others are dummies.

    `configured` is 0 for an unknown pair. `readable` is False where one of its own cannot be read; a dummy stands in.
    """

    states: tuple[KeyState, KeyState]
    configured: int
    readable: bool


def key_state(key: bytes) -> KeyState:
    """Begin an HMAC-SHA-256 with a key of 32 to 65,536 bytes; raises ValueError for any other length."""
    if not MIN_KEY_BYTES <= len(key) <= MAX_KEY_BYTES:
        raise ValueError(f"a key has {MIN_KEY_BYTES} to {MAX_KEY_BYTES} bytes")
    return hmac.new(key, digestmod="sha256")


class Sources:
    """Finds the keys of a pair; a look-up asks the settings file and the key files whether they have changed."""

    def __init__(
        self, entries: Callable[[], Iterable[Entry]], settings: Path, *, looks_every_seconds: float = 0.0
    ) -> None:
        """Read all keys; `entries` reads the `events` of the file `settings`, and what it raises here goes through.

        Files are looked at once in `looks_every_seconds` at most: each look lets another thread take the interpreter.
        """
        self._looks_every = looks_every_seconds
        self._look_again = 0.0
        self._found: dict[tuple[str, str], SourceKeys] = {}
        self._entries = entries
        self._settings = settings
        self._dummies = (_Dummy(settings), _Dummy(settings))
        self._files: Mapping[Path, _KeyFile] = {}
        self._pairs: Mapping[tuple[str, str], Sequence[_KeyFile]] = {}
        self._complaint: str | None = None
        found = _look(settings)
        self._seen = _stamp(found)
        self._again = math.inf if _settled(found) else 0.0
        self._take(entries())

    def find(self, workflow: str, trigger: str) -> SourceKeys:
        """Return the keys of a pair as their files are now; an unknown pair costs as many looks as a known one."""
        now = time.monotonic()
        if now >= self._look_again:
            self._found.clear()
            self._refresh()
            self._look_again = now + self._looks_every
        found = self._found.get((workflow, trigger))
        if found is None:
            found = self._found[workflow, trigger] = self._read((workflow, trigger))
        return found

    def _read(self, pair: tuple[str, str]) -> SourceKeys:
        files = self._pairs.get(pair, ())
        slots: list[_KeyFile | _Dummy] = [*files, *self._dummies]
        first, second = slots[0].state(), slots[1].state()
        readable = first is not None and second is not None
        return SourceKeys((first or self._dummies[0].key, second or self._dummies[1].key), len(files), readable)

    def _refresh(self) -> None:
        found = _look(self._settings)
        stamp = _stamp(found)
        if stamp == self._seen and time.monotonic() < self._again:
            return
        self._seen = stamp
        self._again = math.inf if _settled(found) else 0.0
        try:
            self._take(list(self._load(found)))
        except Exception as error:  # noqa: BLE001 - whatever a half-written file does to the loader, the last good entries stay.
            self._again = min(self._again, time.monotonic() + _RETRY_SECONDS)
            self._complain(type(error).__name__)
        else:
            self._complaint = None

    def _load(self, found: os.stat_result | None) -> Iterable[Entry]:
        """Read the entries anew, unless there is no file to read: a loader may have defaults, a pipe would hold it."""
        if found is None or not stat.S_ISREG(found.st_mode):
            raise FileNotFoundError
        return self._entries()

    def _complain(self, reason: str) -> None:
        if reason != self._complaint:
            _log.warning("%s cannot be used (%s); the sources that it named before stay", self._settings, reason)
        self._complaint = reason

    def _take(self, entries: Iterable[Entry]) -> None:
        files: dict[Path, _KeyFile] = {}
        pairs: dict[tuple[str, str], Sequence[_KeyFile]] = {}
        for entry in entries:
            for path in entry.key_files:
                files[path] = files.get(path) or self._files.get(path) or _KeyFile(path)
            pairs[entry.workflow, entry.trigger] = [files[path] for path in entry.key_files]
        for file in files.values():
            file.state()
        self._files, self._pairs = files, pairs


class _KeyFile:
    """A key file and what was last read of it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: _Stamp | None = None
        self._sure = False
        self._state: KeyState | None = None
        self._complaint: str | None = None

    def state(self) -> KeyState | None:
        """Return the state of the key as the file has it now, or None where it has none that can be used."""
        found = _look(self._path)
        stamp = _stamp(found)
        if not self._sure or stamp != self._seen:
            self._seen = stamp
            self._read(found)
            self._sure = self._state is not None and _settled(found)
        return self._state

    def _read(self, found: os.stat_result | None) -> None:
        complaint = None
        try:
            self._state = key_state(_content(self._path, found))
        except OSError as error:
            self._state, complaint = None, error.strerror
        except ValueError as error:
            self._state, complaint = None, str(error)
        if complaint not in (None, self._complaint):
            _log.warning("the key file %s cannot be used: %s", self._path, complaint)
        self._complaint = complaint


def _content(path: Path, found: os.stat_result | None) -> bytes:
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise ValueError("it is no regular file")
    with path.open("rb") as file:
        return file.read(MAX_KEY_BYTES + 1)


class _Dummy:
    """Stands where a pair has no key file: costs a look at some file, and signs nothing that anyone could send."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.key = key_state(secrets.token_bytes(MIN_KEY_BYTES))

    def state(self) -> KeyState | None:
        """Return the dummy."""
        _stamp(_look(self._path))
        return self.key


_Stamp: TypeAlias = tuple[int, int, int, int]


def _look(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _stamp(found: os.stat_result | None) -> _Stamp | None:
    """Return what changes with a file: its content's time, its own (also by chmod), its size and its inode."""
    return found and (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


def _settled(found: os.stat_result | None) -> bool:
    return found is not None and time.time_ns() - found.st_ctime_ns > _UNSETTLED

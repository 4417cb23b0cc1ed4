"""Trials side by side, each in a fork of this process."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias, TypeVar

from tools.mutants.score import UNJUDGED, Verdict

ItemT = TypeVar("ItemT")
Judge: TypeAlias = Callable[[ItemT], Verdict]

# Far longer than any trial takes, also beside others.
PATIENCE_SECONDS: Final = 120.0


class _Running(NamedTuple):
    pid: int
    number: int
    since: float


def run(items: Iterable[ItemT], judge: Judge[ItemT], jobs: int) -> Generator[tuple[ItemT, Verdict]]:
    """Judge each item in a fork, so many at once, and give the verdicts as they come.

    A fork that dies, or takes far too long, gives none; what is not judged is tried once more, and then given as that.
    Whoever leaves early ends the forks that run.
    """
    every = list(items)
    waiting, repeated = deque(range(len(every))), set[int]()
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:
        stack.callback(_end_all, selector)
        while waiting or selector.get_map():
            while waiting and len(selector.get_map()) < jobs:
                number = waiting.popleft()
                _start(selector, number, lambda number=number: judge(every[number]))  # type: ignore[misc]
            for number, verdict in _ended(selector):
                if verdict.judged or number in repeated:
                    yield every[number], verdict
                else:
                    repeated.add(number)
                    waiting.append(number)


def _start(selector: selectors.BaseSelector, number: int, judge: Callable[[], Verdict]) -> None:
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        selector.register(read, selectors.EVENT_READ, _Running(pid, number, time.monotonic()))
        return
    try:
        os.setsid()
        _be_quiet()
        verdict = judge()
    except BaseException as error:  # noqa: BLE001 - whatever it is, the verdict has to be told.
        verdict = Verdict(UNJUDGED, f"{type(error).__name__}: {error}")
    os.write(write, json.dumps([verdict.by, verdict.where[:2000]]).encode())
    os._exit(0)


def _be_quiet() -> None:
    output = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(output, stream)


def _ended(selector: selectors.BaseSelector) -> Iterator[tuple[int, Verdict]]:
    for key, _ in selector.select(timeout=1):
        told = os.read(key.fd, 1 << 16)
        yield _taken(selector, key, Verdict(*json.loads(told)) if told else Verdict(UNJUDGED, "it died"))
    for key in list(selector.get_map().values()):
        if time.monotonic() - key.data.since > PATIENCE_SECONDS:
            yield _taken(selector, key, Verdict(UNJUDGED, "it took too long"))


def _taken(selector: selectors.BaseSelector, key: selectors.SelectorKey, verdict: Verdict) -> tuple[int, Verdict]:
    selector.unregister(key.fileobj)
    os.close(key.fd)
    _end(key.data)
    return key.data.number, verdict


def _end_all(selector: selectors.BaseSelector) -> None:
    for key in selector.get_map().values():
        _end(key.data)


def _end(running: _Running) -> None:
    """End a fork with all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(running.pid, 0)

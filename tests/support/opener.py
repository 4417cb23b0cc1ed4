"""The process behind forks.py: imports what `gatehouse` needs, and then forks itself for each that is to run.

A fork gets its order as JSON, and four descriptors beside it: its standard streams, and where to tell its exit code. It
has a door of its own, where it may ask for forks as well.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import socket
import sys
from typing import Any, Final

from tests.support.executors import DOOR, main

# What is imported beforehand.
_IMPORTED: Final = (
    *("tools.commands.audit", "tools.commands.check", "tools.commands.event", "tools.commands.generate"),
    *("tools.commands.holds", "tools.commands.init", "tools.commands.install", "tools.commands.join"),
    *(
        "tools.commands.joins",
        "tools.commands.runs",
        "tools.commands.serve",
        "tools.commands.sources",
        "tools.commands.workflows",
    ),
    *("alembic.command", "psycopg", "tools.executor.child"),
)
_ORDER_BYTES: Final = 1 << 18


def open_forks(first: socket.socket) -> dict[str, Any] | None:
    """Fork as often as is asked; returns in each fork with its order, here with None once nobody asks any more."""
    poller = select.poll()
    poller.register(first, select.POLLIN)
    doors = {first.fileno(): first}
    running: dict[int, tuple[int, int]] = {}
    while True:
        for ready, _ in poller.poll():
            if ready in running:
                poller.unregister(ready)
                _tell_end(ready, *running.pop(ready))
                continue
            door = doors[ready]
            order, (stdin, stdout, stderr, told) = _received(door)
            if not order:
                if door is first:
                    return None
                poller.unregister(door)
                doors.pop(ready).close()
                continue
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            pid = os.fork()
            if pid == 0:
                for stream, descriptor in enumerate((stdin, stdout, stderr)):
                    os.dup2(descriptor, stream)
                os.dup2(theirs.fileno(), DOOR, inheritable=False)
                os.closerange(DOOR + 1, 1 << 16)
                return dict(json.loads(order))
            with contextlib.suppress(BrokenPipeError):
                door.send(str(pid).encode())
            theirs.close()
            for descriptor in (stdin, stdout, stderr):
                os.close(descriptor)
            doors[ours.fileno()] = ours
            poller.register(ours, select.POLLIN)
            end = os.pidfd_open(pid)
            running[end] = pid, told
            poller.register(end, select.POLLIN)


def _received(door: socket.socket) -> tuple[bytes, list[int]]:
    try:
        order, descriptors, *_ = socket.recv_fds(door, _ORDER_BYTES, 4)
    except ConnectionResetError:
        # Who was killed leaves what it has not read.
        return b"", [-1] * 4
    return order, descriptors or [-1] * 4


def _tell_end(end: int, pid: int, told: int) -> None:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(BrokenPipeError):
        os.write(told, str(code).encode())
    for descriptor in (end, told):
        os.close(descriptor)


def import_beforehand() -> None:
    """Import what the forks need."""
    for module in _IMPORTED:
        importlib.import_module(module)
    # Else each fork would go through all of this for what is to be freed, when it ends if not before.
    gc.collect()
    gc.freeze()


def serve(door: socket.socket) -> None:
    """Fork as often as is asked; each fork becomes the `gatehouse` that its order describes, and exits as that does."""
    mine = open_forks(door)
    if mine is not None:
        os.chdir(mine["cwd"])
        os.environ.clear()
        os.environ.update(mine["environment"])
        sys.argv = ["gatehouse", *mine["arguments"]]
        main()


if __name__ == "__main__":
    import_beforehand()
    serve(socket.socket(fileno=int(sys.argv[1])))

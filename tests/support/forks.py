"""Runs `gatehouse` in forks of one process that has imported it: what takes a second anew is there in a tenth of it.

In CI each server starts anew, as it does for a user, and what is run to its end is a fork there too. A fork is an
ordinary process with its own arguments, environment, folder and streams; only its parent is another, which says when it
has ended and how.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final, Protocol

from tests.support.effort import THOROUGH

COMMAND: Final = str(Path(sys.executable).with_name("gatehouse"))

# What the interpreter looks at when it starts: with other values of these, a process has to be a new one.
_AT_START: Final = ("PYTHON", "LANG", "LC_", "LD_", "MALLOC_", "OPENSSL_", "SSL_")

_one_at_a_time = threading.Lock()
_given: list[socket.socket] = []


class Process(Protocol):
    """What the tests use of a process, be it a fork or not."""

    pid: int
    stdout: IO[str] | None

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int) -> None: ...


class Fork:
    """A `gatehouse` process that the opener of forks has made."""

    def __init__(self, pid: int, end: int, stdout: IO[str] | None) -> None:
        self.pid = pid
        self.stdout = stdout
        self._end = end
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code as subprocess spells it, None while the process runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once the process has ended; raises TimeoutExpired."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("gatehouse", timeout or 0)
        return code

    def send_signal(self, sig: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def _look(self, timeout: float | None) -> int | None:
        if self._code is None:
            ended = select.poll()
            ended.register(self._end, select.POLLIN)
            if ended.poll(None if timeout is None else timeout * 1000):
                self._code = int(os.read(self._end, 16))
                os.close(self._end)
        return self._code


def start(
    arguments: Sequence[str], *, environment: Mapping[str, str], stderr: IO[str], command: Sequence[str] = (COMMAND,)
) -> Process:
    """Start `command`, by default gatehouse, with a pipe for its standard output."""
    if THOROUGH or tuple(command) != (COMMAND,) or _anew(environment):
        return subprocess.Popen(
            [*command, *arguments], stdout=subprocess.PIPE, stderr=stderr, text=True, env=dict(environment)
        )
    read, write = os.pipe()
    with Path(os.devnull).open() as nothing:
        fork = _fork(arguments, environment, Path.cwd(), (nothing.fileno(), write, stderr.fileno()), os.fdopen(read))
    os.close(write)
    return fork


def run(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    text: str | None = None,
    cwd: Path | None = None,
    timeout: float,
) -> subprocess.CompletedProcess[str]:
    """Run gatehouse to its end with this text as its standard input; raises TimeoutExpired."""
    if _anew(environment):
        return subprocess.run(
            [COMMAND, *arguments],
            input=text,
            cwd=cwd,
            env=dict(environment),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    with contextlib.ExitStack() as stack:
        given, out, err = (stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(3))
        given.write(text or "")
        given.seek(0)
        streams = (given.fileno(), out.fileno(), err.fileno())
        fork = _fork(arguments, environment, cwd or Path.cwd(), streams, None)
        try:
            code = fork.wait(timeout)
        except subprocess.TimeoutExpired:
            fork.send_signal(signal.SIGKILL)
            raise
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess([COMMAND, *arguments], code, out.read(), err.read())


def _anew(environment: Mapping[str, str]) -> bool:
    def at_start(variables: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in variables.items() if name.startswith(_AT_START)}

    return at_start(environment) != at_start(os.environ)


def _fork(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    cwd: Path,
    streams: tuple[int, int, int],
    stdout: IO[str] | None,
) -> Fork:
    order = json.dumps({"arguments": list(arguments), "environment": dict(environment), "cwd": str(cwd)})
    end, told = os.pipe()
    with _one_at_a_time:
        door = _door()
        socket.send_fds(door, [order.encode()], [*streams, told])
        pid = int(door.recv(16))
    os.close(told)
    return Fork(pid, end, stdout)


def use(door: socket.socket) -> None:
    """Ask whoever is at the other end of this door for forks, from now on."""
    _given.append(door)


def _door() -> socket.socket:
    return _given[-1] if _given else _own_door()


@functools.cache
def _own_door() -> socket.socket:
    """The way to the process that forks, which ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", "tests.support.opener", str(theirs.fileno())]
        opener = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, cwd=Path(__file__).parents[2]
        )
    atexit.register(opener.wait)
    atexit.register(ours.close)
    return ours

"""A running server as the operating system sees it: what it uses, and limits that are set on it from outside."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.gatehouse import Gatehouse


class Used(NamedTuple):
    """How many of each."""

    descriptors: int
    threads: int


def used(server: Gatehouse) -> Used:
    """What the server has now."""
    process = Path(f"/proc/{server.pid}")
    return Used(len(list((process / "fd").iterdir())), len(list((process / "task").iterdir())))


def beside_the_database(server: Gatehouse) -> int:
    """How many descriptors the server has beside those of its database, which it opens as it needs them."""
    names = []
    for descriptor in Path(f"/proc/{server.pid}/fd").iterdir():
        # One may be closed meanwhile.
        with contextlib.suppress(FileNotFoundError):
            names.append(descriptor.readlink().name)
    return sum(not name.startswith("gatehouse.db") for name in names)


def peak_memory(server: Gatehouse) -> int:
    """The most memory that the server has had, in KiB."""
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])


@contextlib.contextmanager
def no_file_beyond(server: Gatehouse, size: int) -> Iterator[None]:
    """Let the running server write no file beyond this many bytes, as a disk that is full would."""
    pid = committing(server)
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def committing(server: Gatehouse) -> int:
    """Return the id of the process that commits for a running server: the child that is a fork of it."""
    command = Path(f"/proc/{server.pid}/cmdline").read_bytes()
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    [child] = [each for each in children if Path(f"/proc/{each}/cmdline").read_bytes() == command]
    return int(child)


def allow_descriptors(server: Gatehouse, more: int) -> None:
    """Let the running server have so many more descriptors than it has, and never again more than that."""
    limit = used(server).descriptors + more
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (limit, limit))

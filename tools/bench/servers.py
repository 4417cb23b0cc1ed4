"""Servers under measurement: started on a free port of 127.0.0.1, waited for, and ended by process id."""

import contextlib
import http.client
import os
import random
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
START_SECONDS: Final = 30.0
END_SECONDS: Final = 15.0


class BenchError(Exception):
    """The measurement cannot be made or cannot be trusted; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """How a server is started, where it listens, with TLS or without, and the database that it fills."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    port: int
    folder: Path
    database: Path
    tls: bool = False

    @property
    def key_file(self) -> Path:
        """The key that the server knows the demo source by."""
        return self.folder / "sources" / "demo.key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running program; `first_answer` is the seconds from its start to its first answer."""

    program: Program
    pid: int
    first_answer: float

    @property
    def address(self) -> str:
        """Host and port, as a Host header has them."""
        return f"{HOST}:{self.program.port}"

    @property
    def url(self) -> str:
        """The server's address with its scheme, without a path."""
        return f"{'https' if self.program.tls else 'http'}://{self.address}"


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on at this moment.

    It is below those that systems give to whoever asks for none in particular: no client takes it meanwhile.
    """
    while True:
        port = random.randrange(20_000, 32_768)  # noqa: S311 - no secret
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port))
            return port


@contextlib.contextmanager
def serving(program: Program) -> Iterator[Server]:
    """Run a program until the block ends; raises BenchError where it does not answer within START_SECONDS."""
    log = program.folder / f"{program.name}.log"
    with log.open("ab") as output:
        began = time.perf_counter()
        process = subprocess.Popen(  # noqa: S603 - the bench's own commands, no shell
            program.command, env=os.environ | program.environment, stdout=output, stderr=output
        )
    try:
        _wait_for_answer(process, program, log)
        yield Server(program=program, pid=process.pid, first_answer=time.perf_counter() - began)
    finally:
        _end(process)


def _wait_for_answer(process: subprocess.Popen[bytes], program: Program, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if answers(program.port, tls=program.tls):
            return
        time.sleep(0.01)
    tail = log.read_text(errors="replace")[-2000:]
    raise BenchError(f"{program.name} ended, or did not answer within {START_SECONDS:g} s; the end of its log:\n{tail}")


def answers(port: int, *, tls: bool = False) -> bool:
    """Whether an HTTP server answers GET /health with anything at all."""
    connection = _tls_connection(port) if tls else http.client.HTTPConnection(HOST, port, timeout=2)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status > 0
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _tls_connection(port: int) -> http.client.HTTPSConnection:
    # Who answers is of no interest here, only whether somebody does.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(HOST, port, timeout=2, context=context)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def cpu_seconds(pid: int) -> float | None:
    """The processor time that a server has used so far, with its forks', of all threads; None where nothing tells.

    It is to the nanosecond: /proc counts in hundredths of a second, of which a round of streams may take ten.
    """
    try:
        # The clock that clock_getcpuclockid(3) gives on Linux, which Python has for threads alone.
        return sum(time.clock_gettime(~each << 3 | 2) for each in (pid, *forks(pid)))
    except OSError:
        return None


def forks(pid: int) -> list[int]:
    """The children of a process that run its own command; none where there is no /proc to ask.

    Such is the process that commits for a server, which is a part of it; its executor is a program of its own.
    """
    found = []
    # Any of them may end meanwhile.
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        for task in Path(f"/proc/{pid}/task").iterdir():
            children = map(int, (task / "children").read_text().split())
            found += [each for each in children if Path(f"/proc/{each}/cmdline").read_bytes() == command]
    return found


def thread_seconds(pid: int) -> dict[int, float]:
    """The processor time that each thread of a process has used so far, by its id; none where there is no /proc."""
    spent = {}
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        # Any of them may end meanwhile.
        with contextlib.suppress(OSError):
            # The name, which may hold anything, ends at the last parenthesis; utime and stime are 12th from it.
            user, system = (thread / "stat").read_text().rpartition(")")[2].split()[11:13]
            spent[int(thread.name)] = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return spent


def peak_memory(pid: int) -> int | None:
    """The most bytes that a process has had in memory (VmHWM); None where there is no /proc to ask."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return None
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def memory_of_forks(pid: int) -> int | None:
    """The bytes that the forks of a process have for themselves alone by now; None where there is no /proc to ask.

    What they share with it, its own memory has. Together with its peak they are the most that the server can have had.
    """
    try:
        return sum(map(_private, forks(pid))) if Path(f"/proc/{pid}").exists() else None
    except OSError:
        return None


def _private(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


def child(pid: int, module: str) -> int | None:
    """The process that another one runs this module in; None where there is none, or no /proc to ask."""
    for process in Path("/proc").glob("[0-9]*"):
        # Any of them may end meanwhile.
        with contextlib.suppress(OSError):
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and module.encode() in (process / "cmdline").read_bytes().split(b"\0"):
                return int(process.name)
    return None

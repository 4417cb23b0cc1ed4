import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.gatehouse import wait_for
from tools.bench.servers import (
    HOST,
    BenchError,
    Program,
    answers,
    child,
    cpu_seconds,
    forks,
    free_port,
    memory_of_forks,
    peak_memory,
    serving,
    thread_seconds,
)

ANSWERING = """
import http.server, sys
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler).serve_forever()
"""

# A server with a fork that counts for something, and another child that does not.
FORKING = (
    """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
kept, end = os.pipe()
if os.fork() == 0:
    os.close(end)
    mine, until = os.urandom(20_000_000), time.process_time() + 0.3
    while time.process_time() < until: pass
    os.read(kept, 1)
    os._exit(0)
"""
    + ANSWERING
)


def program(folder: Path, source: str) -> Program:
    port = free_port()
    return Program(
        name="sample",
        command=[sys.executable, "-c", source, str(port)],
        environment={},
        port=port,
        folder=folder,
        database=folder / "sample.db",
    )


def test_a_free_port_can_be_bound() -> None:
    with socket.socket() as taker:
        taker.bind((HOST, free_port()))


def test_a_server_is_waited_for_and_ended(tmp_path: Path) -> None:
    sample = program(tmp_path, ANSWERING)
    with serving(sample) as server:
        assert answers(sample.port)
        assert server.first_answer > 0
    assert not answers(sample.port)
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, 0)


def test_a_program_that_ends_at_once_is_told_with_its_log(tmp_path: Path) -> None:
    sample = program(tmp_path, "raise SystemExit('no such setting')")
    with pytest.raises(BenchError, match="no such setting"), serving(sample):
        pytest.fail("it never answered")


def test_the_peak_memory_of_a_process_is_in_bytes() -> None:
    peak = peak_memory(os.getpid())
    assert peak is None or peak > 10_000_000


def test_the_peak_memory_of_no_process_is_unknown() -> None:
    assert peak_memory(2**22 + 1) is None


def test_the_processor_time_of_a_process_only_grows() -> None:
    before, after = cpu_seconds(os.getpid()), cpu_seconds(os.getpid())
    assert before is None or (after is not None and 0 < before <= after)


def test_the_processor_time_of_no_process_is_unknown() -> None:
    assert cpu_seconds(2**22 + 1) is None


def test_the_processor_time_of_a_process_is_that_of_its_threads() -> None:
    threads = thread_seconds(os.getpid())
    assert not Path("/proc/self/stat").exists() or os.getpid() in threads
    assert all(seconds >= 0 for seconds in threads.values())
    assert thread_seconds(2**22 + 1) == {}


def test_a_process_is_found_by_its_parent_and_the_module_that_it_runs(tmp_path: Path) -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("there is no /proc")
    port = free_port()
    receiver = replace(
        program(tmp_path, ""), command=[sys.executable, "-m", "tools.bench.receiver", str(port)], port=port
    )
    with serving(receiver) as server:
        assert child(os.getpid(), "tools.bench.receiver") == server.pid
        assert child(os.getpid(), "tools.bench") is None
        assert child(server.pid, "tools.bench.receiver") is None


def test_the_forks_of_a_server_are_a_part_of_it_and_its_other_children_are_not(tmp_path: Path) -> None:
    if not Path("/proc/self/smaps_rollup").exists():
        pytest.skip("there is no /proc")
    with serving(program(tmp_path, FORKING)) as server:
        [fork] = forks(server.pid)
        assert child(server.pid, "import sys; sys.stdin.read()") not in (None, fork)
        wait_for(lambda: (cpu_seconds(fork) or 0) > 0.3)
        whole, part = cpu_seconds(server.pid), cpu_seconds(fork)
        assert whole is not None
        assert part is not None
        assert whole > part
        own = memory_of_forks(server.pid)
        assert own is not None
        assert own > 20_000_000
    assert forks(server.pid) == []


def test_a_process_without_forks_has_no_memory_in_them() -> None:
    assert memory_of_forks(os.getpid()) in (0, None)
    assert memory_of_forks(2**22 + 1) is None

"""py-spy, which looks at a running process from outside, a hundred times a second."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from tools.bench.servers import BenchError

# Twice as often it slows the server down, and finds threads awake that it has woken itself.
SAMPLES_A_SECOND: Final = 100
END_SECONDS: Final = 60

Format = Literal["flamegraph", "raw"]


def py_spy() -> str:
    """Where py-spy is, beside this Python or on the path; raises BenchError with the way to install it."""
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    found = shutil.which("py-spy", path=os.pathsep.join(folders))
    if found is None:
        raise BenchError(f"profiles come from py-spy, which is not installed: {sys.executable} -m pip install py-spy")
    return found


def record(pid: int, seconds: int, form: Format, file: Path) -> None:
    """Write what a process was seen to do in so many seconds, threads that wait left out, to a file.

    Raises BenchError where py-spy may not attach to the process, or cannot read it.
    """
    done = subprocess.run(  # noqa: S603 - py-spy with the bench's own arguments, no shell
        [py_spy(), *_arguments(pid, seconds, form, file)],
        capture_output=True,
        text=True,
        timeout=seconds + END_SECONDS,
        check=False,
    )
    if done.returncode == 0:
        return
    # What follows is a trace of py-spy's own.
    said = done.stderr.strip().partition("\n")[0]
    if "permission denied" in said.lower() or "not permitted" in said.lower():
        raise BenchError(
            f"py-spy may not look into process {pid}: run this as root or with CAP_SYS_PTRACE, or let a user look into"
            f" processes of their own (sysctl kernel.yama.ptrace_scope=0); it said: {said}"
        )
    raise BenchError(f"py-spy ended with {done.returncode}: {said}")


def _arguments(pid: int, seconds: int, form: Format, file: Path) -> Sequence[str]:
    sampling = [f"--pid={pid}", f"--duration={seconds}", f"--rate={SAMPLES_A_SECOND}"]
    return ["record", *sampling, f"--format={form}", f"--output={file}", "--threads", "--function"]

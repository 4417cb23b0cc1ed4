"""What the installs of the bench run: `python -m tools.bench.emitter LINES [RATE GO]` writes lines as programs do.

Without a rate they come as fast as they are taken, the same in every run. With one they come evenly, so many a second,
once the file GO is there, and each begins with the time at which it was written, in microseconds since 1970.
"""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.bench.reports import line

WRITTEN_DIGITS: Final = 16
_PAUSE_SECONDS: Final = 0.0005


def message(number: int, written: int = 0) -> bytes:
    """A line with its end."""
    return f"{written:0{WRITTEN_DIGITS}d} {line(number)['message']}\n".encode()


def main(arguments: Sequence[str]) -> None:
    """Write the lines that the arguments ask for."""
    if len(arguments) == 1:
        _write(b"".join(map(message, range(int(arguments[0])))))
        return
    lines, rate, go = int(arguments[0]), float(arguments[1]), Path(arguments[2])
    while not go.exists():
        time.sleep(0.01)
    began, written = time.perf_counter(), 0
    while written < lines:
        due = min(lines, int((time.perf_counter() - began) * rate) + 1)
        now = time.time_ns() // 1000
        _write(b"".join(message(number, now) for number in range(written, due)))
        written = due
        time.sleep(_PAUSE_SECONDS)


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(sys.stdout.fileno(), data) :]


if __name__ == "__main__":
    main(sys.argv[1:])

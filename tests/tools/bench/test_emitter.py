import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools.bench.emitter import WRITTEN_DIGITS, main
from tools.bench.reports import line

COMMAND = [sys.executable, "-m", "tools.bench.emitter"]


def test_without_a_rate_the_lines_are_the_same_every_time(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    main(["3"])
    expected = [f"{0:0{WRITTEN_DIGITS}d} {line(number)['message']}" for number in range(3)]
    assert capfdbinary.readouterr().out.decode().splitlines() == expected


def test_with_a_rate_the_lines_come_evenly_from_when_the_file_is_there_and_tell_their_times(tmp_path: Path) -> None:
    command = [*COMMAND, "100", "500", str(tmp_path / "go")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as emitter:
        began = time.time_ns() // 1000
        (tmp_path / "go").touch()
        out, _ = emitter.communicate(timeout=30)
    written = [int(each.split(" ", 1)[0]) for each in out.splitlines()]
    assert [each.split(" ", 1)[1] for each in out.splitlines()] == [line(number)["message"] for number in range(100)]
    assert began <= written[0]
    assert written == sorted(written)
    # The last line is due 99 five-hundredths of a second after the first, and is never early.
    assert written[-1] - written[0] > 190_000

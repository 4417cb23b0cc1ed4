"""bench-results/: where the bench works, and where it keeps what came of that."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tools.bench.servers import BenchError

RESULTS: Final = Path("bench-results")


def now() -> str:
    """The time as results are dated: RFC 3339, UTC, whole seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def place(date: str, what: str = "") -> Path:
    """Where a result of this date is kept, without a suffix; `what` comes before the date where there is one."""
    RESULTS.mkdir(exist_ok=True)
    return RESULTS / f"{f'{what}-' if what else ''}{date.replace(':', '')}"


def keep(document: Mapping[str, Any], what: str = "") -> Path:
    """Write a document, which has its `date`, as JSON, over an earlier one of that date; returns the file."""
    file = place(document["date"], what).with_suffix(".json")
    file.write_text(json.dumps(document, indent=2) + "\n")
    return file


def read(file: Path) -> dict[str, Any]:
    """A document in which servers were compared; raises BenchError for any other file."""
    try:
        document = json.loads(file.read_text())
    except ValueError:
        document = None
    if not isinstance(document, dict) or "runs" not in document:
        raise BenchError(f"{file} has no result of this bench in which servers are compared")
    return document


@contextmanager
def work_folder() -> Iterator[Path]:
    """A folder that is gone when the block ends."""
    RESULTS.mkdir(exist_ok=True)
    # Not in /tmp, which may be memory: what is measured is durable.
    with TemporaryDirectory(prefix="work-", dir=RESULTS.resolve()) as name:
        yield Path(name)

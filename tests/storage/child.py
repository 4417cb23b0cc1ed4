"""A process of its own that admits events, to be killed or to run out of disk: `python -m tests.storage.child …`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import sys
from pathlib import Path

from storage.database import Storage
from storage.errors import Unavailable
from storage.events import Admitted, Candidate
from tests.storage.work import PACKAGE, candidate, contents, new_run, open_storage, size


def tell(**what: object) -> None:
    """Tell the parent one line at once."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def acknowledge(storage: Storage, event: Candidate) -> None:
    """Admit an event and tell its id and its run, as an answer would."""
    outcome = await storage.admissions.admit(event)
    assert isinstance(outcome, Admitted)
    tell(event=event.event_id, run=outcome.run_id, new=outcome.new)


async def admit_until_killed(storage: Storage) -> None:
    """Keep 32 events in flight for ever."""

    async def deliver() -> None:
        while True:
            await acknowledge(storage, candidate())

    await asyncio.gather(*(deliver() for _ in range(32)))


async def run_out_of_disk(storage: Storage, folder: Path) -> None:
    """Let no file grow any more, meet the limit, lift it, and go on without opening anything anew."""
    await acknowledge(storage, candidate())
    largest = max(map(size, contents(folder)))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest + 200_000, hard))
    big = candidate(run=new_run(input='"' + "x" * 1_000_000 + '"'))
    for _ in range(2):
        with contextlib.suppress(Unavailable):
            await acknowledge(storage, big)
            tell(error="the limit was not met")
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    await acknowledge(storage, big)
    await acknowledge(storage, candidate())


async def main(what: str, url: str, audit_file: Path) -> None:
    async with open_storage(url, audit_file) as storage:
        await storage.workflows.apply(PACKAGE.digest, PACKAGE.snapshot, PACKAGE.definitions)
        if what == "admit":
            await admit_until_killed(storage)
        else:
            await run_out_of_disk(storage, audit_file.parent)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))

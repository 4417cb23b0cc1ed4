"""What both peers of the installer do alike: know the install code, read where a stream begins, run the plan's steps.

BENCH_CODE names the file of the code, BENCH_PLAN that of the plan.
"""

import asyncio
import hmac
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, cast

from handlers.installer.install_code import given_code, normal
from handlers.installer.lines import Lines
from handlers.installer.plan import load
from storage.installer.events import NewEvent

CODE: Final = normal(Path(os.environ["BENCH_CODE"]).read_bytes().strip())
PLAN: Final = Path(os.environ["BENCH_PLAN"])
LARGEST: Final = (1 << 63) - 1
PIPE_BYTES: Final = 65_536

_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}")


def is_known(authorization: Sequence[bytes]) -> bool:
    """Whether the values of Authorization are the install code; the bench has no use for a lock against guessing."""
    return len(authorization) == 1 and hmac.compare_digest(normal(given_code(authorization[0])), CODE)


def position(after: Sequence[str], last_event_id: Sequence[str]) -> int | None:
    """The id after which a stream begins: that of the header, else of the query, else 0; None where one is none."""
    for given in (after, last_event_id):
        if len(given) > 1 or any(not _NUMBER.fullmatch(each) or int(each) > LARGEST for each in given):
            return None
    return int((*last_event_id, *after, "0")[0])


async def run(store: Callable[[Sequence[NewEvent]], Awaitable[None]]) -> None:
    """Run the steps of the plan and have their events stored: what comes meanwhile waits in the pipe for its turn."""
    for step in load(PLAN):
        await store([NewEvent("step", step=step.name, status="started")])
        process = await asyncio.create_subprocess_exec(
            *step.command.run,
            cwd=PLAN.parent,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output = cast(asyncio.StreamReader, process.stdout)
        lines = Lines()
        while data := await output.read(PIPE_BYTES):
            if events := [NewEvent("log", step=step.name, line=line) for line in lines.feed(data)]:
                await store(events)
        rest = [NewEvent("log", step=step.name, line=line) for line in lines.end()]
        if code := await process.wait():
            detail = f"it ended with {code}"
            failed = NewEvent("step", step=step.name, status="failed", detail=detail)
            await store([*rest, failed, NewEvent("verdict", outcome="failed", detail=detail)])
            return
        await store([*rest, NewEvent("step", step=step.name, status="succeeded")])
    await store([NewEvent("verdict", outcome="succeeded")])

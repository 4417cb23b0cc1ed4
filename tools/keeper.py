"""Runs what a server does beside its listeners, until it stops."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, TypeAlias

log = logging.getLogger("gatehouse.keeper")

# What has failed begins anew after so long, and what does not end at the stop is cut off after so long, or as told.
PAUSE_SECONDS: Final = 1.0
STOP_SECONDS: Final = 1.0

Work: TypeAlias = Callable[[asyncio.Event], Awaitable[None]]


@contextlib.asynccontextmanager
async def kept(work: Work, stopping: asyncio.Event, *, patience_seconds: float = STOP_SECONDS) -> AsyncIterator[None]:
    """Run `work` beside the block, again where it fails; at the end of the block `stopping` is set and it has to end.

    `work` is given `stopping`, by which it is told to end; it is cut off `patience_seconds` after the block. A failure
    is logged.
    """
    task = asyncio.create_task(_keep(work, stopping))
    try:
        yield
    finally:
        stopping.set()
        await asyncio.wait([task], timeout=patience_seconds)
        task.cancel()
        await asyncio.wait([task])


async def _keep(work: Work, stopping: asyncio.Event) -> None:
    while not stopping.is_set():
        try:
            await work(stopping)
        except Exception as error:
            log.error("work beside the listeners failed and begins anew", exc_info=error)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), PAUSE_SECONDS)

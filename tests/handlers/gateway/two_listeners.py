"""A process with two listeners over the small documents: `python -m tests.handlers.gateway.two_listeners FOLDER`.

It prints the ports as a line of JSON. `GET /v1/misbehave` waits for ever, `GET /v1/frail` until the stop.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import uvloop

from handlers.gateway.server import Bound, bind, serve
from handlers.gateway.telemetry import Metrics, RequestLog, configure_logging
from tests.handlers.gateway.certificates import Certificates
from tests.handlers.gateway.serving import new_listener
from tests.handlers.gateway.small_api import Open, Shop, small_apis


class Waiting(Shop):
    """A shop whose two misdeeds are to keep a caller waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.stopping = asyncio.Event()

    async def misbehave(self, _: Open) -> Any:
        print("entered", flush=True)  # noqa: T201 - the test reads it.
        await asyncio.Event().wait()

    async def frail(self, _: Open) -> Any:
        print("entered", flush=True)  # noqa: T201 - the test reads it.
        await self.stopping.wait()
        return await self.behave()


async def run(folder: Path) -> None:
    """Serve until a signal comes."""
    shop, metrics, request_log = Waiting(), Metrics(), RequestLog()
    sockets = {name: bind("127.0.0.1", 0) for name in ("control", "join")}
    tls = {"control": None, "join": Certificates(folder).server()}
    listeners = [
        Bound(new_listener(name, small_apis(shop), metrics, request_log), opened, tls[name])
        for name, opened in sockets.items()
    ]
    print(json.dumps({name: opened.getsockname()[1] for name, opened in sockets.items()}), flush=True)  # noqa: T201 - see above.
    await serve(listeners, shop.stopping.set)
    request_log.flush()


if __name__ == "__main__":
    configure_logging()
    uvloop.run(run(Path(sys.argv[1])))

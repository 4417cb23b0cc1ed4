"""A small server of its own: one ASGI application, without lifespan, logs or trust in what proxies say."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

import uvicorn

from tools.commands.terminal import STOPPING

# What is still being answered at the end is cut off after so long.
STOP_SECONDS: Final = 1


class Standalone(uvicorn.Server):
    """Serves until `stop`, which a signal calls where this is the main thread; the command goes on after it."""

    def __init__(self, app: Callable[..., Any], *, date_header: bool = True) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=date_header,
                timeout_graceful_shutdown=STOP_SECONDS,
            )
        )

    def stop(self) -> None:
        """Take nothing new, and end."""
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals for the end: uvicorn's own would end the process by the signal."""
        main = threading.current_thread() is threading.main_thread()
        before = {number: signal.signal(number, self._stopped) for number in STOPPING} if main else {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stopped(self, _: int, __: FrameType | None) -> None:
        self.stop()

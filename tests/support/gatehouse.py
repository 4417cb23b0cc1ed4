"""A real `gatehouse serve` on a state folder of its own, on free ports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

COMMAND = str(Path(sys.executable).with_name("gatehouse"))
PATIENCE_SECONDS = 30.0


class Gatehouse:
    """One server process; the state folder outlives it, so that it can be started again."""

    def __init__(
        self, state: Path, *, arguments: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        self.state = state
        self._arguments = list(arguments)
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[str] | None = None
        self.log_file = state.parent / f"{state.name}.log"
        self.control = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.stop()

    @property
    def pid(self) -> int:
        """The id of the running process."""
        assert self._process is not None
        return self._process.pid

    @property
    def port(self) -> int:
        """The port of the control listener."""
        port = urlsplit(self.control).port
        assert port is not None
        return port

    @property
    def token(self) -> str:
        """The operator's token."""
        return (self.state / "operator.token").read_text().strip()

    @property
    def operator(self) -> dict[str, str]:
        """The header that authenticates the operator."""
        return {"Authorization": f"Bearer {self.token}"}

    @property
    def key(self) -> bytes:
        """The key of the demo source."""
        return (self.state / "sources/demo.key").read_bytes()

    @property
    def log(self) -> str:
        """What the server has logged, over all its starts."""
        return self.log_file.read_text()

    def environment(self) -> dict[str, str]:
        """The environment in which the server, and commands beside it, run: free ports, no settings of the caller."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith("GATEHOUSE_")}
        return plain | {"GATEHOUSE_CONTROL_BIND": "127.0.0.1:0"} | self._environment

    def start(self) -> None:
        """Start the server and wait until it says where it listens."""
        with self.log_file.open("a") as log:
            self._process = subprocess.Popen(
                [COMMAND, "serve", "--state", str(self.state), "--json", *self._arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self.environment(),
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the server did not start: {self.log}"
        self.control = json.loads(line)["listeners"]["control"]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, wait for the end and return the exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        code = self._process.wait(PATIENCE_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
        return code

    def kill(self) -> None:
        """End the server as a power cut would."""
        self.stop(signal.SIGKILL)

    def restart(self, *arguments: str) -> None:
        """Stop, and start again with other arguments."""
        self.stop()
        self._arguments = list(arguments)
        self.start()

    def run(self, *command: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run another gatehouse command in the server's environment."""
        return subprocess.run(
            [COMMAND, *command],
            input=stdin,
            capture_output=True,
            text=True,
            env=self.environment(),
            timeout=PATIENCE_SECONDS,
            check=False,
        )


def wait_for(condition: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
    """Return the first true value of `condition`, asked again and again; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError("the condition did not come about")

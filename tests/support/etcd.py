"""Real etcd processes on loopback, with a folder each and nothing of this machine's in them."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self

import httpx

from tests.support.gatehouse import PATIENCE_SECONDS, wait_for

# A cluster of one machine needs no second to notice that a member is away.
_PACE: Final = ("--heartbeat-interval=20", "--election-timeout=200")


class Etcd:
    """One etcd process; its data outlive it, so that it can be started again."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._folder = folder
        self.url = f"http://127.0.0.1:{_free_port()}"
        self.peer_url = f"http://127.0.0.1:{_free_port()}"
        self._cluster = f"{name}={self.peer_url}"
        self._state = "new"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def found(self) -> None:
        """Start it as the first member of a new cluster, and wait until it answers."""
        self.start()
        wait_for(self.answers)

    def join(self, peers: Sequence[tuple[str, str]]) -> None:
        """Start it as the newest member of a cluster whose members, it among them, have these names and peer URLs."""
        self._cluster = ",".join(f"{name}={url}" for name, url in peers)
        self._state = "existing"
        self.start()

    def start(self) -> None:
        """Start the process, on the data that an earlier one left."""
        with (self._folder / f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    "etcd",
                    f"--name={self.name}",
                    f"--data-dir={self._folder / self.name}",
                    f"--listen-client-urls={self.url}",
                    f"--advertise-client-urls={self.url}",
                    f"--listen-peer-urls={self.peer_url}",
                    f"--initial-advertise-peer-urls={self.peer_url}",
                    f"--initial-cluster={self._cluster}",
                    f"--initial-cluster-state={self._state}",
                    "--logger=zap",
                    *_PACE,
                ],
                stdout=log,
                stderr=log,
                env={"PATH": os.environ["PATH"]},
            )

    def pause(self) -> None:
        """Let it hang: it takes connections and answers none."""
        self._send(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on after a pause."""
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """End the process as a power cut would, where there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_SECONDS)
            self._process = None

    def end(self) -> int:
        """Wait until the process has ended by itself, and return its exit code."""
        assert self._process is not None
        return self._process.wait(PATIENCE_SECONDS)

    def answers(self) -> bool:
        """Tell whether the process answers as a voter does."""
        try:
            return self.ask("maintenance/alarm", {"action": "GET"}).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    def learns(self) -> bool:
        """Tell whether the process answers as a learner does."""
        try:
            return "not supported for learner" in self.ask("cluster/member/list", {}).text
        except httpx.HTTPError:
            return False

    def members(self) -> dict[str, bool]:
        """Return the peer URL of each member and whether it is a learner, as this member knows them."""
        members: list[dict[str, Any]] = self.ask("cluster/member/list", {}).json()["members"]
        return {member["peerURLs"][0]: member.get("isLearner", False) for member in members}

    def ask(self, call: str, request: Any) -> httpx.Response:
        """Send one request to the JSON gateway."""
        return httpx.post(f"{self.url}/v3/{call}", json=request, timeout=5, trust_env=False)

    def _send(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)


def _free_port() -> int:
    """Return a port that nothing listens on, out of those that the system gives to nobody who asks for any."""
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port

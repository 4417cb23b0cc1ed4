"""A real `gatehouse serve` on a state folder of its own, on free ports."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import ssl
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self, TypeAlias
from urllib.parse import urlsplit

import yaml

from tests.support import contract, forks, packages, recording, wire
from tests.support.deliveries import Delivery
from tests.support.forks import Process
from tests.support.packages import Workflow
from tests.support.wire import Answer, Fields, Wire, Wrap

COMMAND: Final = forks.COMMAND
PATIENCE_SECONDS: Final = 30.0

FREE_PORTS: Final = {f"GATEHOUSE_{name}_BIND": "127.0.0.1:0" for name in ("CONTROL", "INSTALLER", "JOIN")}

# A test's server has no executor beside it, unless CARRIED_OUT is in its environment.
NOT_CARRIED_OUT: Final = {"GATEHOUSE_EXECUTION_ENABLED": "false"}
CARRIED_OUT: Final = {"GATEHOUSE_EXECUTION_ENABLED": "true"}

# Every table in which an admission leaves a row.
ROWS: Final = ("admissions", "runs", "outbox", "audit")


class Gatehouse:
    """One server process; the state folder outlives it, so that it can be started again."""

    def __init__(
        self,
        state: Path,
        *,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] = (COMMAND,),
    ) -> None:
        self.state = state
        self._arguments = list(arguments)
        self._environment = dict(environment or {})
        self._command = list(command)
        self._process: Process | None = None
        self.log_file = state.parent / f"{state.name}.log"
        self.control = ""
        self.installer = ""
        self.join = ""

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
        return _port(self.control)

    @property
    def installer_port(self) -> int:
        """The port of the installer listener."""
        return _port(self.installer)

    @property
    def code(self) -> str:
        """The install code."""
        return (self.state / "install.code").read_text().strip()

    @property
    def join_port(self) -> int:
        """The port of the join listener."""
        return _port(self.join)

    @property
    def ca_file(self) -> Path:
        """The certificate of the authority that signed the server's."""
        return self.state / "ca/ca.pem"

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
        return plain | FREE_PORTS | NOT_CARRIED_OUT | self._environment

    def start(self) -> None:
        """Start the server and wait until it says where it listens; raises ChildProcessError where it ends instead."""
        with self.log_file.open("a") as log:
            self._process = forks.start(
                ["serve", "--state", str(self.state), "--json", *self._arguments],
                environment=self.environment(),
                stderr=log,
                command=self._command,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ChildProcessError(f"the server did not start: {self.log}")
        listeners = json.loads(line)["listeners"]
        self.control, self.installer, self.join = (listeners.get(name, "") for name in ("control", "installer", "join"))
        for name, url in listeners.items():
            recording.ACCOUNT.begins(_port(url), name)

    def ask_to_stop(self, number: int = signal.SIGTERM) -> None:
        """Send a signal, where the server runs."""
        if self._process is not None:
            self._process.send_signal(number)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, wait for the end and return the exit code."""
        self.ask_to_stop(number)
        assert self._process is not None
        code = self._process.wait(PATIENCE_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
        for url in (self.control, self.installer, self.join):
            recording.ACCOUNT.ends(_port(url) if url else 0)
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
        return forks.run(command, environment=self.environment(), text=stdin, timeout=PATIENCE_SECONDS)

    def send(
        self,
        method: str,
        target: str,
        fields: Fields = (),
        body: bytes | None = None,
        *,
        chunks: Iterable[bytes] = (),
    ) -> Answer:
        """Send one request and return its answer, which has to be one that the document knows."""
        answer = wire.send(self.port, wire.message(method, target, fields, body, chunks))
        contract.check(method, target, answer)
        return answer

    def operate(self, method: str, target: str, value: Any = None, fields: Mapping[str, str] | None = None) -> Answer:
        """Send a request of the operator's; `value` is its JSON body, None for none."""
        body = None if value is None else json.dumps(value).encode()
        kind = {} if body is None else {"Content-Type": "application/json"}
        return self.send(method, target, self.operator | kind | dict(fields or {}), body)

    def send_join(
        self,
        method: str,
        target: str,
        fields: Fields = (),
        body: bytes | None = None,
        *,
        chunks: Iterable[bytes] = (),
        over: Wire | None = None,
    ) -> Answer:
        """Do what `send` does on the join listener, `over` a connection or without a client certificate."""
        request = wire.message(method, target, fields, body, chunks)
        if over is None:
            with Wire(self.join_port, self.wrap()) as own:
                own.write(request)
                answer = own.read(method)
        else:
            over.write(request)
            answer = over.read(method)
        contract.check(method, target, answer, "join")
        return answer

    def wrap(self, certificate: Path | None = None) -> Wrap:
        """Return how a client, with a certificate and its key in a file or without, connects to the join listener."""
        if self.join.startswith("http:"):
            return wire.plain
        context = ssl.create_default_context(cafile=self.ca_file)
        if certificate is not None:
            context.load_cert_chain(certificate)
        return wire.tls(context)

    def mint(self, **value: Any) -> Any:
        """Mint a join token and return the answer's body."""
        answer = self.operate("POST", "/v1/join/tokens", value)
        assert answer.status == 201, answer
        return answer.json

    def revoke(self, token_id: str) -> Answer:
        """Revoke a join token."""
        return self.operate("DELETE", f"/v1/join/tokens/{token_id}")

    def approve(self, join_id: str, **value: Any) -> Answer:
        """Approve a join, with a body only where `value` has members."""
        return self.operate("POST", f"/v1/join/registrations/{join_id}/approve", value or None)

    def reject(self, join_id: str, reason: str = "A test wants it.") -> Answer:
        """Reject a join."""
        return self.operate("POST", f"/v1/join/registrations/{join_id}/reject", {"reason": reason})

    def registration(self, join_id: str) -> Any:
        """Return a registration, as the operator sees it."""
        answer = self.operate("GET", f"/v1/join/registrations/{join_id}")
        assert answer.status == 200, answer
        return answer.json

    def state_of(self, join_id: str) -> str:
        """Return the state of a join."""
        return str(self.registration(join_id)["state"])

    def join_log(self, join_id: str, query: str = "") -> Any:
        """Return the log of a join: `lines` and `dropped`."""
        answer = self.operate("GET", f"/v1/join/registrations/{join_id}/log{query}")
        assert answer.status == 200, answer
        return answer.json

    def begin(self, value: Any, key: str) -> Answer:
        """Start a run by hand."""
        return self.operate("POST", "/v1/runs", value, {"Idempotency-Key": key})

    def hold(self) -> Answer:
        """Hold admission and execution."""
        return self.operate("POST", "/v1/restore-hold", {"reason": "A test wants it."})

    def release_execution(self) -> Answer:
        """Release the execution hold."""
        return self.operate("POST", "/v1/release-restore-hold", {"reason": "A test wants it."})

    def release_admission(self, **changes: Any) -> Answer:
        """Release the admission hold, vouching for both conditions but for `changes`."""
        vouched = {"recoveryReference": "INC-1", "admissionHistoryComplete": True, "priorDeploymentFenced": True}
        return self.operate("POST", "/v1/release-admission-hold", vouched | changes)

    def deliver(
        self,
        delivery: Delivery | None = None,
        *,
        key: bytes | None = None,
        unsigned: Mapping[str, str | bytes | None] | None = None,
        chunks: Iterable[bytes] = (),
    ) -> Answer:
        """Deliver an event, by default a new one; `unsigned` replaces headers after signing, None takes one away."""
        delivery = delivery or Delivery()
        signed = delivery.headers(self.key if key is None else key)
        fields = {name: value for name, value in (signed | dict(unsigned or {})).items() if value is not None}
        return self.send("POST", delivery.path, fields, delivery.body, chunks=chunks)

    def apply(self, *workflows: Workflow, force: bool = False) -> None:
        """Make a package of these workflows the active one, by another process."""
        folder = packages.write(self.state.parent / f"{self.state.name}-package", *workflows)
        done = self.run("workflows", "apply", str(folder), "--state", str(self.state), *(["--force"] if force else []))
        assert done.returncode == 0, done.stderr

    def configure(self, **settings: Any) -> None:
        """Change the settings file: each of `settings` replaces the one of that name."""
        file = self.state / "gatehouse.yaml"
        file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | settings))

    def add_source(self, workflow: str, trigger: str, key: bytes, name: str) -> Path:
        """Let a key sign the events of a pair; `name` is its file's."""
        file = self.state / "sources" / name
        file.write_bytes(key)
        events = yaml.safe_load((self.state / "gatehouse.yaml").read_text())["events"]
        entry = {"workflow": workflow, "trigger": trigger, "keyFiles": [f"sources/{name}"]}
        self.configure(events=[*events, entry])
        return file

    @contextlib.contextmanager
    def database(self) -> Iterator[sqlite3.Connection]:
        """Give a connection to the server's database, as another process would have it; nothing is begun by itself."""
        with contextlib.closing(sqlite3.connect(self.state / "gatehouse.db", isolation_level=None)) as connection:
            yield connection

    def rows(self) -> dict[str, int]:
        """Count what is stored."""
        with self.database() as connection:
            return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ROWS}  # noqa: S608 - our own names


# Makes a server on a state folder of its own; it is not started yet. Takes what Gatehouse takes beside the folder.
NewServer: TypeAlias = Callable[..., Gatehouse]


def _port(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


def wait_for(condition: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
    """Return the first true value of `condition`, asked again and again; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError("the condition did not come about")

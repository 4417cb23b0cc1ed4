"""Servers, each in a state that makes some answers of the document come about."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from generated.coordinator.operations import OPERATIONS
from tests.support import failing
from tests.support.contract import stored
from tests.support.gatehouse import Gatehouse, NewServer
from tests.support.installs import SUCCEEDS, Machine
from tests.support.nodes import Node, line
from tests.support.packages import connection, workflow
from tests.support.pretended import CALLING, leave_in_doubt, receipts_at
from tests.support.receivers import Received, Receiver, Reply, of_json


class Standing(NamedTuple):
    """A server on which execution is held, and runs of it.

    One was never taken up, one waits for a person, and so does one of which no stored package has the definition.
    """

    server: Gatehouse
    admitted: str
    in_doubt: str
    unreadable: str


class World:
    """The servers; one is made and started when it is asked for first."""

    def __init__(self, plain: Gatehouse, founder: Gatehouse, new_server: NewServer, receiver: Receiver) -> None:
        self.plain = plain
        self.founder = founder
        self._receiver = receiver
        self._new_server = new_server
        self._nodes: dict[Gatehouse, Node] = {}

    def node_of(self, server: Gatehouse) -> Node:
        """The node whose turn it was when that server came into its state."""
        return self._nodes[server]

    def _with_a_node(self) -> Gatehouse:
        server = self._started()
        node = self._nodes[server] = Node.in_turn(server)
        assert node.report(line("A test wants it.")).status == 204
        return server

    @cached_property
    def bare_machine(self) -> Machine:
        """A machine that has no config."""
        return Machine(self._switched)

    @cached_property
    def machine(self) -> Machine:
        """A machine that has a config, and a plan that succeeds."""
        machine = Machine(self._changing)
        assert machine.configure().status == 200
        assert machine.run(SUCCEEDS)["state"] == "succeeded"
        return machine

    @cached_property
    def spoiled_machine(self) -> Machine:
        """A machine in whose database somebody has spoiled what it relies on, while it serves."""
        machine = Machine(self._started())
        assert machine.configure().status == 200
        assert machine.run(SUCCEEDS)["state"] == "succeeded"
        # It is to have no event in memory.
        machine.server.restart()
        with machine.server.database() as database:
            for table in ("install_config", "install_attempts", "install_events", "install_stream"):
                database.execute(f"ALTER TABLE {table} RENAME TO {table}_elsewhere")
        return machine

    def _started(self, **options: Any) -> Gatehouse:
        server = self._new_server(**options)
        server.start()
        return server

    @cached_property
    def _switched(self) -> Gatehouse:
        return self._started()

    @cached_property
    def _changing(self) -> Gatehouse:
        return self._started()

    def held(self) -> Gatehouse:
        """A server on which admission and execution are held."""
        assert self._switched.hold().status == 200
        return self._switched

    def held_in_execution(self) -> Gatehouse:
        """A server on which execution alone is held."""
        server = self.held()
        assert server.release_admission().status == 200
        return server

    def released(self) -> Gatehouse:
        """A server on which nothing is held."""
        server = self.held_in_execution()
        assert server.release_execution().status == 200
        return server

    def changed(self) -> Gatehouse:
        """A server that has loaded another package than the one that was just applied."""
        self._changing.apply(workflow(version=str(uuid4())))
        return self._changing

    @cached_property
    def recovery_only(self) -> Gatehouse:
        """A server that only finds what was admitted before."""
        return self._started(arguments=["--recovery-only"])

    @cached_property
    def bare(self) -> Gatehouse:
        """A server on a new database, in which no package was applied."""
        server = self._new_server()
        for file in ("gatehouse.db", "audit.jsonl"):
            (server.state / file).unlink()
        server.start()
        return server

    @cached_property
    def redefined(self) -> Gatehouse:
        """A server whose workflow stood for another definition before, under the same id and version."""
        server = self._new_server()
        server.apply(workflow(deadline_seconds=60), force=True)
        server.start()
        return server

    @cached_property
    def unbound(self) -> Gatehouse:
        """A server whose workflow needs a connection that is not configured."""
        server = self._new_server()
        server.apply(workflow(version="2", connection="crm"))
        server.start()
        return server

    @cached_property
    def rebound(self) -> Gatehouse:
        """A server whose connection was another one when a run that is still live was admitted."""
        server = self._new_server()
        server.configure(connections={"crm": connection("https://crm.example")})
        server.apply(workflow(version="2", connection="crm"))
        server.start()
        assert server.deliver().status == 204
        server.configure(connections={"crm": connection("https://other.example")})
        server.restart()
        return server

    @cached_property
    def calling(self) -> Gatehouse:
        """A server of which every run calls a receiver that gives receipts; no executor carries them out."""
        return self._calling()

    def _calling(self) -> Gatehouse:
        server = self._new_server()
        server.configure(connections={"crm": receipts_at(self._receiver.url)})
        server.apply(CALLING)
        server.start()
        return server

    def in_doubt(self, **what: Any) -> str:
        """A run of the server `calling` that waits for a person; takes what leave_in_doubt takes."""
        return leave_in_doubt(self.calling, self.calling.deliver().run, **what)

    def receiving(self, reply: Reply | None = None, meanwhile: Callable[[], object] = lambda: None) -> Receiver:
        """The receiver, which gives this answer from now on, by default a receipt, and sees to something else first."""

        def answer(_: Received) -> Reply:
            meanwhile()
            return reply or of_json({"accepted": True})

        self._receiver.answer = answer
        return self._receiver

    def restore(self) -> None:
        """Hold the server `calling`, as before a restore, and release it."""
        assert self.calling.hold().status == 200
        assert self.calling.release_execution().status == 200
        assert self.calling.release_admission().status == 200

    @cached_property
    def standing(self) -> Standing:
        """A server of the kind of `calling` on which execution is held."""
        server = self._calling()
        in_doubt, unreadable = (leave_in_doubt(server, server.deliver().run) for _ in range(2))
        redefine(server, unreadable)
        standing = Standing(server, server.deliver().run, in_doubt, unreadable)
        assert server.hold().status == 200
        return standing

    @cached_property
    def unaudited(self) -> Gatehouse:
        """A server with a folder in the place of its audit file."""
        server = self._started()
        (server.state / "audit.jsonl").unlink()
        (server.state / "audit.jsonl").mkdir()
        return server

    @cached_property
    def away(self) -> Gatehouse:
        """A server whose database file was taken away while it served."""
        server = self._with_a_node()
        (server.state / "gatehouse.db").rename(server.state / "elsewhere.db")
        return server

    @cached_property
    def spoiled(self) -> tuple[Gatehouse, str]:
        """A server in whose database somebody has spoiled what it relies on, and the one run that it has."""
        server = self._with_a_node()
        run = server.deliver().run
        with server.database() as database:
            database.execute("DELETE FROM switches")
            database.execute("UPDATE runs SET admitted_at = 'yesterday'")
            database.execute(
                "INSERT INTO commands (run_id, step, key, connection, recovery, method, url, headers)"
                " SELECT run_id, step, 'key', 'crm', 'same-command', 'POST', 'no URL', 'no JSON' FROM runs"
            )
            database.execute("UPDATE joins SET registered_at = 'yesterday'")
            database.execute("UPDATE join_lines SET lines = 'no JSON'")
            for change in ("INSERT ON join_tokens", "UPDATE ON join_tokens", "UPDATE ON joins"):
                name = change.replace(" ", "_")
                database.execute(f"CREATE TRIGGER {name} BEFORE {change} BEGIN SELECT RAISE(ABORT, 'spoiled'); END")
        return server, run

    @cached_property
    def failing(self) -> Gatehouse:
        """A server in which the handlers that touch no database fail; no state of anything makes them."""
        names = [operation.name for operation in OPERATIONS if operation.id not in stored()]
        return self._started(command=[sys.executable, str(Path(failing.__file__)), ",".join(names)])


def redefine(server: Gatehouse, run: str) -> None:
    """Pin a run to a definition that no stored package has."""
    with server.database() as database:
        unknown = f"sha256:{'0' * 64}"
        database.execute("UPDATE runs SET definition_digest = ? WHERE run_id = ?", (unknown, UUID(run).hex))

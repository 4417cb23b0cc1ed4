from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import IO, Any, TypeAlias

import pytest
import yaml
from typer.testing import CliRunner, Result

from tests.support import forks
from tests.support.forks import Process
from tests.support.gatehouse import PATIENCE_SECONDS, Gatehouse, NewServer, wait_for
from tests.support.processes import alive
from tests.support.proxy import Proxy
from tests.tools.joiner.conftest import Signer, Tls
from tools.commands import join
from tools.commands.terminal import RefusedError, UnreachableError
from tools.joiner.course import TOKEN_VARIABLE
from tools.joiner.folder import Join, Node, NodeFolder

NODE = ("--role", "compute", "--heartbeat", "0.2")
NOBODY = ("--founder", "https://127.0.0.1:1", "--name", "n", "--address", "a", *NODE)
# No two nodes have a name or an address together.
NUMBERS = count(1)
TOKEN = f"s3cret.{'A' * 43}"


@pytest.fixture(scope="module")
def server(new_server: NewServer) -> Gatehouse:
    """A server in which nobody else has the turn."""
    made = new_server()
    made.start()
    return made


class Joiner:
    """`gatehouse join` on one node, as often as it is started."""

    def __init__(self, server: Gatehouse, folder: Path, url: str = "") -> None:
        self._server = server
        self._folder = folder
        number = next(NUMBERS)
        self.name, self.address = f"node-{number}", f"10.20.0.{number}"
        self._options = ["--founder", url or server.join, "--name", self.name, "--address", self.address, *NODE]
        self._process: Process | None = None
        self._told: list[dict[str, Any]] = []
        self._reader = threading.Thread()
        self._err = folder / "err"
        self.join_id = ""

    @property
    def err(self) -> str:
        """What the command has said on standard error, over all its starts."""
        return self._err.read_text()

    def plan(self, **scripts: str) -> None:
        """Give the node a plan of shell scripts."""
        steps = [{"name": name, "run": ["sh", "-c", script], "timeoutSeconds": 30} for name, script in scripts.items()]
        plan = self._folder / "plan.yaml"
        plan.write_text(yaml.safe_dump({"steps": steps}))
        self._options += ["--plan", str(plan), "--state", str(self._folder / "node")]

    def start(self, token: str = "") -> None:
        """Start the command; it has the token in its environment."""
        environment = self._server.environment() | ({TOKEN_VARIABLE: token} if token else {})
        with self._err.open("a") as err:
            self._process = forks.start(["join", *self._options, "--json"], environment=environment, stderr=err)
        self._reader = threading.Thread(target=self._read, args=[self._process.stdout])
        self._reader.start()

    def _read(self, out: IO[str]) -> None:
        with out:
            self._told += map(json.loads, out)

    def approved(self) -> str:
        """Register with a new token, let the operator approve, and return the id of the join."""
        self.start(self._server.mint()["token"])
        self.join_id = str(wait_for(lambda: self.told("state"))[0]["joinId"])
        assert self._server.approve(self.join_id).status == 200
        return self.join_id

    def give_up(self) -> None:
        """End what a test that failed has left: the command, and the join, whose turn others wait for."""
        self.signal(signal.SIGKILL)
        self.end()
        if self.join_id:
            self._server.reject(self.join_id)

    def signal(self, number: int) -> None:
        """Send a signal to the command."""
        assert self._process is not None
        self._process.send_signal(number)

    def end(self) -> int:
        """Wait for the end of the command and return its code."""
        assert self._process is not None
        code = self._process.wait(PATIENCE_SECONDS)
        self._reader.join()
        return code

    def told(self, event: str) -> list[dict[str, Any]]:
        """What the command has told so far of one kind."""
        return [value for value in self._told if value.get("event") == event]

    def lines(self) -> list[str]:
        """What the command has told of its steps' output so far."""
        return [line["message"] for line in self.told("line")]


NewJoiner: TypeAlias = Callable[..., Joiner]


@pytest.fixture
def joiner(server: Gatehouse, tmp_path: Path) -> Iterator[NewJoiner]:
    """Makes the joiner of this test's node; whatever of it still runs is ended."""
    made: list[Joiner] = []

    def make(url: str = "") -> Joiner:
        made.append(Joiner(server, tmp_path, url))
        return made[-1]

    yield make
    for each in made:
        each.give_up()


def logged(server: Gatehouse, join_id: str) -> list[str]:
    return [line["message"] for line in server.join_log(join_id)["lines"]]


def test_a_node_joins_and_the_operator_follows(server: Gatehouse, joiner: NewJoiner) -> None:
    node = joiner()
    node.plan(**{"raft:control": "echo $GATEHOUSE_RAFT_PEERS", "services": "echo one; sleep 0.3; echo 'tw\x1bo'"})
    join_id = node.approved()
    followed = server.run("joins", "log", join_id, "--follow", "--state", str(server.state))
    assert (node.end(), followed.returncode) == (0, 0)
    assert logged(server, join_id) == [f"{node.name}=https://{node.address}:2380", "one", "tw\x1bo"] == node.lines()
    # What passes between two looks of the follower is not told.
    passing = ("raft control: ", ": running", ": its turn has come")
    told = [line for line in followed.stdout.splitlines() if not any(each in line for each in passing)]
    assert told == [
        f"  raft:control | {node.name}=https://{node.address}:2380",
        "raft:control: done",
        "  services | one",
        "  services | tw\ufffdo",
        "services: done",
        "complete: done",
        f"join {join_id}: joined",
    ]


def test_lines_come_once_and_in_order_though_answers_are_lost_and_the_server_is_killed(
    server: Gatehouse, joiner: NewJoiner
) -> None:
    with Proxy(server.join_port) as proxy:
        node = joiner(proxy.url)
        node.plan(services="for n in $(seq 20); do seq ${n}01 ${n}50; sleep 0.04; done; sleep 0.5; echo end")
        join_id = node.approved()
        wait_for(node.lines)
        for _ in range(4):
            proxy.lose_answer()
            wait_for(lambda: not proxy.losing)
        server.kill()
        server.start()
        proxy.port = server.join_port
        assert node.end() == 0, node.err
    lines = [str(number * 100 + line) for number in range(1, 21) for line in range(1, 51)]
    assert logged(server, join_id) == [*lines, "end"]
    assert server.state_of(join_id) == "joined"


def test_a_step_that_fails_ends_the_join_and_the_command(server: Gatehouse, joiner: NewJoiner) -> None:
    node = joiner()
    node.plan(services="echo no room; exit 3")
    join_id = node.approved()
    assert node.end() == 1
    assert node.err.splitlines()[-1] == "gatehouse: step services failed: sh ended with code 3"
    found = wait_for(lambda: out_of_rafts(server, join_id))
    assert (found["state"], found["failure"]["step"]) == ("failed", "services")
    assert logged(server, join_id) == ["no room"]


def out_of_rafts(server: Gatehouse, join_id: str) -> Any:
    found = server.registration(join_id)
    return found if found["rafts"][0]["state"] in ("absent", "removed") else None


def test_a_joiner_that_was_ended_goes_on_and_the_operator_may_still_abort(
    server: Gatehouse, joiner: NewJoiner, tmp_path: Path
) -> None:
    node = joiner()
    node.plan(services=f"echo $$ >>{tmp_path}/pids; echo up; sleep 60")
    join_id = node.approved()
    wait_for(node.lines)
    node.signal(signal.SIGTERM)
    assert node.end() == 1
    assert "stopped; the same command goes on where it was" in node.err
    node.start()
    wait_for(lambda: len(node.lines()) == 2)
    node.signal(signal.SIGKILL)
    node.end()
    node.start()
    wait_for(lambda: len(node.lines()) == 3)
    assert server.reject(join_id, "Wrong machine.").status == 200
    assert node.end() == 1
    assert "gatehouse: the join is failed at step services: Wrong machine." in node.err
    pids = (tmp_path / "pids").read_text().split()
    assert [alive(int(pid)) for pid in pids] == [False] * 3
    wait_for(lambda: out_of_rafts(server, join_id))


def test_a_man_in_the_middle_gets_nothing(tmp_path: Path) -> None:
    other = Signer.new()
    with Tls.showing(tmp_path, other.pem, other.key).listening() as middle:
        done = run(tmp_path, "--founder", middle.url, "--token", TOKEN)
    assert middle.received == b""
    assert isinstance(done.exception, RefusedError)
    assert done.exception.detail.startswith(f"{middle.url} is not the founder of this token")


def run(folder: Path, *options: str) -> Result:
    """Run the command within this process, for what ends before anything begins."""
    return CliRunner().invoke(join.app, [*NOBODY, "--state", str(folder / "node"), *options])


@pytest.mark.parametrize(
    ("founder", "options"),
    [
        ("http://127.0.0.1:8443", ["--token", TOKEN]),
        ("https://127.0.0.1:1/v1", ["--token", TOKEN]),
        ("https://127.0.0.1:1?x", ["--token", TOKEN]),
        ("https://s3cret@127.0.0.1:1", ["--token", TOKEN]),
        ("https://:1", ["--token", TOKEN]),
        ("https://[::1", ["--token", TOKEN]),
        ("https://127.0.0.1:1", []),
        ("https://127.0.0.1:1", ["--token", "s3cret"]),
        ("https://127.0.0.1:1", ["--token", TOKEN, "--role", "king"]),
    ],
)
def test_wrong_options_end_the_command_with_2_and_no_secret_is_repeated(
    founder: str, options: Sequence[str], tmp_path: Path
) -> None:
    done = run(tmp_path, "--founder", founder, *options)
    assert done.exit_code == 2
    assert "s3cret" not in done.output


def test_a_token_file_that_is_no_text_is_a_wrong_option(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(b"\xff\xfe")
    done = run(tmp_path, "--token-file", str(file))
    assert done.exit_code == 2
    assert "no join token" in done.output


def test_a_founder_that_is_not_there_is_unreachable_and_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    done = run(tmp_path, "--token-file", str(file))
    assert isinstance(done.exception, UnreachableError)
    assert done.exception.detail == "https://127.0.0.1:1 does not answer: Connection refused"
    assert [each.name for each in (tmp_path / "node").iterdir()] == ["lock"]


def test_a_token_of_another_founder_is_not_sent_to_the_folders_own(tmp_path: Path) -> None:
    folder = NodeFolder(tmp_path / "node")
    with folder.held():
        folder.trust(Signer.new().pem.decode())
        folder.joined_as(Join(join_id="j", token="t", node=Node(name="n", role="compute", address="a", peer_urls=())))
    done = run(tmp_path, "--token", TOKEN)
    assert isinstance(done.exception, RefusedError)
    assert "has a join with another founder" in done.exception.detail


def test_a_plan_that_is_wrong_is_told_before_anybody_is_asked(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("steps: [{name: services}]\n")
    done = run(tmp_path, "--token", TOKEN, "--plan", str(plan))
    assert isinstance(done.exception, RefusedError)
    assert done.exception.body["findings"][0] == f"{plan}:1:9: steps[0].run is missing"

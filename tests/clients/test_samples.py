from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from tests.support import forks, packages
from tests.support.effort import in_ci_alone
from tests.support.gatehouse import CARRIED_OUT, Gatehouse, NewServer
from tests.support.installs import Machine
from tests.support.programs import needs

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
CLIENTS: Final = ("python", "openapi-fetch", "hey-api")
SEPARATOR: Final = "one\u2028line"
# Longer than it takes to install the generators anew on a machine that is busy.
MINUTES: Final = 600

pytestmark = [in_ci_alone, needs("npm"), needs("openssl"), pytest.mark.timeout(MINUTES)]

Run: TypeAlias = Callable[[str, str, Sequence[str | Path]], subprocess.CompletedProcess[str]]


def gatehouse(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return forks.run([str(each) for each in arguments], environment=os.environ, cwd=ROOT, timeout=MINUTES)


def compiled(clients: Path, samples: Path) -> subprocess.CompletedProcess[str]:
    """Compile samples in TypeScript, which then can be run by node."""
    (clients / "tsconfig.samples.json").write_text(
        json.dumps({"extends": "./tsconfig.json", "include": [samples.name]})
    )
    command = ["node_modules/.bin/tsc", "--project", "tsconfig.samples.json"]
    return subprocess.run(command, cwd=clients, capture_output=True, text=True, check=False)


def typed(clients: Path, *files: Path) -> subprocess.CompletedProcess[str]:
    """Hold samples in Python to the types of the clients."""
    options = ["--strict", "--config-file=", f"--cache-dir={clients / 'mypy'}"]
    command = [sys.executable, "-m", "mypy", *options, *map(str, files)]
    environment = os.environ | {"MYPYPATH": str(clients / "python")}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the clients, which are whole and compile."""
    target = tmp_path_factory.mktemp("clients")
    done = gatehouse("clients", "--target", target)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == f"{target}/ has clients for spec/: python, openapi-fetch, hey-api\n"
    return target


@pytest.fixture(scope="module")
def run(clients: Path) -> Run:
    """Runs a sample of a client; the samples are sound by the client's types."""
    done = compiled(clients, shutil.copytree(HERE / "typescript", clients / "samples"))
    assert done.returncode == 0, done.stdout
    done = typed(clients, *sorted((HERE / "python").glob("*.py")))
    assert done.returncode == 0, done.stdout

    def run(client: str, sample: str, arguments: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
        if client == "python":
            command = [sys.executable, str(HERE / f"python/{sample}.py")]
        else:
            command = ["node", str(clients / f"javascript/samples/{client}/{sample}.js")]
        return subprocess.run(
            [*command, *map(str, arguments)],
            env=os.environ | {"PYTHONPATH": str(clients / "python"), "PYTHONUTF8": "1"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture(scope="module")
def live(new_server: NewServer) -> Iterator[Gatehouse]:
    """A server that carries runs out; a run of the demo's workflow is over at once."""
    server = new_server(environment=CARRIED_OUT)
    workflow = packages.workflow(version="2")
    del workflow["steps"]["pause"]
    server.apply(workflow | {"start": "done"})
    server.start()
    yield server
    assert "Traceback" not in server.log


@pytest.mark.parametrize("client", CLIENTS)
def test_a_signed_event_is_admitted_and_its_run_is_seen_to_end(client: str, live: Gatehouse, run: Run) -> None:
    done = run(client, "event", [live.control, live.state / "sources/demo.key", live.state / "operator.token"])
    assert (done.returncode, done.stderr) == (0, "")
    state, outcome, output = done.stdout.split(maxsplit=2)
    assert (state, outcome, json.loads(output)) == ("completed", "followed-up", {"caseId": "C-2026-0417"})


@pytest.mark.parametrize("client", CLIENTS)
def test_a_node_joins_from_its_registration_on_with_its_certificate(client: str, live: Gatehouse, run: Run) -> None:
    done = run(client, "join", [live.control, live.state / "operator.token", live.join, live.ca_file])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["pending", "joining", "joined"]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("last", "outcome", "code"), [("true", "succeeded", 0), ("false", "failed", 1)])
def test_an_install_is_watched_to_its_verdict(
    client: str, last: str, outcome: str, code: int, live: Gatehouse, run: Run
) -> None:
    machine = Machine(live)
    machine.plan(("say", "printf", f"{SEPARATOR}\nanother\n"), ("end", last))
    before = machine.last_id
    done = run(client, "install", [live.installer, live.ca_file, live.state / "install.code"])
    assert (done.returncode, done.stderr) == (code, "")
    events = [line.split(maxsplit=3) for line in done.stdout.removesuffix("\n").split("\n")]
    assert [int(event[0]) for event in events] == list(range(before + 1, machine.last_id + 1))
    assert [event[-1] for event in events if event[1] == "log"] == [SEPARATOR, "another"]
    assert events[-1][1:] == ["verdict", outcome]


def test_a_header_that_has_a_generator_drop_its_operation_fails_and_says_so(clients: Path, tmp_path: Path) -> None:
    # Case 6 of the public reports: https://github.com/openapi-generators/openapi-python-client/issues/881
    spec = shutil.copytree(ROOT / "spec", tmp_path / "spec")
    document = spec / "coordinator.yaml"
    header = (
        "description: When the change was committed, equal to `time` in the body.\n          schema: {type: string, "
    )
    written = document.read_text()
    assert header in written
    before, _, after = written.partition(header)
    document.write_text(before + header + "format: date-time}" + after.partition("\n")[1] + after.partition("\n")[2])
    target = tmp_path / "clients"
    target.mkdir()
    (target / "python-tools").symlink_to(clients / "python-tools")
    done = gatehouse("clients", "--target", target, "--spec", spec, "--only", "python")
    assert done.returncode == 1
    assert "python, coordinator: the client has no operation admitEvent\n" in done.stdout
    assert "datetime.datetime is not allowed in header" in done.stdout
    assert [line for line in done.stdout.splitlines() if not line.startswith("python, coordinator: ")] == []


@pytest.mark.usefixtures("run")
def test_a_sample_that_the_document_does_not_allow_does_not_compile(clients: Path, tmp_path: Path) -> None:
    wrong = shutil.copytree(HERE / "typescript", clients / "wrong")
    for file in wrong.glob("*/join.ts"):
        file.write_text(file.read_text().replace("role: 'compute'", "role: 'computer'"))
    told = compiled(clients, wrong)
    assert told.returncode != 0
    assert sorted(line.partition("(")[0] for line in told.stdout.splitlines() if line.startswith("wrong")) == [
        "wrong/hey-api/join.ts",
        "wrong/openapi-fetch/join.ts",
    ]
    sample = tmp_path / "event.py"
    sample.write_text((HERE / "python/event.py").read_text().replace("ce_type=event.type_", "ce_type=1"))
    told = typed(clients, sample)
    assert told.returncode == 1
    assert 'Argument "ce_type" to "sync_detailed" has incompatible type' in told.stdout

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from tests.generator.conftest import Run, Types
from tests.support.effort import in_ci_alone
from tests.support.etcd import Etcd
from tests.support.gatehouse import CARRIED_OUT, COMMAND, PATIENCE_SECONDS, Gatehouse, wait_for
from tests.support.programs import needs
from tools import settings

ROOT: Final = Path(__file__).parents[2]
README: Final = (ROOT / "README.md").read_text("utf-8")
PARSER: Final = ROOT / "tests/contract/eventsource"
DOCUMENT: Final = "spec/coordinator.yaml"
WALKED: Final = "operationId: showVersion" in (ROOT / DOCUMENT).read_text("utf-8")
SERVICE: Final = "handlers/coordinator/service.py"
HANDLER: Final = "handlers/coordinator/health.py"
STUB_TEST: Final = "tests/handlers/coordinator/test_health.py"
# The files that the walk leads to.
LED: Final = (SERVICE, HANDLER, STUB_TEST)


def section(title: str) -> str:
    """The text below a heading."""
    return README.partition(f"## {title}\n")[2].partition("\n## ")[0]


WALK: Final = section("Change a document")


def fences(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def quoted(pattern: str) -> str:
    """What the walk puts between backticks and begins so."""
    found = re.search(rf"`({pattern}[^`]*)`", WALK)
    assert found is not None, pattern
    return found[1]


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text("utf-8")
    assert text.count(old) == 1, old
    file.write_text(text.replace(old, new), "utf-8")


@in_ci_alone
@pytest.mark.timeout(300)
@pytest.mark.skipif(WALKED, reason="whoever changed this repository has gone the walk already")
def test_the_walk_of_the_readme_ends_where_it_says(repository: Path, run: Run, types: Types, first_state: Path) -> None:
    path, schema = fences(WALK, "yaml")
    replace(repository / DOCUMENT, "\npaths:\n", f"\npaths:\n{path}")
    replace(repository / DOCUMENT, "\n  schemas:\n", f"\n  schemas:\n{schema}")
    checked = run(COMMAND, "check", "spec")
    assert checked.returncode == 0, checked.stdout
    assert run(COMMAND, "generate").returncode == 0
    assert (repository / quoted("generated/coordinator/operations/")).exists()
    assert [line for line in types(*LED) if "error:" in line and quoted("Missing named argument") in line]

    printed = run(*quoted(r"\.venv/bin/gatehouse generate --stub").replace(".venv/bin/gatehouse", COMMAND).split())
    add_to_service(repository / SERVICE, *printed.stdout.splitlines()[-2:])
    assert types(*LED) == []
    failed = prove(run, STUB_TEST)
    assert "1 failed" in failed.stdout
    assert "This operation is not implemented yet." in failed.stdout

    write_handler(repository / HANDLER, quoted("return "))
    assert types(*LED) == []
    proved = prove(run, STUB_TEST, "tests/contract/test_every_answer.py")
    assert "4 passed" in proved.stdout, proved.stdout
    lint(run)
    answers_its_example(repository, first_state, yaml.safe_load(path))


def add_to_service(service: Path, service_import: str, service_line: str) -> None:
    replace(service, "from handlers.coordinator.health", f"{service_import}\nfrom handlers.coordinator.health")
    replace(service, "return Service(\n", f"return Service(\n{service_line}\n")


def write_handler(handler: Path, line: str) -> None:
    text, raised, after = handler.read_text("utf-8").rpartition("    raise show_version_op.")
    assert raised
    assert after.count("\n") == 1
    handler.write_text(f"{text}    {line}\n", "utf-8")


def prove(run: Run, *files: str) -> subprocess.CompletedProcess[str]:
    """Run what these files have to prove of the new operation."""
    options = ["-q", "-p", "no:cacheprovider", "-n", "0", "-k", "showVersion or show_version"]
    return run(sys.executable, "-m", "pytest", *options, *files)


def lint(run: Run) -> None:
    """Mend what `make lint` mends, after which ruff has nothing to say of what was written."""
    ruff = [sys.executable, "-m", "ruff"]
    for words in (["check", "--fix"], ["format"], ["check"], ["format", "--check"]):
        done = run(*ruff, *words, "--no-cache", "handlers", STUB_TEST)
        assert done.returncode == 0, done.stdout


def answers_its_example(repository: Path, first_state: Path, item: Any) -> None:
    ((path, operation),) = ((path, methods["get"]) for path, methods in item.items())
    state = shutil.copytree(first_state, repository / ".gatehouse")
    with Gatehouse(state, environment={"PYTHONPATH": str(repository)}) as server:
        # This server has documents of its own, to which the answers of all others are not held.
        answer = httpx.get(f"{server.control}{path}", trust_env=False)
        assert answer.status_code == 200
        assert answer.json() == operation["responses"]["200"]["content"]["application/json"]["example"]
        served = httpx.get(f"{server.control}/openapi/coordinator.json", trust_env=False)
        assert operation["operationId"] in served.text


@needs("bash")
@needs("curl")
@needs("openssl")
def test_the_commands_of_the_readme_have_an_event_admitted(first_state: Path, tmp_path: Path) -> None:
    script, *_ = fences(README, "bash")
    first = "server=http://127.0.0.1:8080\n"
    assert script.startswith(first)
    with Gatehouse(shutil.copytree(first_state, tmp_path / ".gatehouse")) as server:
        here = script.replace(first, f"server={server.control}\n")
        done = subprocess.run(["bash", "-c", here], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.stdout.startswith("HTTP/1.1 204 "), done.stdout + done.stderr
        assert server.rows()["runs"] == 1


def test_the_settings_of_the_readme_have_a_connection_with_every_member_that_there_is() -> None:
    (text,) = fences(section("A run is carried out"), "yaml")
    (connection,) = settings.parse(text.encode(), Path("/gatehouse.yaml")).connections.values()
    assert connection.model_fields_set == type(connection).model_fields.keys()


@in_ci_alone
def test_the_event_of_the_readme_is_followed_to_the_notice_at_the_receiver(first_state: Path, tmp_path: Path) -> None:
    script, *_ = fences(section("A first signed event"), "sh")
    with socket.create_server(("127.0.0.1", 0)) as free:
        receiver = f"http://127.0.0.1:{free.getsockname()[1]}"
    state = shutil.copytree(first_state, tmp_path / ".gatehouse")
    server = Gatehouse(state, arguments=["--demo-receiver"], environment=CARRIED_OUT)
    server.configure(connections={"demo-receiver": {"baseUrl": receiver, "methods": ["POST"], "paths": ["/notices"]}})
    with server:
        send, listed, followed = (shlex.split(line, comments=True)[1:] for line in script.splitlines())
        sent = server.run(*send, "--state", str(state))
        run = sent.stdout.split()[-1]
        assert run in server.run(*listed, "--state", str(state)).stdout
        told = server.run(*(run if word == "RUN" else word for word in followed), "--state", str(state))
        assert told.returncode == 0, told.stdout + told.stderr
        assert f"run {run}: completed: followed-up " in told.stdout
        (notice,) = httpx.get(f"{receiver}/notices").json()["notices"]
        assert notice["body"] == {"caseId": "C-2026-0417"}
        assert notice["noticeId"] in told.stdout


@in_ci_alone
@needs("bash")
def test_the_commands_of_the_readme_have_a_package_applied_and_its_event_admitted(
    first_state: Path, tmp_path: Path
) -> None:
    applied, sent = (
        each.replace(".venv/bin/gatehouse", COMMAND) for each in fences(section("A workflow of your own"), "bash")
    )
    server = Gatehouse(shutil.copytree(first_state, tmp_path / ".gatehouse"))
    (tmp_path / "handlers").symlink_to(ROOT / "handlers")

    def bash(script: str) -> str:
        done = subprocess.run(
            ["bash", "-ec", script], cwd=tmp_path, env=server.environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    told = bash(applied)
    assert "\ndelayed-notice starts no run: cases does not permit GET /cases/{caseId}" in told
    text = (tmp_path / "package/delayed-notice.yaml").read_text()
    head = re.findall("^#   (.*)$", text, re.MULTILINE)
    server.configure(**yaml.safe_load("\n".join(head)))
    with server:
        run = bash(sent).split()[-1]
        assert server.operate("GET", f"/v1/runs/{run}").json["workflowId"] == "delayed-notice"


@needs("bash")
@needs("curl")
def test_the_commands_of_the_readme_have_a_node_join(first_state: Path, tmp_path: Path) -> None:
    scripts = fences(section("A node joins"), "bash")
    with Gatehouse(shutil.copytree(first_state, tmp_path / ".gatehouse")) as server:
        here = "\n".join(scripts).replace("https://127.0.0.1:8443", server.join).replace(".venv/bin/gatehouse", COMMAND)
        environment = server.environment()
        done = subprocess.run(
            ["bash", "-c", here], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        told = done.stdout + done.stderr
        assert "  services | up\n" in done.stdout, told
        registration, _, refused = done.stdout.rpartition("\n")[0].partition("HTTP/1.1 ")
        assert '"state":"joined"' in registration.splitlines()[-1], told
        assert refused.startswith("409 ")
        assert '"code":"JOIN_ENDED"' in done.stdout


@in_ci_alone
@needs("etcd")
def test_the_plan_of_the_readme_has_a_node_with_an_etcd_join(first_state: Path, tmp_path: Path) -> None:
    (plan,) = fences(section("A node joins"), "yaml")
    (tmp_path / "plan.yaml").write_text(plan)
    founder, member = Etcd(tmp_path, "founder"), Etcd(tmp_path, "node-1")
    server = Gatehouse(shutil.copytree(first_state, tmp_path / ".gatehouse"))
    store = {"name": "store", "kind": "etcd", "endpoints": [founder.url], "peerPort": 2380, "peerScheme": "http"}
    server.configure(rafts=[store])
    with founder, server:
        founder.found()
        node = {"--founder": server.join, "--name": member.name, "--role": "storage", "--address": "127.0.0.1"}
        options = [*chain.from_iterable(node.items()), "--peer-url", member.peer_url, "--plan", "plan.yaml"]
        joined = subprocess.Popen(
            [COMMAND, "join", *options],
            cwd=tmp_path,
            env=server.environment()
            | {"GATEHOUSE_JOIN_TOKEN": server.mint()["token"]}
            | {f"ETCD_{kind}_CLIENT_URLS": member.url for kind in ("LISTEN", "ADVERTISE")},
        )
        listed = wait_for(lambda: server.operate("GET", "/v1/join/registrations").json["registrations"])
        assert server.approve(listed[0]["joinId"]).status == 200
        code = joined.wait(PATIENCE_SECONDS)
        os.kill(int((tmp_path / "etcd.pid").read_text()), signal.SIGKILL)
        assert code == 0
        assert founder.members() == {founder.peer_url: False, member.peer_url: False}


@needs("bash")
@needs("curl")
def test_the_commands_of_the_readme_have_a_machine_installed(first_state: Path, tmp_path: Path) -> None:
    watched, by_curl = fences(section("An install"), "bash")
    state = shutil.copytree(first_state, tmp_path / ".gatehouse")
    with Gatehouse(state, arguments=["--listener", "installer"]) as server:
        there = "https://127.0.0.1:9443"
        assert there in by_curl
        here = f"{watched}\necho ---\n{by_curl}".replace(there, server.installer).replace(
            ".venv/bin/gatehouse", COMMAND
        )
        done = subprocess.run(
            ["bash", "-ec", here],
            cwd=tmp_path,
            env=server.environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    lines, _, answers = done.stdout.partition("---\n")
    assert lines.startswith("the config is stored\ncheck-config: started\n  check-config | ")
    assert lines.endswith("\nattempt 1: succeeded\n")
    config, live, rest = answers.split(": gatehouse\n\nretry: 2000\n\n")
    assert config == (tmp_path / "node.yaml").read_text()
    assert '"attempt":2,' in live
    assert live.startswith(f"id: {last_id(lines) + 1}\nevent: step\n")
    assert last_id(live) == 2 * last_id(lines)
    assert rest == live[live.index(f"id: {last_id(lines) + 11}\n") :]


def last_id(told: str) -> int:
    """The last id of a stream, or how many events were told as lines."""
    ids = re.findall("^id: ([0-9]+)$", told, re.MULTILINE)
    return int(ids[-1]) if ids else len(told.splitlines()) - 1


# Fetches from the installer what a browser would fetch from the origin of its page.
PAGE: Final = """
import { follow } from './follow.mjs'

const [installer, code] = process.argv.slice(2)
const { fetch } = globalThis
globalThis.fetch = (path, options) => fetch(installer + path, options)
await follow('WRONG', () => {}).catch((error) => console.log(error.message))
console.log(await follow(code, (event) => console.log(JSON.stringify(event))))
"""


@in_ci_alone
@needs("npm")
def test_the_page_of_the_readme_follows_an_install(first_state: Path, tmp_path: Path) -> None:
    (script,) = fences(section("An install"), "js")
    for file in ("package.json", "package-lock.json"):
        shutil.copy(PARSER / file, tmp_path)
    subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=tmp_path, check=True)
    (tmp_path / "follow.mjs").write_text(script)
    (tmp_path / "page.mjs").write_text(PAGE)
    (config,) = re.findall(r"<<'END'\n(.*?)^END$", section("An install"), re.DOTALL | re.MULTILINE)
    state = shutil.copytree(first_state, tmp_path / ".gatehouse")
    with Gatehouse(state, arguments=["--listener", "installer"]) as server:
        operated = [
            server.run("install", "config", "put", "-", "--state", str(state), stdin=config),
            server.run("install", "start", "--state", str(state)),
        ]
        assert [done.returncode for done in operated] == [0, 0]
        done = subprocess.run(
            ["node", "page.mjs", server.installer, server.code],
            cwd=tmp_path,
            env=server.environment() | {"NODE_EXTRA_CA_CERTS": str(server.ca_file)},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    refused, *events, state_of_install = done.stdout.splitlines()
    assert (refused, state_of_install) == ("the installer answers 401", "succeeded")
    assert [json.loads(event)["id"] for event in events] == list(range(1, len(events) + 1))
    assert json.loads(events[-1])["outcome"] == "succeeded"

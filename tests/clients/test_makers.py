from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tools import clients
from tools.clients import Fault, KitError, heyapi, kit, openapifetch, python, typescript
from tools.clients.kit import Kit, Ran
from tools.clients.maker import Maker

ROOT: Final = Path(__file__).parents[2]

LEFT_OUT: Final = """\
Generating clients/python/gatehouse_installer
Warning(s) encountered while generating. Client was generated, but some pieces may be missing

WARNING parsing PUT /v1/installer/config within config.

Unsupported content type application/yaml

{
  "description": "The whole configuration."
}

If you believe this was a mistake or this tool is missing a feature you need, please open an issue
"""
DROPPED: Final = LEFT_OUT.replace("within config.", "within config. Endpoint will not be generated.")
HEY: Final = """\
@hey-api/openapi-ts v0.95.0

[Job 1] ⏳ Generating from 1 input:
[Job 1]   [1] /there/spec/join.yaml
[Job 1] ✅ Done! Your output is in ./join
"""
TYPES: Final = "✨ openapi-typescript 7.13.0\n🚀 /there/spec/join.yaml → join.ts [592.7ms]\n"


def ignore(line: str) -> None:
    assert line


@pytest.mark.parametrize(
    ("said", "complaints"),
    [
        (Ran(0, "Generating clients/python/gatehouse_join\n"), []),
        (Ran(0, LEFT_OUT), []),
        (
            Ran(0, DROPPED),
            [
                "WARNING parsing PUT /v1/installer/config within config. Endpoint will not be generated.",
                "Unsupported content type application/yaml",
            ],
        ),
        (
            Ran(0, LEFT_OUT.replace("application/yaml", "application/xml")),
            ["WARNING parsing PUT /v1/installer/config within config.", "Unsupported content type application/xml"],
        ),
        (
            Ran(0, LEFT_OUT + "\nUnable to process schema:\n\nFound conflicting enums\nnamed JoinEventType.\n"),
            ["Unable to process schema:", "Found conflicting enums named JoinEventType."],
        ),
        (Ran(1, "Generating clients/python/gatehouse_join\n"), ["it ended with 1"]),
    ],
)
def test_what_the_python_generator_says_is_a_fault_but_for_yaml_beside_json(said: Ran, complaints: list[str]) -> None:
    assert python.complaints(said) == complaints


@pytest.mark.parametrize(("maker", "said"), [(heyapi, HEY), (openapifetch, TYPES)])
def test_whatever_a_generator_of_typescript_prints_beside_its_usual_lines_is_a_fault(maker: Any, said: str) -> None:
    expected = maker._EXPECTED
    assert typescript.complaints(Ran(0, said), expected) == []
    assert typescript.complaints(Ran(1, said), expected) == ["it ended with 1"]
    assert typescript.complaints(Ran(0, said + " ⚠ a schema is skipped\n"), expected) == ["⚠ a schema is skipped"]


def pretended(offered: Mapping[str, Sequence[str]], complaints: Sequence[str], compiled: Sequence[str]) -> Maker:
    return Maker(
        "pretended",
        lambda _kit, document, _folder: list(complaints) if document.stem == "join" else [],
        lambda _folder, api: offered[api],
        lambda _kit, _folder: list(compiled),
    )


WHOLE: Final = {
    "coordinator": ["admit_event", "live"],
    "join": ["register", "reportJoinEvents"],
}


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    folder = tmp_path / "spec"
    folder.mkdir()
    for api, names in {"coordinator": ["admitEvent", "live"], "join": ["register", "reportJoinEvents"]}.items():
        paths = "".join(f"  /{name}:\n    summary: A path.\n    post: {{operationId: {name}}}\n" for name in names)
        (folder / f"{api}.yaml").write_text(f"openapi: 3.1.1\npaths:\n{paths}")
    return folder


@pytest.mark.parametrize(
    ("maker", "faults"),
    [
        (pretended(WHOLE, [], []), []),
        (
            pretended(WHOLE | {"coordinator": ["live"]}, [], ["told once"]),
            [Fault("pretended", "coordinator", "the client has no operation admitEvent")],
        ),
        (pretended(WHOLE, ["a warning"], []), [Fault("pretended", "join", "the generator says: a warning")]),
        (pretended(WHOLE, [], ["no type"]), [Fault("pretended", "", "it does not compile: no type")]),
    ],
)
def test_a_client_is_whole_unwarned_and_compiles(
    maker: Maker, faults: list[Fault], spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "MAKERS", {"pretended": maker})
    assert clients.make(spec, tmp_path / "clients", ["pretended"], ignore) == faults


def test_a_folder_without_documents_and_a_document_that_cannot_be_read_are_told(
    spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(clients.ClientsError, match="has no document"):
        clients.make(tmp_path, tmp_path / "clients", ["python"], ignore)
    monkeypatch.setattr(clients, "MAKERS", {"pretended": pretended(WHOLE, [], [])})
    (spec / "join.yaml").write_text("[")
    with pytest.raises(clients.ClientsError, match=r"join\.yaml: "):
        clients.make(spec, tmp_path / "clients", ["pretended"], ignore)


def test_the_tools_are_installed_once_and_again_when_the_lock_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = tmp_path / "locks"
    locks.mkdir()
    for name in ("requirements.txt", "package.json", "package-lock.json", "tsconfig.json"):
        (locks / name).write_text("1")
    ran: list[str] = []

    def run(command: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        ran.append(" ".join(command[-2:]))
        for made in ("python-tools", "node_modules"):
            (tmp_path / "clients" / made).mkdir(parents=True, exist_ok=True)
        return subprocess.CompletedProcess(command, 0, "\x1b[32mdone\x1b[39m\n")

    monkeypatch.setattr(kit, "HERE", locks)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr("shutil.which", lambda name: name)
    tools = Kit(tmp_path / "clients", ignore)
    tools.empty("python")
    assert tools.python("mypy", "--strict") == Ran(0, "done\n")
    assert tools.node("tsc", "--noEmit") == Ran(0, "done\n")
    tools.python("mypy", "--strict")
    installs = [f"venv {tmp_path}/clients/python-tools", f"--requirement {locks}/requirements.txt"]
    called = f"{tmp_path}/clients/python-tools/bin/mypy --strict"
    compiler = f"{tmp_path}/clients/node_modules/.bin/tsc --noEmit"
    assert ran == [*installs, called, "--ignore-scripts --engine-strict", compiler, called]
    (locks / "requirements.txt").write_text("2")
    tools.python("mypy", "--strict")
    tools.node("tsc", "--noEmit")
    assert ran[6:] == [*installs, called, compiler]


def test_without_npm_and_where_an_install_fails_it_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = Kit(tmp_path, ignore)
    with monkeypatch.context() as without:
        without.setattr("shutil.which", lambda _: None)
        with pytest.raises(KitError, match="npm is not installed"):
            tools.node("tsc")

    def refuse(command: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "no room\n")

    monkeypatch.setattr(subprocess, "run", refuse)
    with pytest.raises(KitError, match="ended with 1: no room"):
        tools.python("mypy")


def test_no_lock_says_where_packages_come_from() -> None:
    for lock in ("package-lock.json", "requirements.txt"):
        text = (ROOT / "tools/clients" / lock).read_text()
        assert "://" not in "".join(line for line in text.splitlines() if '"url": ' not in line), lock

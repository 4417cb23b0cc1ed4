from __future__ import annotations

import gc
import os
import subprocess
import sys
from importlib.metadata import version

import pytest
import typer

from tests.support import forks
from tools import cli
from tools.commands.terminal import UnreachableError

HEAVY = ("connexion", "sqlalchemy", "httpx", "cryptography", "uvicorn", "pydantic", "yaml")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return forks.run(arguments, environment=os.environ, timeout=60)


def test_help_lists_every_command_with_its_purpose() -> None:
    done = run("--help")
    assert done.returncode == 0
    for name, purpose in cli.COMMANDS.items():
        assert f"{name} " in done.stdout
        assert purpose[:30] in done.stdout


@pytest.mark.parametrize(("arguments", "code"), [(["audit", "--help"], 0), (["audit", "unknown"], 2)])
def test_the_collector_works_again_once_a_command_is_imported(
    arguments: list[str], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["gatehouse", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == code
    assert gc.isenabled()
    gc.unfreeze()


def test_help_imports_nothing_that_a_command_works_with() -> None:
    program = (
        "import sys\nfrom tools import cli\n"
        "try:\n    cli.main()\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "--help"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_that_is_listed_is_there(name: str) -> None:
    done = run(name, "--help")
    assert done.returncode == 0
    assert f"Usage: gatehouse {name} " in done.stdout


def test_the_version_is_the_packages() -> None:
    assert run("--version").stdout == f"{version('gatehouse')}\n"


@pytest.mark.parametrize(
    "arguments", [[], ["nope"], ["runs"], ["runs", "nope"], ["--nope"], ["serve", "--listener", "x"]]
)
def test_a_wrong_use_ends_with_2(arguments: list[str]) -> None:
    assert run(*arguments).returncode == 2


@pytest.mark.parametrize("before", [(), ("runs", "list", "--workflow")])
def test_an_argument_that_is_not_utf_8_is_a_wrong_use(before: tuple[str, ...]) -> None:
    done = run(*before, os.fsdecode(b"a\xff"))
    assert done.returncode == 2
    assert f"argument {len(before) + 1} is not UTF-8" in done.stderr


def fail(error: Exception) -> int:
    """Run a command that raises `error` under the root group; return the exit code."""
    app = typer.Typer(cls=cli._Root)

    @app.callback()
    def root() -> None:
        pass

    @app.command()
    def failing() -> None:
        raise error

    with pytest.raises(SystemExit) as ended:
        app(["failing"])
    return int(ended.value.code or 0)


def test_a_fault_that_was_foreseen_ends_with_its_code_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert fail(UnreachableError("no answer")) == 3
    assert capsys.readouterr().err == "gatehouse: no answer\n"


def test_a_file_that_cannot_be_used_is_told_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert fail(PermissionError(13, "Permission denied", "/x")) == 1
    assert capsys.readouterr().err == "gatehouse: /x: Permission denied\n"


def test_a_fault_that_nobody_foresaw_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        fail(ZeroDivisionError())

"""The generators and compilers, in the versions that the lock files beside this module pin; installed where needed."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent

_PYTHON: Final = ("requirements.txt",)
_NODE: Final = ("package.json", "package-lock.json")
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
# Nobody is asked anything, and nothing is looked up that is not in the lock.
_QUIET: Final = {"NO_COLOR": "1", "npm_config_audit": "false", "npm_config_fund": "false", "PIP_NO_INPUT": "1"}


class KitError(Exception):
    """A tool cannot be installed or started."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a tool ended, and all that it printed, without colours."""

    code: int
    text: str


class Kit:
    """The tools, installed in the folder that the clients are made in."""

    def __init__(self, target: Path, tell: Callable[[str], None]) -> None:
        self._target = target.absolute()
        self.tell = tell

    def empty(self, name: str) -> Path:
        """Return the folder of this name as an empty one."""
        folder = self._target / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def python(self, *command: str) -> Ran:
        """Run a program of the Python tools."""
        tools = self._target / "python-tools"
        self._once(tools, _PYTHON, lambda: self._install_python(tools))
        return self._run([str(tools / "bin" / command[0]), *command[1:]])

    def node(self, *command: str) -> Ran:
        """Run a program of the npm packages."""
        modules = self._target / "node_modules"
        self._once(modules, _NODE, self._install_node)
        shutil.copy(HERE / "tsconfig.json", self._target)
        return self._run([str(modules / ".bin" / command[0]), *command[1:]])

    def _once(self, folder: Path, locks: Sequence[str], install: Callable[[], None]) -> None:
        """Install unless `folder` is what these locks ask for."""
        wanted = hashlib.sha256(b"".join((HERE / lock).read_bytes() for lock in locks)).hexdigest()
        stamp = folder / ".installed"
        if not stamp.exists() or stamp.read_text() != wanted:
            self.tell(f"installing {folder.name}")
            shutil.rmtree(folder, ignore_errors=True)
            install()
            stamp.write_text(wanted)

    def _install_python(self, tools: Path) -> None:
        self._must([sys.executable, "-m", "venv", str(tools)])
        pip = [str(tools / "bin/python"), "-m", "pip", "install", "--quiet", "--require-hashes"]
        self._must([*pip, "--requirement", str(HERE / "requirements.txt")])

    def _install_node(self) -> None:
        if shutil.which("npm") is None:
            raise KitError("npm is not installed; the TypeScript clients need it, and Node.js 20.19 or later")
        for file in _NODE:
            shutil.copy(HERE / file, self._target)
        self._must(["npm", "ci", "--ignore-scripts", "--engine-strict"])

    def _must(self, command: Sequence[str]) -> None:
        ran = self._run(command)
        if ran.code != 0:
            raise KitError(f"{' '.join(command)} ended with {ran.code}: {ran.text.strip()}")

    def _run(self, command: Sequence[str]) -> Ran:
        environment: Mapping[str, str] = {**os.environ, **_QUIET}
        done = subprocess.run(  # noqa: S603 - commands of our own
            command,
            cwd=self._target,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        return Ran(done.returncode, _COLOURS.sub("", done.stdout))

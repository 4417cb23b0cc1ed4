"""Runs schemathesis, with all its checks, against a server that serves the coordinator's document."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

HOOKS: Final = "tools.contract.hooks"
# The environment's names for the operator's token, and for the demo source's key in hex digits.
OPERATOR_VARIABLE: Final = "CONTRACT_OPERATOR_TOKEN"
KEY_VARIABLE: Final = "CONTRACT_SOURCE_KEY"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What schemathesis found: its JSON report, and its words for people, which may repeat what was sent."""

    report: Mapping[str, Any]
    text: str

    @property
    def sound(self) -> bool:
        """Whether everything was tried and nothing was found."""
        return bool(self.report["exit_code"] == 0 and self.report["complete"])


def run(url: str, *, token: str, key: bytes, seed: int, examples: int, options: Sequence[str] = ()) -> Outcome:
    """Test the server at `url` with `examples` an operation; `options` are further ones of `st run`.

    `token` is the operator's, `key` the demo source's. The server needs the demo package and at least one run, and
    has many more, and holds that were set and released, in the end.
    """
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        done = subprocess.run(  # noqa: S603 - our own interpreter, and options of our own
            [
                *(sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi/coordinator.json", f"--url={url}"),
                *("--workers=1", "--no-color", "--generation-database=none"),
                # The signature is the hooks' matter: one that was generated would be replaced, and tell nothing.
                "--generation-with-security-parameters=false",
                *(f"--seed={seed}", f"--max-examples={examples}", "--report=json", f"--report-json-path={report}"),
                *options,
            ],
            cwd=folder,
            env=os.environ | {"SCHEMATHESIS_HOOKS": HOOKS, OPERATOR_VARIABLE: token, KEY_VARIABLE: key.hex()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if not report.exists():
            raise RuntimeError(f"schemathesis gave no report: {done.stdout}")
        return Outcome(json.loads(report.read_bytes()), done.stdout)

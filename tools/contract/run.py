"""Runs schemathesis, with all its checks, against a running server."""

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
# The environment's names for the URL of each listener as JSON, for the operator's token, for the demo source's key in
# hex digits, for the file of the authority's certificate, and for the install code.
LISTENERS_VARIABLE: Final = "CONTRACT_LISTENERS"
OPERATOR_VARIABLE: Final = "CONTRACT_OPERATOR_TOKEN"
KEY_VARIABLE: Final = "CONTRACT_SOURCE_KEY"
AUTHORITY_VARIABLE: Final = "CONTRACT_AUTHORITY"
CODE_VARIABLE: Final = "CONTRACT_INSTALL_CODE"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What schemathesis found: its JSON report, and its words for people, which may repeat what was sent."""

    report: Mapping[str, Any]
    text: str

    @property
    def sound(self) -> bool:
        """Whether everything was tried and nothing was found."""
        return bool(self.report["exit_code"] == 0 and self.report["complete"])


def run(
    api: str,
    listeners: Mapping[str, str],
    secrets: Mapping[str, str],
    *,
    seed: int,
    examples: int,
    options: Sequence[str] = (),
) -> Outcome:
    """Test the server of `api` with `examples` an operation; `options` are further ones of `st run`.

    `listeners` are URLs by name; where several have an operation, links lead to that of the first. `secrets` are what
    the hooks of the API ask for in the environment. What was made on the server stays.
    """
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        done = subprocess.run(  # noqa: S603 - our own interpreter, and options of our own
            [
                *(sys.executable, "-m", "schemathesis.cli", "run", f"{listeners['control']}/openapi/{api}.json"),
                *("--workers=1", "--no-color", "--generation-database=none"),
                # Credentials are the hooks' matter: one that was generated would be replaced, and tell nothing.
                "--generation-with-security-parameters=false",
                *(f"--seed={seed}", f"--max-examples={examples}", "--report=json", f"--report-json-path={report}"),
                *options,
            ],
            cwd=folder,
            env={
                **os.environ,
                **secrets,
                "SCHEMATHESIS_HOOKS": f"{HOOKS}.{api}",
                LISTENERS_VARIABLE: json.dumps(dict(listeners)),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if not report.exists():
            raise RuntimeError(f"schemathesis gave no report: {done.stdout}")
        return Outcome(json.loads(report.read_bytes()), done.stdout)

"""Runs schemathesis, with all its checks, against a running server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
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

# What each API is tried with: the listeners that carry it, then what its hooks ask for in the environment.
LISTENERS: Final[Mapping[str, tuple[str, ...]]] = {
    "coordinator": ("control",),
    "join": ("control", "join"),
    "installer": ("installer",),
}
SECRETS: Final[Mapping[str, tuple[str, ...]]] = {
    "coordinator": (OPERATOR_VARIABLE, KEY_VARIABLE),
    "join": (OPERATOR_VARIABLE, AUTHORITY_VARIABLE),
    "installer": (AUTHORITY_VARIABLE, CODE_VARIABLE),
}
# schemathesis begins no scenario with a path that has parameters of which no operation tells, unless it knows of no
# other: what an event leads to is therefore tried apart, with fewer examples.
AFTER_AN_EVENT: Final = (
    "--phases=stateful",
    *(f"--include-operation-id={name}" for name in ("admitEvent", "getRun", "inspectRun")),
)

_LINKS: Final = re.compile(r"API Links: +(\d+) covered / (\d+) selected")
_SCENARIOS: Final = re.compile(r"Scenarios: +(\d+)")
_SIGNATURE: Final = re.compile(r"(X-Registry-Signature: )v1=[\w-]+", re.IGNORECASE)
_HIDDEN: Final = "[Filtered]"


class NoReportError(Exception):
    """schemathesis ended without having told what it found."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What schemathesis found: its JSON report, and its words for people, without the secrets that it was given."""

    report: Mapping[str, Any]
    text: str

    @property
    def sound(self) -> bool:
        """Whether everything was tried and nothing was found."""
        return bool(self.report["exit_code"] == 0 and self.report["complete"])

    @property
    def links(self) -> int:
        """How many links were followed."""
        found = _LINKS.search(self.text)
        return int(found[1]) if found else 0

    @property
    def scenarios(self) -> int:
        """How many scenarios were played."""
        found = _SCENARIOS.search(self.text)
        return int(found[1]) if found else 0


def trials(
    api: str,
    listeners: Mapping[str, str],
    secrets: Mapping[str, str],
    *,
    seed: int,
    examples: int,
    options: Sequence[str] = (),
) -> Iterator[Outcome]:
    """Test the server of `api`, by as many runs as it takes; `options` are of all of them."""
    yield run(api, listeners, secrets, seed=seed, examples=examples, options=options)
    if api == "coordinator" and not options:
        fewer = max(10, examples // 4)
        yield run(api, listeners, secrets, seed=seed, examples=fewer, options=AFTER_AN_EVENT)


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

    `listeners` are URLs by name; where several have an operation, links lead to that of the first, which also gives the
    document. `secrets` are what the hooks of the API ask for in the environment. What was made on the server stays.
    Raises NoReportError.
    """
    listeners = {name: listeners[name] for name in LISTENERS[api]}
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        authority = secrets.get(AUTHORITY_VARIABLE)
        done = subprocess.run(  # noqa: S603 - our own interpreter, and options of our own
            [
                *(sys.executable, "-m", "schemathesis.cli", "run"),
                f"{next(iter(listeners.values()))}/openapi/{api}.json",
                *("--workers=1", "--no-color", "--generation-database=none"),
                # Credentials are the hooks' matter: one that was generated would be replaced, and tell nothing.
                "--generation-with-security-parameters=false",
                *(f"--seed={seed}", f"--max-examples={examples}", "--report=json", f"--report-json-path={report}"),
                *([f"--tls-verify={authority}"] if authority else []),
                *options,
            ],
            cwd=folder,
            env={
                **os.environ,
                **secrets,
                "SCHEMATHESIS_HOOKS": f"{HOOKS}.{api}",
                LISTENERS_VARIABLE: json.dumps(listeners),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        text = _without(secrets, done.stdout)
        if not report.exists():
            raise NoReportError(text)
        return Outcome(json.loads(report.read_bytes()), text)


def _without(secrets: Mapping[str, str], text: str) -> str:
    for name, secret in secrets.items():
        if name != AUTHORITY_VARIABLE and secret:
            text = text.replace(secret, _HIDDEN)
    return _SIGNATURE.sub(rf"\1{_HIDDEN}", text)

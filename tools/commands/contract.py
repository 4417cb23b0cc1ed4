"""`gatehouse check server`: lets schemathesis loose on a running server, with the hooks that Gatehouse's APIs need."""

from __future__ import annotations

import json
import secrets as chance
import ssl
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from tools.commands.client import Client, checked_url
from tools.commands.folder import address, opened, told
from tools.commands.terminal import REFUSED, Machine, RefusedError, emit, plain
from tools.contract import run
from tools.contract.run import (
    AUTHORITY_VARIABLE,
    CODE_VARIABLE,
    KEY_VARIABLE,
    LISTENERS,
    OPERATOR_VARIABLE,
    SECRETS,
    Outcome,
)
from tools.lint.grammar import METHODS
from tools.settings import ListenerName
from tools.state import DEFAULT_FOLDER, noted

APIS: Final = tuple(LISTENERS)
CONNECTED: Final[tuple[ListenerName, ...]] = ("control", "join", "installer")
EXAMPLES: Final = 25
# Operations that are chosen may have no links, without which schemathesis refuses to follow some.
_ALONE: Final = ("examples", "coverage", "fuzzing")
_MOST_SEEDS: Final = 1 << 31
# How each thing that an API is tried with is given.
_GIVEN_BY: Final = {
    "control": "URL",
    "join": "--join-url",
    "installer": "--installer-url",
    OPERATOR_VARIABLE: "GATEHOUSE_OPERATOR_TOKEN",
    KEY_VARIABLE: "--key-file",
    AUTHORITY_VARIABLE: "--ca",
    CODE_VARIABLE: "GATEHOUSE_INSTALL_CODE",
}


def _known(names: list[str] | None) -> list[str] | None:
    if set(names or ()) - set(APIS):
        raise typer.BadParameter(f"must be one of {', '.join(APIS)}")
    return names


UrlArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[URL]", callback=checked_url, help="The control listener, where not that of the state folder's server."
    ),
]
StateOption = Annotated[
    Path | None,
    typer.Option(
        "--state", metavar="DIR", help="The state folder with addresses and secrets, without URL .gatehouse by default."
    ),
]
JoinOption = Annotated[
    str | None, typer.Option("--join-url", metavar="URL", callback=checked_url, help="The join listener.")
]
InstallerOption = Annotated[
    str | None, typer.Option("--installer-url", metavar="URL", callback=checked_url, help="The installer listener.")
]
ApiOption = Annotated[
    list[str] | None,
    typer.Option(
        "--api",
        metavar="NAME",
        callback=_known,
        help="Try this one; repeatable. By default all for which enough is known.",
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option("--seed", min=0, max=_MOST_SEEDS - 1, help="Of the cases; by default a random one, which is told."),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="GATEHOUSE_OPERATOR_TOKEN",
        show_envvar=True,
        help="The operator's token; better not as option.",
    ),
]
CodeOption = Annotated[
    str | None,
    typer.Option(
        "--code", envvar="GATEHOUSE_INSTALL_CODE", show_envvar=True, help="The install code; better not as option."
    ),
]
KeyOption = Annotated[
    Path | None, typer.Option("--key-file", metavar="FILE", help="The key of the demo workflow's source.")
]
AuthorityOption = Annotated[
    Path | None, typer.Option("--ca", metavar="FILE", help="The authority of the https listeners, in PEM.")
]


@dataclass(frozen=True, slots=True)
class Target:
    """A server: the URLs of its listeners, and what its APIs ask for, by the names of the hooks' environment."""

    listeners: Mapping[str, str]
    secrets: Mapping[str, str]

    def lacking(self, api: str) -> list[str]:
        """Return by what options the API could be tried that cannot be as it is."""
        absent = [name for name in LISTENERS[api] if name not in self.listeners]
        absent += [name for name in SECRETS[api] if name not in self.secrets]
        return [_GIVEN_BY[name] for name in absent]


def server(
    url: UrlArgument = None,
    *,
    state: StateOption = None,
    join_url: JoinOption = None,
    installer_url: InstallerOption = None,
    api: ApiOption = None,
    seed: SeedOption = None,
    examples: Annotated[int, typer.Option("--examples", min=1, max=100_000, help="Of each operation.")] = EXAMPLES,
    operation: Annotated[
        list[str] | None, typer.Option("--operation", metavar="ID", help="Try this one alone; repeatable.")
    ] = None,
    phase: Annotated[
        list[str] | None, typer.Option("--phase", metavar="NAME", help="A phase of schemathesis; repeatable.")
    ] = None,
    token: TokenOption = None,
    key_file: KeyOption = None,
    code: CodeOption = None,
    ca: AuthorityOption = None,
    machine: Machine = False,
) -> None:
    """Try a running Gatehouse with schemathesis: signed, with tokens, certificates and the install code.

    What is made on the server stays there: let it be one that may be spoiled. Needs the demo workflow for coordinator,
    and for installer a plan that does no harm.
    """
    folder = None if url and state is None else state or DEFAULT_FOLDER
    given = {"control": url, "join": join_url, "installer": installer_url}
    known = {
        OPERATOR_VARIABLE: token,
        KEY_VARIABLE: None if key_file is None else key_file.read_bytes().hex(),
        AUTHORITY_VARIABLE: None if ca is None else str(ca.resolve()),
        CODE_VARIABLE: code,
    }
    target = _target(folder, given, known)
    chosen = _having(_chosen(target, api), operation or ())
    for name in dict.fromkeys(listener for each in chosen for listener in LISTENERS[each]):
        _reach(target, name)
    seed = chance.randbelow(_MOST_SEEDS) if seed is None else seed
    options = [
        *(f"--include-operation-id={each}" for each in operation or ()),
        *([f"--phases={','.join(phase or _ALONE)}"] if phase or operation else ()),
    ]
    tried = {each: list(_tried(each, target, seed, examples, options)) for each in chosen}
    findings = [
        finding for name, outcomes in tried.items() for outcome in outcomes for finding in _found(name, outcome)
    ]
    value = {"seed": seed, "findings": findings, "apis": [_summary(name, each) for name, each in tried.items()]}
    emit(machine, value, lambda console: _show(console, target, tried, seed))
    if findings:
        raise typer.Exit(REFUSED)


def _target(folder: Path | None, given: Mapping[str, str | None], known: Mapping[str, str | None]) -> Target:
    urls, secrets = ({}, {}) if folder is None else _of_folder(folder, given)
    urls.update({name: url.rstrip("/") for name, url in given.items() if url is not None})
    secrets.update({name: secret.strip() for name, secret in known.items() if secret is not None})
    return Target({name: urls[name] for name in CONNECTED if name in urls}, secrets)


def _of_folder(path: Path, given: Mapping[str, str | None]) -> tuple[dict[str, str], dict[str, str]]:
    """Return what the files of a state folder tell; a URL that is given is not looked for."""
    folder, settings = opened(path)
    running = [name for name in CONNECTED if noted(folder.lock_file(name))]
    # Where no server runs, that is told by the address which does not answer.
    named = running or [name for name in CONNECTED if settings.bind(name).port]
    urls: dict[str, str] = {name: address(folder, settings, name) for name in named if given[name] is None}
    texts = {OPERATOR_VARIABLE: folder.operator_token, CODE_VARIABLE: folder.install_code}
    with told():
        secrets = {name: folder.read_secret(file) for name, file in texts.items() if file.exists()}
    if folder.demo_key.exists():
        secrets[KEY_VARIABLE] = folder.demo_key.read_bytes().hex()
    if folder.authority_certificate.exists():
        secrets[AUTHORITY_VARIABLE] = str(folder.authority_certificate.resolve())
    return urls, secrets


def _chosen(target: Target, asked: Sequence[str] | None) -> list[str]:
    for name in asked or ():
        if target.lacking(name):
            raise RefusedError(f"{name} cannot be tried without {', '.join(target.lacking(name))}")
    chosen = [name for name in APIS if not target.lacking(name) and (not asked or name in asked)]
    if not chosen:
        raise RefusedError(
            "nothing can be tried: " + "; ".join(f"{name} wants {', '.join(target.lacking(name))}" for name in APIS)
        )
    return chosen


def _having(apis: list[str], names: Sequence[str]) -> list[str]:
    """Return those of `apis` that have one of the operations, or all where none is named."""
    having = {
        api: {str(item[method]["operationId"]) for item in _paths(api).values() for method in METHODS if method in item}
        for api in apis
    }
    for name in names:
        if not any(name in each for each in having.values()):
            raise RefusedError(f"{name} is no operation of what can be tried: {', '.join(apis)}")
    return [api for api in apis if not names or having[api] & set(names)]


def _reach(target: Target, listener: str) -> None:
    """Raise UnreachableError where a listener does not answer."""
    url = target.listeners[listener]
    authority = target.secrets.get(AUTHORITY_VARIABLE)
    try:
        context = ssl.create_default_context(cafile=authority)
    except ssl.SSLError:
        raise RefusedError("the authority's certificate cannot be used") from None
    with Client(url, context=context) as client:
        client.send("GET", "/docs")


def _tried(api: str, target: Target, seed: int, examples: int, options: Sequence[str]) -> Iterator[Outcome]:
    typer.echo(f"{api}: being tried, with {examples} examples an operation and seed {seed}", err=True)
    secrets = {name: target.secrets[name] for name in SECRETS[api]}
    try:
        yield from run.trials(api, target.listeners, secrets, seed=seed, examples=examples, options=options)
    except run.NoReportError as error:
        raise RefusedError(f"schemathesis gave no report:\n{error}") from None


def _found(api: str, outcome: Outcome) -> Iterator[dict[str, Any]]:
    for each in outcome.report["failures"]:
        yield {
            "api": api,
            "title": each["title"],
            "severity": each["severity"],
            "count": each["count"],
            "operations": [_named(api, label) for label in each["operations"]],
        }
    for each in outcome.report["errors"]:
        yield {"api": api, "title": each["title"], "severity": "error", "count": each["count"], "operations": []}
    for label in outcome.report["warnings"].get("missing_auth") or ():
        # Nothing was tried of an operation that refused every credential.
        yield {
            "api": api,
            "title": "Every request was refused for its credential",
            "severity": "error",
            "count": 1,
            "operations": [_named(api, label)],
        }
    operations = outcome.report["operations"]
    if not outcome.report["complete"] or not operations or not operations["tested"]:
        yield {"api": api, "title": "Not everything was tried", "severity": "error", "count": 1, "operations": []}


def _named(api: str, label: str) -> str:
    """Return the operation that schemathesis calls by its method and path, of which a segment may be its server's."""
    method, _, path = label.partition(" ")
    for template, item in _paths(api).items():
        if method.lower() in item and template.endswith(path):
            return str(item[method.lower()]["operationId"])
    return label


def _paths(api: str) -> dict[str, Any]:
    document = json.loads(files(f"generated.{api}").joinpath("contract.json").read_bytes())
    paths: dict[str, Any] = document["paths"]
    return paths


def _summary(api: str, outcomes: Iterable[Outcome]) -> dict[str, Any]:
    return {
        "api": api,
        "runs": [
            {
                "operations": outcome.report["operations"],
                "cases": outcome.report["test_cases"]["generated"],
                "scenarios": outcome.scenarios,
                "links": outcome.links,
                "warnings": {name: each for name, each in outcome.report["warnings"].items() if each},
                "details": outcome.text if not outcome.sound else "",
            }
            for outcome in outcomes
        ],
    }


def _show(console: Console, target: Target, tried: Mapping[str, Sequence[Outcome]], seed: int) -> None:
    for name, outcomes in tried.items():
        for outcome in outcomes:
            findings = list(_found(name, outcome))
            operations, cases = outcome.report["operations"] or {}, outcome.report["test_cases"]["generated"]
            if findings:
                console.print(plain(_details(outcome.text)))
            console.print(f"{name}: {operations.get('tested', 0)} operations, {cases} cases, {len(findings)} findings")
            for each in findings:
                where = ", ".join(each["operations"]) or "as a whole"
                console.print(plain(f"  {each['title']} ({each['severity']}, {each['count']} times): {where}"))
    for name in APIS:
        if name not in tried and target.lacking(name):
            console.print(f"{name}: not tried, for want of {', '.join(target.lacking(name))}")
    console.print(f"seed {seed}: the same again by --seed {seed}, on a server in the same state")


def _details(text: str) -> str:
    """Return what schemathesis says of the failures and errors themselves, each with a request that shows it."""
    lines = text.splitlines()
    starts = [
        place for place, line in enumerate(lines) if line.startswith("===") and ("FAILURES" in line or "ERRORS" in line)
    ]
    ends = [place for place, line in enumerate(lines) if line.startswith("===") and "SUMMARY" in line]
    return "\n".join(lines[starts[0] : ends[0]]) if starts and ends else text

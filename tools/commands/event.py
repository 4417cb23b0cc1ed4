"""`gatehouse event`: sends signed product events, as a producer does."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final
from urllib.parse import quote
from uuid import uuid4

import httpx
import typer
from rich.console import Console

from handlers.gateway import strict_json
from handlers.gateway.strict_json import NotStrictJson
from tools.commands import delivery
from tools.commands.client import Client, UrlOption, refusal
from tools.commands.delivery import Event
from tools.commands.folder import address, opened
from tools.commands.terminal import (
    REFUSED,
    ConfigOption,
    Machine,
    RefusedError,
    StateOption,
    UnreachableError,
    complain,
    emit,
    group,
)
from tools.settings import Settings
from tools.state import DEFAULT_FOLDER

app = group()

DEMO: Final = ("case-follow-up", "case-created")
# What the demo package's trigger takes; another trigger's names have to be given.
DEMO_NAMES: Final = {
    "source": "urn:gatehouse:demo",
    "type": "case-created-v1",
    "dataschema": "urn:gatehouse:demo:case-created-v1",
}
DEMO_DATA: Final = '{"caseId":"C-1"}'


@app.callback()
def event() -> None:
    """Send signed events."""


@app.command()
def send(
    *,
    workflow: Annotated[str, typer.Option(help="The workflow that the event is for.")] = DEMO[0],
    trigger: Annotated[str, typer.Option(help="The workflow's trigger.")] = DEMO[1],
    data: Annotated[str | None, typer.Option(metavar="JSON", help="The event's data.")] = None,
    data_file: Annotated[
        typer.FileBinaryRead | None, typer.Option(metavar="FILE", help="A file with the data; - is standard input.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="Who produces the event.")] = None,
    event_type: Annotated[str | None, typer.Option("--type", help="The event's contract.")] = None,
    dataschema: Annotated[str | None, typer.Option(help="The contract of its data.")] = None,
    event_id: Annotated[str | None, typer.Option("--id", metavar="UUID", help="By default a new one.")] = None,
    event_time: Annotated[str | None, typer.Option("--time", help="When it happened; by default now.")] = None,
    record: Annotated[str, typer.Option(help="The record that changed.")] = "record-1",
    revision: Annotated[int, typer.Option(min=1, help="The revision that the change produced.")] = 1,
    hop: Annotated[int, typer.Option(help="How far the event is from the root of its chain.")] = 0,
    parent: Annotated[str | None, typer.Option(metavar="UUID", help="The event before it in its chain.")] = None,
    root: Annotated[str | None, typer.Option(metavar="UUID", help="The root of its chain; by default itself.")] = None,
    idempotency_key: Annotated[str | None, typer.Option(help="By default the digest of the event.")] = None,
    generation: Annotated[int, typer.Option(min=1, help="The delivery's generation.")] = 1,
    attempt: Annotated[int, typer.Option(min=1, help="The number of the first delivery.")] = 1,
    repeat: Annotated[int, typer.Option(min=0, help="Redeliver the same event so many times more.")] = 0,
    key_file: Annotated[Path | None, typer.Option(help="The key; by default the first of the settings.")] = None,
    curl: Annotated[bool, typer.Option("--curl", help="Print the delivery for curl; it is good for 30 s.")] = False,
    state: StateOption = DEFAULT_FOLDER,
    config: ConfigOption = None,
    url: UrlOption = None,
    machine: Machine = False,
) -> None:
    """Build, sign and deliver one event; with no option at all, one of the demo's."""
    folder, settings = opened(state, config)
    identity = event_id or str(uuid4())
    envelope = {
        **_names((workflow, trigger), {"source": source, "type": event_type, "dataschema": dataschema}),
        "id": identity,
        "time": event_time or delivery.now(),
        "subject": {"recordReference": record, "recordRevision": revision},
        "causation": {"hop": hop, "root": root or identity} | ({} if parent is None else {"parent": parent}),
        "data": _data((workflow, trigger), data, data_file),
    }
    client = Client(url or address(folder, settings, "control"))
    producer = _Producer(
        client=client,
        url=_target(client.url, workflow, trigger),
        key=(key_file or _key_file(settings, workflow, trigger)).read_bytes(),
        generation=generation,
    )
    with _usage():
        event = delivery.event(envelope, idempotency_key)
        if curl:
            typer.echo(producer.curl(event, attempt))
            return
        deliveries = _delivered(producer, event, range(attempt, attempt + repeat + 1))
    _end(event, deliveries, machine)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Producer:
    """Delivers events to one trigger, signed with one key."""

    client: Client
    url: str
    key: bytes
    generation: int

    def headers(self, event: Event, attempt: int) -> dict[str, str]:
        target = httpx.URL(self.url).raw_path.decode()
        return delivery.headers(event, self.key, target=target, generation=self.generation, attempt=attempt)

    def deliver(self, event: Event, attempt: int) -> dict[str, Any]:
        """Deliver the event once; return what became of it, as --json has it. Raises UnreachableError."""
        response = self.client.send("POST", self.url, content=event.body, headers=self.headers(event, attempt))
        outcome: dict[str, Any] = {"attempt": attempt, "status": response.status_code}
        if response.status_code == 204:
            return outcome | {"runId": response.headers.get("X-Coordinator-Run-Id")}
        fault = refusal(response)
        complain(fault)
        return outcome | {"problem": fault.body}

    def curl(self, event: Event, attempt: int) -> str:
        """Write the delivery as a command line."""
        options = [
            f"--header {shlex.quote(f'{name}: {value}')}" for name, value in self.headers(event, attempt).items()
        ]
        body = f"--data-raw {shlex.quote(event.body.decode())}"
        return " \\\n  ".join([f"curl --include {shlex.quote(self.url)}", *options, body])


def _delivered(producer: _Producer, event: Event, attempts: Sequence[int]) -> list[dict[str, Any]]:
    """Deliver the event so often; an UnreachableError tells by what the event is known, as it may stand already."""
    deliveries: list[dict[str, Any]] = []
    try:
        deliveries.extend(producer.deliver(event, attempt) for attempt in attempts)
    except UnreachableError as error:
        again = shlex.join(["--id", event.envelope["id"], "--time", event.envelope["time"]])
        detail = f"{error.detail}\n  the event may have been admitted; send it again with the same options and {again}"
        raise UnreachableError(detail, error.body | {"detail": detail} | _value(event, deliveries)) from None
    return deliveries


def _target(server: str, workflow: str, trigger: str) -> str:
    return f"{server.rstrip('/')}/v1/events/{quote(workflow, safe='')}/{quote(trigger, safe='')}"


def _names(pair: tuple[str, str], given: Mapping[str, str | None]) -> dict[str, str]:
    defaults = DEMO_NAMES if pair == DEMO else {}
    names = {name: value if value is not None else defaults.get(name) for name, value in given.items()}
    missing = [f"--{name}" for name, value in names.items() if value is None]
    if missing:
        detail = f"an event for {pair[0]}/{pair[1]} needs what its trigger says in the workflow's file"
        raise typer.BadParameter(detail, param_hint=", ".join(missing))
    return {name: value for name, value in names.items() if value is not None}


def _data(pair: tuple[str, str], text: str | None, file: BinaryIO | None) -> object:
    if text is None and file is None and pair == DEMO:
        text = DEMO_DATA
    if (text is None) == (file is None):
        fault = f"an event for {pair[0]}/{pair[1]} needs one of them" if file is None else "give one of them"
        raise typer.BadParameter(fault, param_hint="--data, --data-file")
    raw = file.read() if file is not None else os.fsencode(text or "")
    try:
        return strict_json.loads(raw)
    except NotStrictJson as error:
        raise typer.BadParameter(_why(raw, error), param_hint="--data, --data-file") from None


def _why(raw: bytes, error: NotStrictJson) -> str:
    """Say what is wrong with the data, and where, if they are no JSON at all."""
    try:
        json.loads(raw)
    except (ValueError, RecursionError) as reason:
        return f"the data is not JSON: {reason}"
    return str(error).replace("The body", "the data")


def _key_file(settings: Settings, workflow: str, trigger: str) -> Path:
    for source in settings.events:
        if (source.workflow, source.trigger) == (workflow, trigger):
            return source.key_files[0]
    raise RefusedError(
        f"the settings name no key for {workflow}/{trigger}: `gatehouse sources add` makes one, --key-file names one"
    )


@contextlib.contextmanager
def _usage() -> Iterator[None]:
    """Tell an event that cannot be written or signed as a fault of the options."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(f"the event cannot be sent: {error}") from None


def _end(event: Event, deliveries: list[dict[str, Any]], machine: bool) -> None:
    def show(console: Console) -> None:
        console.print(f"event {event.envelope['id']} of {event.envelope['time']}")
        for each in deliveries:
            console.print(
                f"attempt {each['attempt']}: {each['status']}" + (f", run {each['runId']}" if "runId" in each else "")
            )

    emit(machine, _value(event, deliveries), show)
    if any("problem" in each for each in deliveries):
        raise typer.Exit(REFUSED)


def _value(event: Event, deliveries: list[dict[str, Any]]) -> dict[str, Any]:
    envelope = event.envelope
    return {
        "eventId": envelope["id"],
        "time": envelope["time"],
        "idempotencyKey": event.idempotency_key,
        "deliveries": deliveries,
    }

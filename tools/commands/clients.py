"""`gatehouse clients`: makes clients of the documents, and tells what a generator left out."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from tools import clients as makers
from tools.clients import ClientsError, KitError
from tools.commands.terminal import Machine, RefusedError, findings, group

app = group()


class Client(Enum):
    """What there is to make."""

    PYTHON = "python"
    OPENAPI_FETCH = "openapi-fetch"
    HEY_API = "hey-api"


@app.command()
def clients(
    *,
    target: Annotated[Path, typer.Option(metavar="DIR", help="Where the clients and their tools come.")] = Path(
        "build/clients"
    ),
    only: Annotated[list[Client] | None, typer.Option(help="Make these; by default all.")] = None,
    spec: Annotated[Path, typer.Option(metavar="DIR", help="The documents.")] = Path("spec"),
    machine: Machine = False,
) -> None:
    """Make clients of the documents as they are; 1 where one lacks an operation, is warned of, or does not compile."""
    names = [client.value for client in only or Client]
    try:
        faults = makers.make(spec, target, names, lambda line: typer.echo(line, err=True))
    except (ClientsError, KitError) as error:
        raise RefusedError(str(error)) from None
    value = [{"client": each.client, "api": each.api or None, "message": each.message} for each in faults]
    lines = [
        f"{each.client}, {each.api}: {each.message}" if each.api else f"{each.client}: {each.message}"
        for each in faults
    ]
    findings(value, lines, f"{target}/ has clients for {spec}/: {', '.join(names)}", machine)

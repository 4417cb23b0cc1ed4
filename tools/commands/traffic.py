"""`gatehouse check traffic`: a proxy before any server, which holds what passes to the documents."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Annotated

import httpx
import typer

from tools.commands.client import checked_url, local
from tools.commands.terminal import REFUSED, Machine, RefusedError, UnreachableError, machine_text, plain
from tools.settings import Bind, ListenerName

UpstreamOption = Annotated[
    str, typer.Option("--upstream", metavar="URL", callback=checked_url, help="The server, http or https.")
]
ListenOption = Annotated[
    str,
    typer.Option(
        "--listen",
        metavar="HOST:PORT",
        callback=local("must be an address of this machine alone: what passes is not encrypted here"),
        help="Where clients come to, by plain HTTP.",
    ),
]
SpecOption = Annotated[
    list[Path] | None,
    typer.Option("--spec", metavar="FILE", help="An OpenAPI 3.1 document; repeatable. By default Gatehouse's own."),
]
ServedOption = Annotated[
    ListenerName, typer.Option("--listener", help="Which of Gatehouse's listeners the upstream is.")
]
AuthorityOption = Annotated[
    Path | None, typer.Option("--ca", metavar="FILE", help="The authority of an https upstream, in PEM.")
]
CertificateOption = Annotated[
    Path | None,
    typer.Option("--cert", metavar="FILE", help="A client certificate for the upstream, in PEM; its key may be there."),
]
KeyOption = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="The key of --cert, in PEM.")]


def traffic(
    *,
    upstream: UpstreamOption,
    listen: ListenOption = "127.0.0.1:0",
    spec: SpecOption = None,
    listener: ServedOption = "control",
    ca: AuthorityOption = None,
    cert: CertificateOption = None,
    key: KeyOption = None,
    strict_requests: Annotated[
        bool, typer.Option("--strict-requests", help="Also find requests that the server rightly refuses.")
    ] = False,
    machine: Machine = False,
) -> None:
    """Pass requests on to a server, and find what does not conform until SIGTERM or SIGINT.

    Ends with a table of what the documents promise, seen and not seen. Nothing that passes is kept or printed but
    methods, paths and statuses.
    """
    # Imported here: openapi-core takes a second, which the other checks need not wait for.
    from tools.contract import traffic as passing  # noqa: PLC0415

    context = _context(upstream, ca, cert, key)
    try:
        recorder = passing.recorder(spec or [], listener, strict_requests=strict_requests)
    except passing.UnusableDocumentError as error:
        raise RefusedError(str(error)) from None
    if not passing.reachable(upstream):
        raise UnreachableError(f"{upstream} does not answer")

    def ready(url: str) -> None:
        told = {"listen": url, "upstream": upstream}
        typer.echo(machine_text(told) if machine else f"{url} passes on to {upstream}; Ctrl-C ends it")

    def tell(finding: passing.Finding) -> None:
        typer.echo(machine_text({"finding": finding._asdict()}) if machine else f"finding: {plain(str(finding))}")

    found = passing.run(upstream, recorder, Bind.parse(listen), context, ready, tell)
    summary = {"findings": found, "exchanges": recorder.exchanges, "refusedRequests": recorder.refused_requests}
    if machine:
        typer.echo(machine_text({**summary, "coverage": recorder.coverage.value}))
    else:
        told = f"{recorder.exchanges} exchanges, {recorder.refused_requests} rightly refused requests, {found} findings"
        typer.echo(plain("\n".join([*recorder.coverage.lines(), told])))
    if found:
        raise typer.Exit(REFUSED)


def _context(upstream: str, ca: Path | None, cert: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if httpx.URL(upstream).scheme == "http":
        if ca or cert or key:
            raise typer.BadParameter("is for an https upstream", param_hint="--ca, --cert, --key")
        return None
    try:
        context = ssl.create_default_context(cafile=ca)
        if cert is not None:
            context.load_cert_chain(cert, key)
    except OSError:  # of which ssl's own errors are, and those of a file that is not there
        raise RefusedError("the certificate, its key or the authority's certificate cannot be used") from None
    return context

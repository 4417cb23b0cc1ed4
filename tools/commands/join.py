"""`gatehouse join`: makes this machine a node of a founder; `tools/joiner/` has what happens then."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

import typer
from cryptography import x509

from handlers.join import certificates
from tools.commands.terminal import STOPPING, Machine, RefusedError, StoppedError, group
from tools.joiner import pin, planfile
from tools.joiner.course import TOKEN_VARIABLE, Course
from tools.joiner.folder import DEFAULT_FOLDER, Node, NodeFolder
from tools.joiner.founder import Founder, Pace
from tools.joiner.pin import JoinToken, TokenError
from tools.joiner.planfile import PlanFile
from tools.joiner.progress import Progress

app = group()


def _https(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        usable = False
    if not usable or url.rstrip("/") != f"https://{parts.netloc}":
        raise typer.BadParameter("must be https://HOST:PORT")
    return url.rstrip("/")


# Without line breaks, which would be shown as they are.
HELP: Final = (
    "Join a founder: register, wait for approval and the turn, run the plan's commands and report them.\n\n"
    "It may be ended and started again with the same options at any time, and goes on where it was; a step that was "
    "running then runs again.\n\n"
    "A command runs without a shell, in this folder; a process that it leaves behind needs an output of its own. In "
    "its environment are GATEHOUSE_JOIN_ID, GATEHOUSE_JOIN_NAME and GATEHOUSE_JOIN_ADDRESS, and for raft:NAME, once "
    "the node is a learner, GATEHOUSE_RAFT_NAME, GATEHOUSE_RAFT_PEERS (NAME=URL,…: etcd's initial cluster) and "
    "GATEHOUSE_RAFT_PEER_URLS (its own)."
)


@app.command(help=HELP)
def join(
    *,
    founder: Annotated[
        str, typer.Option(metavar="URL", callback=_https, help="The founder's join listener, https://HOST:PORT.")
    ],
    name: Annotated[str, typer.Option(help="The node's name, which no other live join has.")],
    role: Annotated[Literal["control", "compute", "storage"], typer.Option(help="What the node is to be.")],
    address: Annotated[str, typer.Option(help="Where the other nodes reach this one.")],
    token: Annotated[
        str | None,
        typer.Option(
            envvar=TOKEN_VARIABLE,
            show_default=False,
            help="The join token; on a command line everybody on this machine can read it.",
        ),
    ] = None,
    token_file: Annotated[
        typer.FileText | None,
        typer.Option(metavar="FILE", errors="replace", help="A file with the join token; - is standard input."),
    ] = None,
    peer_url: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="Where rafts reach this node; repeatable. By default made of the address, as the founder is set.",
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The commands of the steps: {steps: [{name, run: [PROGRAM, "
            "ARGUMENT…], timeoutSeconds}]}; a step that has none just succeeds.",
        ),
    ] = None,
    state: Annotated[Path, typer.Option("--state", metavar="DIR", help="The node's folder.")] = DEFAULT_FOLDER,
    heartbeat: Annotated[
        float,
        typer.Option(
            min=0.05,
            metavar="SECONDS",
            help="Report at least so often; a quarter of the founder's turnTimeoutSeconds is right.",
        ),
    ] = Pace().heartbeat,
    machine: Machine = False,
) -> None:
    """Join a founder; `HELP` tells a person what that is."""
    given = _token(token, token_file)
    commands = planfile.EMPTY if plan is None else planfile.load(plan)
    node = Node(name=name, role=role, address=address, peer_urls=tuple(peer_url or ()))
    folder = NodeFolder(state)
    with folder.held():
        reached = _trust(folder, founder, given)
        pace = Pace(heartbeat=heartbeat, question=min(Pace().question, heartbeat))
        _run(_joined(folder, founder, node, given, commands, Progress(machine), pace, reached))


async def _joined(
    folder: NodeFolder,
    url: str,
    node: Node,
    token: JoinToken | None,
    plan: PlanFile,
    progress: Progress,
    pace: Pace,
    reached: bool,
) -> None:
    async with Founder(url, folder, node, token, progress, pace=pace, reached=reached) as founder:
        await Course(founder, folder, node, plan, progress, pace).run()


def _token(text: str | None, file: Any) -> JoinToken | None:
    if file is not None:
        text = file.read()
    try:
        return None if text is None else pin.token(text)
    except TokenError as error:
        raise typer.BadParameter(str(error), param_hint="--token, --token-file") from None


def _trust(folder: NodeFolder, founder: str, token: JoinToken | None) -> bool:
    """Have the founder's authority in the folder; return whether the founder was reached for it."""
    kept = folder.authority()
    if kept is None or (folder.join() is None and token is not None):
        if token is None:
            raise typer.BadParameter("a node that is new needs one of them", param_hint="--token, --token-file")
        folder.trust(pin.authority(founder, token.pin))
        return True
    if token is not None and certificates.pin(x509.load_pem_x509_certificate(kept.encode()).public_key()) != token.pin:
        raise RefusedError(f"{folder.path} has a join with another founder than this token's; take another --state")
    return False


def _run(course: Coroutine[Any, Any, None]) -> None:
    """Run to the end, or until a signal asks to stop, which ends a running command first."""
    asyncio.run(_until_asked(course))


async def _until_asked(course: Coroutine[Any, Any, None]) -> None:
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(course)
    for number in STOPPING:
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        raise StoppedError("stopped; the same command goes on where it was") from None

"""`gatehouse check mutants`: whether the checks and the contract tests notice a document that was changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tools.commands.terminal import REFUSED, Machine, RefusedError, emit, plain
from tools.generator import DocumentError
from tools.generator.documents import Document
from tools.mutants import mutations, score
from tools.mutants.pool import run
from tools.mutants.score import Verdict

SPEC = Path("spec")
TESTS = Path("tests/contract")


def mutants(
    *,
    sample: Annotated[int | None, typer.Option(min=1, metavar="N", help="Try so many alone, drawn by chance.")] = None,
    seed: Annotated[int, typer.Option(metavar="S", help="Which ones are drawn.")] = 0,
    operation: Annotated[str, typer.Option(metavar="ID", help="Try those of one operation alone.")] = "",
    jobs: Annotated[int, typer.Option(min=1, metavar="J", help="How many at once.")] = os.cpu_count() or 1,
    machine: Machine = False,
) -> None:
    """Change each constraint of the documents in turn, in memory, and list the changes that nothing notices.

    Needs a checkout with its tests, and the working folder to be its root.
    """
    if not TESTS.is_dir():
        raise RefusedError(f"{TESTS}/ is not here: this command needs a checkout of the repository, tests included")
    # It needs pytest, which is there where the tests are.
    from tools.mutants import trial  # noqa: PLC0415

    documents = _documents(set(mutations.SEEDS.values()))
    if operation and operation not in mutations.SEEDS:
        raise RefusedError(f"{operation} is none of {', '.join(mutations.SEEDS)}")
    every = mutations.mutants(documents)
    listed = score.equivalents()
    tried = score.without(mutations.mutants(documents, operation or None), listed)
    equivalent = len(every) - len(score.without(every, listed))
    tried = mutations.sample(tried, sample, seed) if sample else tried
    trial.prepare()
    root = Path.cwd()
    operations = sorted({mutant.operation for mutant in tried})
    for name, verdict in run(operations, lambda name: trial.judge_unchanged(name, documents, root), jobs):
        if verdict.by:
            raise RefusedError(f"without any change the tests of {name} fail: {verdict.by}: {verdict.where}")
    verdicts: dict[str, Verdict] = {}
    with _progress(len(tried)) as advance:
        for mutant, verdict in run(tried, lambda mutant: trial.judge(mutant, documents[mutant.api], root), jobs):
            verdicts[mutant.name] = verdict
            advance(mutant.name, verdict)
    result = score.total(verdicts, equivalent, score.unknown(listed, every))
    emit(machine, result.value(), lambda console: console.print(plain("\n".join(result.lines()))))
    if not result.good:
        raise typer.Exit(REFUSED)


def _documents(apis: set[str]) -> dict[str, dict[str, Any]]:
    try:
        return {api: Document.load(SPEC / f"{api}.yaml").value for api in sorted(apis)}
    except (DocumentError, FileNotFoundError) as error:
        raise RefusedError(str(error)) from None


@contextmanager
def _progress(count: int) -> Iterator[Callable[[str, Verdict], None]]:
    """Show on standard error how far it is; where that is no terminal, what was not noticed alone, as it is found."""
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[survivors]} survived"),
    )
    console = Console(stderr=True)
    # Without a thread of its own: this process forks.
    with Progress(*columns, console=console, auto_refresh=False, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=count, survivors=0)
        survivors = 0

        def advance(name: str, verdict: Verdict) -> None:
            nonlocal survivors
            survivors += not verdict.by
            if not verdict.by or not verdict.judged:
                line = f"not judged: {name}: {verdict.where}" if verdict.by else f"survived: {name}"
                progress.console.print(plain(line), markup=False, highlight=False, soft_wrap=True)
            progress.update(task, advance=1, survivors=survivors, refresh=True)

        yield advance

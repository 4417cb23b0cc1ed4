from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.generator.conftest import Run, Types
from tests.generator.test_readme import WALK, add_to_service, fences, lint, prove, replace, write_handler
from tests.support.effort import in_ci_alone
from tests.support.gatehouse import COMMAND

# What a person sees on the way from an edit of a document until all is green again: a field that may be left out, an
# operation, and a value that an answer has no more. Where a message changes on purpose, `SEEN` is what to change.
SEEN: Final = Path(__file__).with_name("pull_request.txt")

DOCUMENT: Final = "spec/coordinator.yaml"
SERVICE: Final = "handlers/coordinator/service.py"
HANDLER: Final = "handlers/coordinator/health.py"
RUNS: Final = "handlers/coordinator/runs.py"
STUB_TEST: Final = "tests/handlers/coordinator/test_health.py"
LIVE: Final = "description: Always true; a process that does not live gives no answer.\n          type: boolean\n"
# What takes the place of `type=step.type,` in the handler, whose type the document has narrowed.
NARROWED: Final = """
        type="call" if step.type == "choose" else step.type,
       """


class Transcript:
    """The commands and what they print, but for what differs from machine to machine and from day to day."""

    def __init__(self, repository: Path) -> None:
        self._repository = repository
        self.text = ""

    def note(self, command: str, lines: list[str]) -> None:
        """Add a command; of a place in Python code its line is shown instead of its number."""
        self.text += "\n".join([f"$ {command}", *map(self._shown, lines or ["(nothing)"]), "", ""])

    def _shown(self, line: str) -> str:
        line = re.sub(r"^([\w/]+\.py):(\d+): ", self._with_its_line, line.replace(f"{self._repository}/", ""))
        return re.sub("[0-9a-f]{32}", "<trace id>", re.sub(r"(, \d+ deselected)? in [0-9.]+s.*", "", line))

    def _with_its_line(self, found: re.Match[str]) -> str:
        lines = (self._repository / found[1]).read_text("utf-8").splitlines()
        return f"{found[1]}: `{lines[int(found[2]) - 1].strip()}`: "


def told(done: subprocess.CompletedProcess[str], *beginnings: str) -> list[str]:
    """The lines that a command printed, or those alone that begin so."""
    return [line for line in done.stdout.splitlines() if not beginnings or re.match("|".join(beginnings), line)]


@in_ci_alone
@pytest.mark.timeout(400)
def test_a_change_of_the_document_is_followed_by_messages_until_all_is_green(
    repository: Path, run: Run, types: Types
) -> None:
    transcript = Transcript(repository)

    def gatehouse(*words: str) -> subprocess.CompletedProcess[str]:
        return run(COMMAND, *words)

    def check_types() -> None:
        # Notes come or not by what mypy has in its cache.
        transcript.note("mypy", [line for line in types(SERVICE, HANDLER, RUNS) if ": note: " not in line])

    def check_spec() -> None:
        # The column is where the line's text begins; which line it is, changes with the document.
        lines = [re.sub(r"^(spec/\w+\.yaml):\d+:\d+: ", r"\1: ", line) for line in told(gatehouse("check", "spec"))]
        transcript.note("gatehouse check spec", lines)

    shutil.copytree(repository / "spec", repository / "before")
    path, schema = fences(WALK, "yaml")
    document = repository / DOCUMENT
    replace(document, "\npaths:\n", "\npaths:\n" + path.replace("      summary: Show the version\n", ""))
    replace(document, "\n  schemas:\n", f"\n  schemas:\n{schema}")
    replace(document, LIVE, f"{LIVE}        node:\n          type: string\n")
    replace(document, "enum: [wait-until, call, choose, finish]", "enum: [wait-until, call, finish]")
    check_spec()

    replace(document, "operationId: showVersion\n", "operationId: showVersion\n      summary: Show the version\n")
    replace(document, "        node:\n", "        node:\n          description: Which process it is.\n")
    check_spec()
    transcript.note("gatehouse diff before", told(gatehouse("diff", "before")))
    transcript.note("gatehouse check generated", told(gatehouse("check", "generated"), "generated/", "Mend"))
    transcript.note("gatehouse generate", told(gatehouse("generate")))
    check_types()

    stub = told(gatehouse("generate", "--stub", "showVersion"))
    transcript.note("gatehouse generate --stub showVersion", stub)
    add_to_service(repository / SERVICE, *stub[-2:])
    replace(
        repository / RUNS, "type=step.type,", '\n        type="call" if step.type == "choose" else step.type,\n       '
    )
    check_types()
    failed = prove(run, STUB_TEST)
    transcript.note("pytest", told(failed, r"E +\S*(Error|assert)", "[0-9]+ failed"))

    write_handler(repository / HANDLER, 'return show_version_op.Ok(body=models.Version(version="0.1.0"))')
    check_types()
    lint(run)
    transcript.note("gatehouse check spec", told(gatehouse("check", "spec")))
    transcript.note("gatehouse check generated", told(gatehouse("check", "generated")))
    proved = prove(run, STUB_TEST, "tests/contract/test_every_answer.py")
    transcript.note("pytest", told(proved, "[0-9]+ passed"))
    assert proved.returncode == 0, proved.stdout
    assert transcript.text == SEEN.read_text("utf-8")

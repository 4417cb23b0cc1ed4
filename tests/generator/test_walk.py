from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.effort import in_ci_alone
from tools.generator import generate, stub

ROOT = Path(__file__).parents[2]
SERVICE = "handlers/coordinator/service.py"
POSTPONE = """
  /v1/runs/{run}/postpone:
    post:
      operationId: postponeRun
      summary: Take up a run later
      tags: [runs]
      x-listeners: [control]
      security:
        - operatorToken: []
      parameters:
        - $ref: "#/components/parameters/Run"
      responses:
        "200":
          description: The run.
          content:
            application/json:
              schema:
                $ref: "#/components/schemas/Run"
        "401":
          $ref: "#/components/responses/OperatorRefused"
        "404":
          $ref: "#/components/responses/RunNotVisible"
        "500":
          $ref: "#/components/responses/RuntimeFailure"

components:
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    leave = shutil.ignore_patterns("__pycache__")
    for room in ("spec", "generated", "handlers", "storage"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=leave)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def errors(repository: Path, config: pytest.Config, *paths: str) -> list[str]:
    """What mypy says of these files alone; the cache is kept, since it is mostly of libraries."""
    assert config.cache is not None
    options = ["--follow-imports", "silent", "--no-error-summary", "--cache-dir", str(config.cache.mkdir("mypy"))]
    command = [sys.executable, "-m", "mypy", *options, *paths]
    ended = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    return (ended.stdout + ended.stderr).splitlines()


# The walk of the README leads by the same error to the same line.
@in_ci_alone
def test_a_new_operation_leads_by_a_type_error_to_the_line_to_write(
    repository: Path, pytestconfig: pytest.Config
) -> None:
    assert errors(repository, pytestconfig, SERVICE) == []

    document = repository / "spec" / "coordinator.yaml"
    document.write_text(document.read_text("utf-8").replace("\ncomponents:\n", POSTPONE, 1), "utf-8")
    generate(repository / "spec", repository / "generated")
    (error,) = errors(repository, pytestconfig, SERVICE)
    assert error.startswith(f"{SERVICE}:")
    assert 'error: Missing named argument "postpone_run" for "Service"  [call-arg]' in error

    made = stub(repository / "spec", repository, "postponeRun")
    service = repository / SERVICE
    assert made.service == service
    filled = f"return Service(\n        {made.service_line}\n"
    text = service.read_text("utf-8").replace("return Service(\n", filled)
    service.write_text(text.replace("\nfrom handlers", f"\n{made.service_import}\nfrom handlers", 1), "utf-8")
    assert errors(repository, pytestconfig, SERVICE, str(made.handler.relative_to(repository))) == []

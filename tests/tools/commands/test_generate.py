from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.tools.commands.conftest import Command

ROOT = Path(__file__).parents[3]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "spec", tmp_path / "spec")
    return tmp_path


def test_generated_code_is_made_and_then_left_as_it_is(gatehouse: Command, project: Path) -> None:
    first = gatehouse("generate", "--json")
    assert first.returncode == 0
    assert {"path": "generated/runtime.py", "was": "missing"} in json.loads(first.stdout)["mended"]
    assert json.loads(gatehouse("generate", "--json").stdout) == {"mended": []}
    (project / "generated" / "runtime.py").unlink()
    assert gatehouse("generate").stdout.splitlines()[0] == "generated/runtime.py was missing"


def test_a_stub_names_its_files_and_the_lines_that_the_service_needs(gatehouse: Command, project: Path) -> None:
    done = gatehouse("generate", "--stub", "admitEvent")
    assert done.returncode == 0
    assert str(project / "handlers" / "coordinator" / "events.py") in done.stdout
    assert done.stdout.splitlines()[-3:] == [
        f"{project / 'handlers' / 'coordinator' / 'service.py'} needs two lines:",
        "from handlers.coordinator.events import admit_event",
        "        admit_event=partial(admit_event, app),",
    ]
    assert (project / "tests" / "handlers" / "coordinator" / "test_events.py").exists()


def test_a_machine_reads_of_a_stub_what_a_person_reads(gatehouse: Command, project: Path) -> None:
    done = gatehouse("generate", "--stub", "admitEvent", "--json")
    assert json.loads(done.stdout) == {
        "written": [
            str(project / "handlers" / "coordinator" / "events.py"),
            str(project / "tests" / "handlers" / "coordinator" / "test_events.py"),
        ],
        "serviceImport": "from handlers.coordinator.events import admit_event",
        "serviceLine": "admit_event=partial(admit_event, app),",
    }


@pytest.mark.usefixtures("project")
def test_a_stub_of_no_operation_is_refused(gatehouse: Command) -> None:
    done = gatehouse("generate", "--stub", "nope")
    assert done.returncode == 1
    assert "no document has an operation nope" in done.stderr


def test_a_folder_of_ones_own_is_not_replaced(gatehouse: Command, project: Path) -> None:
    (project / "generated").mkdir()
    (project / "generated" / "mine.txt").write_text("mine")
    done = gatehouse("generate", "--json")
    assert done.returncode == 1
    assert "nothing was replaced" in json.loads(done.stdout)["detail"]
    assert (project / "generated" / "mine.txt").read_text() == "mine"


def test_without_documents_nothing_is_generated(gatehouse: Command) -> None:
    done = gatehouse("generate")
    assert (done.returncode, done.stdout) == (1, "")

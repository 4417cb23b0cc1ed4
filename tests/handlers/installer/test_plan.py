from __future__ import annotations

from pathlib import Path

import pytest

from handlers.installer import plan
from handlers.steps.plan import Command, PlanError, Step


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "install-plan.yaml"


def test_the_steps_are_read_in_their_order(file: Path) -> None:
    file.write_text(
        "steps:\n  - {name: b, run: [b, -x], timeoutSeconds: 1}\n  - {name: a, run: [a], timeoutSeconds: 2}\n"
    )
    assert plan.load(file) == (
        Step("b", Command(("b", "-x"), 1), "install-plan.yaml:2:6"),
        Step("a", Command(("a",), 2), "install-plan.yaml:3:6"),
    )


def test_a_file_that_is_missing_is_told_of_by_its_name_alone(file: Path) -> None:
    with pytest.raises(PlanError, match=r"^install-plan\.yaml: No such file or directory$"):
        plan.load(file)


@pytest.mark.parametrize("text", ["", "# none\n", "steps: []", "steps:"])
def test_an_install_has_steps(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(PlanError, match=r"^install-plan\.yaml:1:1: steps must have at least one$"):
        plan.load(file)


def test_all_that_is_wrong_is_told(file: Path) -> None:
    file.write_text("steps:\n  - {name: a, run: a, timeoutSeconds: 1}\n  - {name: a, run: [a]}\n")
    with pytest.raises(PlanError) as refused:
        plan.load(file)
    assert refused.value.findings == [
        "install-plan.yaml:2:15: steps[0].run must be a list of texts, the program first",
        "install-plan.yaml:3:5: steps[1].timeoutSeconds is missing",
        "install-plan.yaml:3:6: steps[1].name must name each step once",
    ]


def test_a_file_that_is_far_too_large_is_not_read_to_its_end(file: Path) -> None:
    with file.open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(PlanError, match="a file has at most 262,144 bytes"):
        plan.load(file)

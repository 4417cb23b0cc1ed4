from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.tools.bench.growth.test_parts import BROKEN, HELD, part
from tools.bench import load
from tools.bench.growth import Growth, admission, joins, measure, readers, replays

GROWTH = Growth(date="2026-04-15T12:00:00Z", parts=[part(HELD), part(BROKEN)])


def test_all_tables_stand_beneath_one_another() -> None:
    console = Console(width=160)
    with console.capture() as captured:
        console.print(GROWTH.table())
    text = captured.get()
    assert "2026-04-15T12:00:00Z" in text
    assert text.count("by the number") == text.count("That is why.") == 2


def test_a_promise_that_one_part_breaks_is_a_failure_of_the_whole() -> None:
    assert GROWTH.failures() == ["memory is 41.00, at most 40 is promised"]
    assert GROWTH.document()["failures"] == GROWTH.failures()
    assert len(GROWTH.document()["parts"]) == 2


def test_each_part_is_measured_in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders: list[Path] = []

    def stub(folder: Path, say: Callable[[str], None], *_: Any) -> Any:
        say("measured")
        folders.append(folder)
        return part(HELD)

    for module in (admission, joins, replays, readers):
        monkeypatch.setattr(module, "measure", stub)
    monkeypatch.setattr(load, "wrk", lambda: "wrk")
    said: list[str] = []
    assert len(measure(tmp_path, said.append).parts) == len(said) == 4
    assert len(set(folders)) == 4
    assert {folder.parent for folder in folders} == {tmp_path}

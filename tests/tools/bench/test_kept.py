import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tools.bench import kept
from tools.bench.servers import BenchError

DATE = "2026-04-15T12:00:00Z"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_result_is_dated_in_utc_by_the_second() -> None:
    dated = datetime.fromisoformat(kept.now())
    assert dated.tzinfo == UTC
    assert dated.microsecond == 0


def test_a_document_is_kept_by_its_date_over_an_earlier_one() -> None:
    for number in (1, 2):
        file = kept.keep({"date": DATE, "number": number})
    assert file == Path("bench-results/2026-04-15T120000Z.json")
    assert json.loads(file.read_text()) == {"date": DATE, "number": 2}


def test_what_is_no_comparison_has_its_name_in_that_of_the_file() -> None:
    assert kept.keep({"date": DATE}, "growth") == Path("bench-results/growth-2026-04-15T120000Z.json")


def test_a_comparison_is_read_as_it_was_kept() -> None:
    document = {"date": DATE, "runs": [{"played": []}]}
    assert kept.read(kept.keep(document)) == document


@pytest.mark.parametrize("text", ['{"played": []}', "[]", "no JSON", "\udcff"])
def test_a_file_that_holds_anything_else_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "other.json"
    file.write_text(text, errors="surrogateescape")
    with pytest.raises(BenchError, match="no result of this bench"):
        kept.read(file)


def test_a_work_folder_is_among_the_results_and_gone_afterwards() -> None:
    with kept.work_folder() as folder:
        (folder / "some").mkdir()
        assert folder.parent == kept.RESULTS.resolve()
    assert list(kept.RESULTS.iterdir()) == []

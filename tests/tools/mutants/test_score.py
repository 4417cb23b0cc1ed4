from __future__ import annotations

from pathlib import Path
from typing import Final

from tools.mutants.document import Change
from tools.mutants.mutations import Mutant
from tools.mutants.score import UNJUDGED, Equivalent, Verdict, equivalents, total, unknown, without

MUTANT: Final = Mutant("join", "reportJoinEvents", Change(("a", "b"), 1, "2 made 1"))
OTHER: Final = Mutant("join", "reportJoinEvents", Change(("a", "c"), 1, "2 made 1"))
LINT, TESTS, NOTHING = Verdict("lint", "A rule."), Verdict("tests", "a test"), Verdict("")


def test_a_score_is_the_part_that_was_noticed() -> None:
    score = total({"a": LINT, "b": TESTS, "c": NOTHING, "d": TESTS}, 7, [])
    assert score.value() == {
        "score": 0.75,
        "least": 0.95,
        "tried": 4,
        "noticed": {"lint": 1, "tests": 2},
        "survivors": ["c"],
        "unjudged": {},
        "equivalent": 7,
        "unknownEquivalents": [],
    }
    assert not score.good
    assert score.lines() == [
        "survived: c",
        "4 mutants tried; noticed: 1 by lint, 2 by tests",
        "score 0.750 (at least 0.95), 7 equivalent",
    ]


def test_one_survivor_of_twenty_is_just_good_enough() -> None:
    assert total({str(number): LINT if number else NOTHING for number in range(20)}, 0, []).good
    assert not total({str(number): LINT if number else NOTHING for number in range(19)}, 0, []).good
    assert total({}, 0, []).good


def test_one_that_was_not_judged_counts_as_not_noticed_and_is_told() -> None:
    score = total({"a": LINT, "b": Verdict(UNJUDGED, "it died")}, 0, [])
    assert (score.score, score.noticed, score.survivors) == (0.5, {"lint": 1}, [])
    assert score.value()["unjudged"] == {"b": "it died"}
    assert score.lines()[0] == "not judged: b: it died"


def test_an_equivalent_one_that_is_not_made_any_more_is_told() -> None:
    listed = [Equivalent("join#/a/b: 2 made 1", "A reason."), Equivalent("join#/z*", "A reason.")]
    assert without([MUTANT, OTHER], listed) == [OTHER]
    assert unknown(listed, [MUTANT, OTHER]) == ["join#/z*"]
    score = total({"a": LINT}, 1, ["join#/z*"])
    assert not score.good
    assert "listed as equivalent, but not made any more: join#/z*" in score.lines()


def test_a_star_stands_for_anything_and_nothing_else_does() -> None:
    assert Equivalent("join#*: 2 made 1", "A reason.").covers(MUTANT)
    assert not Equivalent("join#/a/.: 2 made 1", "A reason.").covers(MUTANT)


def test_the_list_gives_a_reason_for_each(tmp_path: Path) -> None:
    assert all(len(each.reason) > 20 for each in equivalents())
    file = tmp_path / "list.yaml"
    file.write_text('- mutants: "a*"\n  reason: So.\n')
    assert equivalents(file) == [Equivalent("a*", "So.")]

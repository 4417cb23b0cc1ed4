from rich.console import Console

from tools.bench.growth.parts import Column, Part, Promise, difference, megabytes, quotient

HELD = Promise("rate", 0.8, "at least", 0.6, "the disk")
BROKEN = Promise("memory", 41.0, "at most", 40, "nothing is kept")
UNKNOWN = Promise("processor time", None, "at most", 1.4, "no /proc")


def part(*promises: Promise, load_share: float = 0.1) -> Part:
    rows: dict[str, dict[str, float | None]] = {
        "none": {"rate": 4_000.4, "p50": 7.25, "load_share": load_share},
        "many": {"rate": 3_200.0, "p50": None},
    }
    columns = (Column("rate", "requests/s"), Column("p50", "p50 ms", 1))
    return Part(title="by the number", columns=columns, rows=rows, promises=promises, note="That is why.")


def shown(part: Part) -> str:
    console = Console(width=160)
    with console.capture() as captured:
        for each in part.tables():
            console.print(each)
    return captured.get()


def test_a_promise_holds_on_its_side_of_the_bound_and_where_nothing_is_known() -> None:
    assert (HELD.held, BROKEN.held, UNKNOWN.held) == (True, False, True)
    assert Promise("rate", 0.59, "at least", 0.6, "").held is False
    assert Promise("memory", 40.0, "at most", 40, "").held is True


def test_a_failure_tells_the_figure_and_what_was_promised() -> None:
    assert part(HELD, BROKEN, UNKNOWN).failures() == ["memory is 41.00, at most 40 is promised"]


def test_the_tables_show_figures_promises_and_why() -> None:
    text = shown(part(HELD, BROKEN, UNKNOWN))
    for words in ("by the number", "4,000", "7.2", "unknown", "at least 0.6", "the disk", "yes", "no", "That is why."):
        assert words in text
    assert "no time left" not in text


def test_a_load_that_had_no_time_left_is_told_of() -> None:
    assert "none: the load had no time left" in shown(part(load_share=0.9))


def test_the_document_has_the_figures_unrounded_and_which_promises_are_held() -> None:
    document = part(HELD, BROKEN).document()
    assert document["rows"]["none"]["rate"] == 4_000.4
    assert [promise["held"] for promise in document["promises"]] == [True, False]


def test_what_is_not_known_stays_unknown_through_arithmetic() -> None:
    assert (quotient(3.0, 2.0), quotient(None, 2.0), quotient(3.0, None), quotient(3.0, 0.0)) == (1.5, None, None, None)
    assert (difference(3.0, 2.0), difference(None, 2.0), difference(3.0, None)) == (1.0, None, None)
    assert (megabytes(1_500_000), megabytes(None)) == (1.5, None)

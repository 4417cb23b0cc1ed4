from __future__ import annotations

from tools.contract.coverage import Coverage, described, percent
from tools.contract.document import Cell

GET = Cell("library", "getBook", "200", "", "application/json")
HEADER = Cell("library", "getBook", "200", header="ETag")
REFUSED = Cell("library", "addBook", "409", "book.known", "application/problem+json")
ADDED = Cell("library", "addBook", "204")
ALL = (GET, HEADER, REFUSED, ADDED)


def test_the_table_has_a_line_an_operation_and_each_thing_that_was_not_seen() -> None:
    assert list(Coverage(ALL, [GET, ADDED]).lines()) == [
        "document  operation  answers  headers",
        "library   getBook    1/1      0/1",
        "library   addBook    1/2      0/0",
        "not seen: library getBook 200 header ETag",
        "not seen: library addBook 409 book.known application/problem+json",
        "2 of 4 documented answers and headers seen, 50.0 %",
    ]


def test_what_nobody_promised_counts_for_nothing() -> None:
    whole = Coverage(ALL, [*ALL, Cell("library", "addBook", "500")])
    assert whole.unseen == []
    assert whole.share == (4, 4)
    assert list(whole.lines())[-1].endswith("100 %")


def test_a_program_is_told_each_thing_and_whether_it_was_seen() -> None:
    value = Coverage(ALL, [GET]).value
    assert (value["documented"], value["seen"]) == (4, 1)
    assert [cell["seen"] for cell in value["cells"]] == [True, False, False, False]
    assert value["cells"][1]["header"] == "ETag"


def test_nearly_all_is_not_100_percent() -> None:
    assert percent(9999, 10000) == "99.9"
    assert percent(0, 0) == "100"


def test_an_answer_without_a_body_is_called_so() -> None:
    assert described(ADDED) == "library addBook 204 without a body"

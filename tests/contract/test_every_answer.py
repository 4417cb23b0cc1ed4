from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from tests.contract.causes import CAUSES, TABLE
from tests.contract.worlds import World
from tests.support.contract import Documented, documented

EVERY: Final = list(documented())


@pytest.mark.parametrize("answer", EVERY, ids=lambda each: "-".join(map(str, each)).rstrip("-"))
def test_each_answer_of_the_document_comes_from_its_cause(answer: Documented, world: World) -> None:
    assert answer in CAUSES, "the document has an answer for which no cause is known"
    given = CAUSES[answer](world, answer.operation)
    assert given.outcome == (answer.status, answer.code)
    if answer.status == 503:
        assert given.header("Retry-After") == "5"


def test_no_cause_is_kept_for_what_the_document_has_no_more() -> None:
    assert CAUSES.keys() == set(EVERY)
    listed = Counter((name, status, code) for names, status, code, _ in TABLE for name in names)
    assert max(listed.values()) == 1

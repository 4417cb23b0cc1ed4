from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import ModuleType
from typing import Final

import pytest

from tests.contract import coordinator_causes, installer_causes, join_causes, promised
from tests.contract.worlds import World
from tests.support.contract import APIS, ApiName, Documented, document, documented

EVERY: Final = [(api, answer) for api in APIS for answer in dict.fromkeys((*documented(api), *promised.answers(api)))]
KNOWN: Final[Mapping[ApiName, ModuleType]] = {
    "coordinator": coordinator_causes,
    "join": join_causes,
    "installer": installer_causes,
}


@pytest.mark.parametrize(("api", "answer"), EVERY, ids=["-".join(map(str, answer)).rstrip("-") for _, answer in EVERY])
def test_each_answer_of_the_document_comes_from_its_cause(api: ApiName, answer: Documented, world: World) -> None:
    causes = KNOWN[api].CAUSES
    assert answer in causes, "the document has an answer for which no cause is known"
    given = causes[answer](world, answer.operation)
    assert given.outcome == (answer.status, answer.code)
    if answer.code:
        promised.check(api, given)
        for name, value in document(api)["x-problems"][answer.code].get("headers", {}).items():
            assert value is None or given.header(name) == str(value)
    if answer.status == 503:
        assert given.header("Retry-After") == "5"


@pytest.mark.parametrize("api", APIS)
def test_no_cause_is_kept_for_what_the_document_has_no_more(api: ApiName) -> None:
    assert KNOWN[api].CAUSES.keys() == set(documented(api))
    listed = Counter((name, status, code) for names, status, code, _ in KNOWN[api].TABLE for name in names)
    assert max(listed.values()) == 1

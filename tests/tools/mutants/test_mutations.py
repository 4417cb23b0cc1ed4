from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tools.generator.documents import Document
from tools.mutants.mutations import SEEDS, mutants, sample

SPEC: Final = Path(__file__).parents[3] / "spec"
EVENTS: Final = "coordinator#/paths/~1v1~1events~1{workflow}~1{trigger}/post"


@cache
def documents() -> dict[str, dict[str, Any]]:
    return {api: Document.load(SPEC / f"{api}.yaml").value for api in SEEDS.values()}


@cache
def names(operation: str | None = None) -> list[str]:
    return [mutant.name for mutant in mutants(documents(), operation)]


@pytest.mark.parametrize(
    "name",
    [
        f"{EVENTS}/security: requirement 0 dropped",
        f"{EVENTS}/x-listeners: control made join",
        f"{EVENTS}/parameters/0/schema/maxLength: 64 made 65",
        f"{EVENTS}/parameters/2: dropped",
        f"{EVENTS}/parameters/2/required: made optional",
        f"{EVENTS}/requestBody/x-body-limit: 1048576 made 1048577",
        f"{EVENTS}/requestBody/x-canonical-json: dropped",
        f"{EVENTS}/requestBody/content/application~1json: dropped",
        f"{EVENTS}/responses/409: dropped",
        "coordinator#/components/schemas/Causation/properties/hop/maximum: 8 made 9",
        "coordinator#/components/headers/RunId/required: made optional",
        "coordinator#/x-problems/admission.held/title: made another",
        "installer#/components/schemas/InstallEvent/properties/id/minimum: 1 made 0",
        "join#/components/schemas/JoinReport/properties/events/maxItems: 500 made 501",
        "join#/x-problems/JOIN_ENDED/members: details dropped",
    ],
)
def test_the_constraints_of_the_seed_operations_are_changed(name: str) -> None:
    assert name in names()


def test_a_code_that_the_catalogue_has_for_the_status_is_added_to_a_list() -> None:
    place = f"{EVENTS}/responses/400/content/application~1problem+json/schema/allOf/1/properties/code/enum"
    assert f"{place}: idempotency.key-invalid added" in names()
    assert f"{place}: event.invalid dropped" in names()


def test_each_mutant_comes_once_and_belongs_to_an_operation() -> None:
    assert len(set(names())) == len(names())
    assert sorted(name for operation in SEEDS for name in names(operation)) == sorted(names())
    with pytest.raises(KeyError):
        mutants(documents(), "getRun")


def test_a_sample_is_drawn_by_its_seed() -> None:
    every = mutants(documents())
    first, again, other = sample(every, 60, 1), sample(every, 60, 1), sample(every, 60, 2)
    assert first == again != other
    assert len({mutant.name for mutant in first}) == 60
    assert sample(every, 10_000, 1) == every

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from handlers.coordinator.workflows.checks import check_definition
from handlers.coordinator.workflows.workflow import RefusedWorkflowError, compile_workflow
from tests.handlers.coordinator.workflows.building import asking

SEED = 20261130


def faults(**changes: Any) -> list[tuple[str, str]]:
    return [(".".join(map(str, fault.path)), fault.message) for fault in check_definition(asking(**changes)).faults]


def test_every_mapping_of_a_good_workflow_is_compiled() -> None:
    checked = check_definition(asking())
    assert checked.faults == []
    assert {".".join(map(str, path)) for path in checked.mappings} == {
        "triggers.case-created.input",
        "steps.ask.parameters",
        "steps.ask.query",
        "steps.ask.body",
        "steps.decide.cases.0.when",
        "steps.pause.until",
        "steps.done.output",
    }


@pytest.mark.parametrize(
    ("member", "value", "path", "words"),
    [
        ("triggers__case-created__input", "input.caseId", "", "'input' is not known here; event may"),
        ("triggers__case-created__input", {"a": ["event.dta"]}, ".a.0", "event has no member 'dta'"),
        ("steps__ask__body", {"a": "event.id"}, ".a", "'event' is not known here; input, run, steps may"),
        ("steps__ask__parameters__case", "steps.ask.body.id", "", "step 'ask' gives nothing here"),
        ("steps__ask__query__run", "run.name", "", "run has no member 'name'"),
        ("steps__decide__cases", [{"when": "steps.ask.code", "next": "pause"}], ".0.when", "no member 'code'"),
        ("steps__pause__until", "timestamp(", "", "'(' is not closed"),
        ("steps__done__output", "steps.pause.endedAt", "", "step 'pause' gives nothing here"),
        ("steps__done__outcome", "declined", "", "the outcome declined is not declared"),
        ("outcomes__declined", True, "", "no step finishes so"),
        ("outcomes__decided", {"type": "obj"}, ".type", "must be a type of JSON"),
        ("input__properties__caseId", {"format": "f"}, ".format", "the format f is not known"),
        ("steps__ask__next", "nowhere", "", "there is no step nowhere"),
        ("steps__ask__path", "/cases/{case}/../x", "", "without the segments '.' and '..'"),
        ("steps__ask__path", "/cases/{case}/{part}", "", "the parameter part is not given"),
    ],
)
def test_what_does_not_fit_together_is_told_where_it_stands(member: str, value: Any, path: str, words: str) -> None:
    found = faults(**{member: value})
    assert any(where == member.replace("__", ".") + path and words in message for where, message in found), found


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_method_without_a_body_is_given_none(method: str) -> None:
    assert faults(steps__ask__method=method) == [("steps.ask.body", f"a {method} has no body")]
    assert faults(steps__ask__method=method, steps__ask__body=...) == []


def test_a_parameter_that_the_path_does_not_have_is_refused() -> None:
    assert faults(steps__ask__path="/cases") == [("steps.ask.parameters.case", "the path has no such parameter")]


def test_a_result_that_one_way_does_not_set_is_refused_and_one_that_all_set_is_not() -> None:
    other = {"type": "choose", "cases": [{"when": "input.caseId == ''", "next": "ask"}], "else": "decide"}
    assert [path for path, _ in faults(start="other", steps__other=other)] == [
        "steps.decide.cases.0.when",
        "steps.pause.until",
        "steps.done.output",
    ]
    assert faults(start="other", steps__other={**other, "else": "ask"}) == []


def test_faults_of_every_kind_are_told_together() -> None:
    found = faults(
        version=1,
        zzz=1,
        deadlineSeconds=0,
        input={"type": "x"},
        start="nowhere",
        steps__ask__next="decid",
        steps__ask__path="/cases",
        steps__decide__cases=[{"when": "steps.ask.status ==", "next": 5}],
        steps__pause__nxt="done",
        steps__done__outcome="none",
        outcomes__decided={"pattern": "("},
    )
    assert {path for path, _ in found} == {
        "version",
        "zzz",
        "deadlineSeconds",
        "input.type",
        "start",
        "steps.ask.next",
        "steps.ask.parameters.case",
        "steps.decide.cases.0.when",
        "steps.decide.cases.0.next",
        "steps.pause.nxt",
        "steps.done.outcome",
        "outcomes.decided.pattern",
        "outcomes.decided",
    }


REPLACEMENTS: list[Any] = [
    *(None, True, 0, -1, 2**53, 1.5, "", "x", "done", "event.id", "steps.ask", "(", "a" * 3_000),
    *([], [[]], {}, {"type": "choose"}, {"type": "call"}, {"next": "ask"}, {"": {}}, {"$ref": "#"}, [{"when": 5}]),
]


def places(node: Any) -> list[tuple[Any, Any]]:
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [found for name, child in inner for found in ((node, name), *places(child))]


@pytest.mark.parametrize("part", range(8))
def test_whatever_stands_in_a_file_is_judged(part: int) -> None:
    chance = random.Random(SEED + part)
    for _ in range(150):
        definition = asking()
        for _ in range(chance.randint(1, 4)):
            holder, name = chance.choice(places(definition))
            if chance.random() < 0.2:
                del holder[name]
            else:
                holder[name] = copy.deepcopy(chance.choice(REPLACEMENTS))
        checked = check_definition(definition)
        if checked.faults:
            with pytest.raises(RefusedWorkflowError):
                compile_workflow(definition)
        else:
            assert compile_workflow(definition).definition == definition

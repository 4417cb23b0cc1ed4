from __future__ import annotations

from typing import Any

from handlers.coordinator.workflows.reading import MAX_WAYS, flowchart, ordered, reading, told, ways_to
from handlers.coordinator.workflows.workflow import Workflow, compile_workflow
from tests.handlers.coordinator.workflows.building import asking

TOLD = """\
case-decision, version 1: a run takes 1 hour at most

Begins with
  case-created: case-created-v1 of urn:gatehouse:demo, data as in urn:gatehouse:demo:case-created-v1
    input.caseId = event.data.caseId
  an operator, with the input caseId

Steps
  1. ask: sends POST /cases/{case}/decision to registry
     parameters.case = input.caseId
     query.wait = true
     query.run = run.id
     body.at = run.admittedAt
     body.urgent = 'no'
     not answered: the same command is sent again
     then decide
  2. decide: goes on to
     pause, where steps.ask.status == 202
     else done
  3. pause: waits until timestamp(steps.ask.endedAt) + duration('1h')
     then done
  4. done: finishes as decided
     output = steps.ask.body

Ends
  decided, with the output {"type":"object"}
    by ask, decide, pause, done
    by ask, decide, done"""

CHART = """\
flowchart TD
  %% case-decision, version 1
  s1["ask: POST /cases/{case}/decision of registry"]
  s2{"decide"}
  s3(["pause: until timestamp(steps.ask.endedAt) + duration('1h')"])
  s4[["done: decided"]]
  s1 --> s2
  s2 -->|"steps.ask.status == 202"| s3
  s2 -->|"else"| s4
  s3 --> s4"""


def branching(choices: int) -> Workflow:
    steps: dict[str, Any] = {"done": {"type": "finish", "outcome": "decided", "output": {}}}
    for number in range(choices):
        following = f"c{number + 1}" if number + 1 < choices else "done"
        steps[f"w{number}"] = {"type": "wait-until", "until": "run.admittedAt", "next": following}
        steps[f"c{number}"] = {
            "type": "choose",
            "cases": [{"when": "true", "next": f"w{number}"}],
            "else": following,
        }
    return compile_workflow(asking(start="c0", steps=steps))


def test_a_workflow_is_told_step_by_step_with_what_leads_where_and_the_ways_to_each_end() -> None:
    assert "\n".join(told(reading(compile_workflow(asking()), {"registry": "same-command"}))) == TOLD


def test_a_recovery_is_told_where_the_settings_say_it_and_of_a_read_always() -> None:
    workflow = compile_workflow(asking())
    assert not any("not answered" in line for line in told(reading(workflow, None)))
    missing = told(reading(workflow, {}))
    assert "     the settings have no connection registry" in missing
    read = reading(compile_workflow(asking(steps__ask__method="GET", steps__ask__body=...)), None)
    assert "     not answered: it is read again" in told(read)


def test_an_input_is_told_by_its_members_and_which_of_them_may_be_left_out() -> None:
    optional = asking(input__properties={"caseId": {}, "note": {"type": "string"}})
    assert "  an operator, with the input caseId, note (optional)" in told(reading(compile_workflow(optional), None))


def test_a_workflow_is_drawn_as_a_flowchart() -> None:
    assert "\n".join(flowchart(compile_workflow(asking()))) == CHART


def test_what_mermaid_would_obey_is_shown_as_it_is_written() -> None:
    quoted = asking(steps__decide__cases=[{"when": 'steps.ask.status < 300 && "#" == input.caseId', "next": "pause"}])
    assert '|"steps.ask.status #lt; 300 && #quot;#35;#quot; == input.caseId"|' in "\n".join(
        flowchart(compile_workflow(quoted))
    )


def test_a_step_stands_after_all_that_lead_to_it() -> None:
    order = ordered(branching(3))
    assert order == ["c0", "w0", "c1", "w1", "c2", "w2", "done"]


def test_of_very_many_ways_some_are_told() -> None:
    workflow = branching(60)
    [outcome] = reading(workflow, None)["outcomes"]
    assert (len(outcome["ways"]), outcome["moreWays"]) == (MAX_WAYS, True)
    assert f"    and by more ways than these {MAX_WAYS}" in told(reading(workflow, None))
    assert len(list(ways_to(branching(3), "decided"))) == 8

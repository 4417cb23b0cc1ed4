from __future__ import annotations

import pytest

from handlers.coordinator.workflows.workflow import (
    Call,
    Choose,
    Finish,
    RefusedWorkflowError,
    WaitUntil,
    compile_workflow,
)
from tests.handlers.coordinator.workflows.building import asking

RUN = {
    "input": {"caseId": "c-1"},
    "run": {"id": "r-1", "admittedAt": "2026-01-02T03:04:05.678Z", "deadlineAt": "2026-01-02T04:04:05.678Z"},
    "steps": {"ask": {"status": 202, "body": {"ok": True}, "endedAt": "2026-01-02T03:04:06.000Z"}},
}


def test_a_compiled_workflow_has_all_that_carrying_it_out_needs() -> None:
    workflow = compile_workflow(asking())
    assert (workflow.id, workflow.version, workflow.deadline_seconds) == ("case-decision", "1", 3600)
    assert (workflow.start, workflow.connections) == ("ask", ("registry",))
    assert workflow.definition == asking()
    assert workflow.input.is_valid({"caseId": "c-1"})
    assert not workflow.input.is_valid({})
    assert list(workflow.outcomes) == ["decided"]
    assert not workflow.outcomes["decided"].is_valid([])
    trigger = workflow.triggers["case-created"]
    assert (trigger.source, trigger.type) == ("urn:gatehouse:demo", "case-created-v1")
    assert trigger.dataschema == "urn:gatehouse:demo:case-created-v1"
    assert trigger.input.evaluate({"event": {"data": {"caseId": "c-1"}}}) == {"caseId": "c-1"}


def test_each_type_of_step_is_compiled_with_its_expressions() -> None:
    steps = compile_workflow(asking()).steps
    ask, decide, pause, done = (steps[name] for name in ("ask", "decide", "pause", "done"))
    assert isinstance(ask, Call)
    assert (ask.connection, ask.method, ask.path, ask.next) == ("registry", "POST", "/cases/{case}/decision", "decide")
    assert ask.parameters.evaluate(RUN) == {"case": "c-1"}
    assert ask.query.evaluate(RUN) == {"wait": True, "run": "r-1"}
    assert ask.body is not None
    assert ask.body.evaluate(RUN) == {"at": "2026-01-02T03:04:05.678Z", "urgent": "no"}
    assert isinstance(decide, Choose)
    assert [(case.when.evaluate(RUN), case.next) for case in decide.cases] == [(True, "pause")]
    assert decide.otherwise == "done"
    assert isinstance(pause, WaitUntil)
    assert (pause.until.evaluate(RUN), pause.next) == ("2026-01-02T04:04:06.000Z", "done")
    assert isinstance(done, Finish)
    assert (done.outcome, done.output.evaluate(RUN)) == ("decided", {"ok": True})


def test_a_call_without_parameters_query_and_body_has_none() -> None:
    bare = asking(
        steps__ask__parameters=..., steps__ask__query=..., steps__ask__body=..., steps__ask__path="/decisions"
    )
    ask = compile_workflow(bare).steps["ask"]
    assert isinstance(ask, Call)
    assert (ask.parameters.evaluate(RUN), ask.query.evaluate(RUN), ask.body) == ({}, {}, None)


def test_the_digest_stands_for_the_definition_and_not_for_the_order_of_its_members() -> None:
    workflow = compile_workflow(asking())
    assert workflow.digest == compile_workflow(dict(reversed(asking().items()))).digest
    for change in ({"deadlineSeconds": 3601}, {"triggers__case-created__input": {"caseId": "event.data['caseId']"}}):
        assert workflow.digest != compile_workflow(asking(**change)).digest


def test_a_definition_with_faults_is_refused_with_all_of_them() -> None:
    with pytest.raises(RefusedWorkflowError) as refused:
        compile_workflow(asking(version=1, start="nowhere"))
    assert {fault.path for fault in refused.value.faults} == {("version",), ("start",)}


@pytest.mark.parametrize("definition", [None, [], "text"])
def test_what_is_no_object_is_refused(definition: object) -> None:
    with pytest.raises(RefusedWorkflowError, match="must be an object"):
        compile_workflow(definition)

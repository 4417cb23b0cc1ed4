from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from handlers.coordinator import events, holds, runs
from handlers.coordinator.api import coordinator_document
from handlers.gateway import endpoint
from handlers.gateway.faults import Fault
from tests.support.deliveries import Delivery
from tests.support.gatehouse import Gatehouse

FIXED: Final = {
    *(fault.value for fault in Fault),
    *events.REFUSAL_DETAILS.values(),
    *runs.REFUSAL_DETAILS.values(),
    *(endpoint.UNAUTHENTICATED, runs.NO_RUN, holds.NOT_HELD, holds.UNRESOLVED),
}


def examples(node: Any) -> Iterator[Any]:
    """Yield every `example` in a document."""
    for name, child in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if name == "example":
            yield child
        else:
            yield from examples(child)


PROBLEMS: Final[list[dict[str, Any]]] = [
    example
    for example in examples(json.loads(coordinator_document()))
    if isinstance(example, dict) and "traceId" in example
]


def test_problems_have_the_words_that_the_server_gives(server: Gatehouse) -> None:
    answers = [
        server.deliver(Delivery(changes={"ce-type": "another"})),
        server.operate("GET", "/v1/runs?limit=0"),
        server.operate("POST", "/v1/restore-hold", {}),
        server.operate("POST", "/v1/release-admission-hold", {}),
    ]
    given = {(answer.code, answer.json["detail"]) for answer in answers}
    fixed = {(problem["code"], problem["detail"]) for problem in PROBLEMS if problem["detail"] in FIXED}
    assert {(problem["code"], problem["detail"]) for problem in PROBLEMS} - fixed == given


def test_a_run_that_was_just_admitted_is_at_its_first_step(server: Gatehouse) -> None:
    example = json.loads(coordinator_document())["components"]["examples"]["AdmittedRun"]["value"]
    run = server.operate("GET", f"/v1/runs/{server.deliver().run}").json
    moving = {"runId", "definitionDigest", "admittedAt", "deadlineAt"}
    assert {name: run[name] for name in run.keys() - moving} == {
        name: example[name] for name in example.keys() - moving
    }

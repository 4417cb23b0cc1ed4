from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from handlers.coordinator import events, holds, recovery, runs
from handlers.gateway import endpoint
from handlers.gateway.faults import Fault
from handlers.installer import config as configs
from handlers.installer import install, install_code
from handlers.join import events as reports
from handlers.join import registrations, standing, tokens
from tests.support.contract import PROBLEM, ApiName, document, resolved
from tests.support.deliveries import Delivery
from tests.support.gatehouse import Gatehouse
from tests.support.installs import CONFIG, CONFIG_PATH, Machine
from tests.support.nodes import Node

FIXED: Final = {
    *(fault.value for fault in Fault),
    *events.REFUSAL_DETAILS.values(),
    *runs.REFUSAL_DETAILS.values(),
    *recovery.DETAILS.values(),
    *(made().detail for made in recovery.TOLD.values()),
    *(endpoint.UNAUTHENTICATED, runs.NO_RUN, holds.NOT_HELD, holds.UNRESOLVED),
}
FIXED_OF_JOIN: Final = {
    *(fault.value for fault in Fault),
    *(endpoint.UNAUTHENTICATED, standing.NO_JOIN, tokens.NO_TOKEN, reports.NOT_IN_TURN, reports.ENDED),
    *(registrations.NAME_TAKEN, registrations.OTHER_KEY, registrations.CONFLICT, registrations.APPROVAL_REFUSED),
}
FIXED_OF_INSTALLER: Final = {
    *(fault.value for fault in Fault),
    *(endpoint.UNAUTHENTICATED, install_code.LOCKED, configs.NOT_SET, install.NO_CONFIG, install.RUNNING),
}
WITHOUT_STATUS: Final = "The body does not satisfy the document: events[0].status is required."


def problems(api: ApiName, identity: str) -> set[tuple[str, str]]:
    """The code and the detail of every problem that a document has as an example."""
    return {(each["code"], each["detail"]) for each in objects(document(api)) if {identity, "detail"} <= each.keys()}


def objects(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a document that is no schema's part."""
    for name, child in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if name in {"example", "value"} and isinstance(child, dict):
            yield child
        elif name != "properties":
            yield from objects(child)


def test_problems_have_the_words_that_the_server_gives(server: Gatehouse) -> None:
    answers = [
        server.deliver(Delivery(changes={"ce-type": "another"})),
        server.operate("GET", "/v1/runs?limit=0"),
        server.operate("POST", "/v1/restore-hold", {}),
        server.operate("POST", "/v1/release-admission-hold", {}),
    ]
    given = {(answer.code, answer.json["detail"]) for answer in answers}
    shown = problems("coordinator", "traceId")
    assert {(code, detail) for code, detail in shown if detail not in FIXED} == given


def test_problems_of_the_join_have_the_words_that_the_server_gives(pending: Node) -> None:
    assert pending.report({"type": "step", "step": "services"}).json["detail"] == WITHOUT_STATUS
    shown = problems("join", "requestId")
    assert {(code, detail) for code, detail in shown if detail not in FIXED_OF_JOIN} == {
        ("INVALID_INPUT", WITHOUT_STATUS)
    }


def test_problems_of_the_installer_have_the_words_that_the_server_gives(machine: Machine) -> None:
    disks = [{"device": "/dev/sda", "confirm": "/dev/sdb"}]
    floating = {"floatingIpCidrs": ["198.51.100.0/24", "203.0.113.7/24"]}
    refused = machine.configure({**CONFIG, "disks": disks, "network": floating})
    example = document("installer")["paths"][CONFIG_PATH]["put"]["responses"]["400"]["content"][PROBLEM]["example"]
    assert refused.json["errors"] == example["errors"]
    given = {(answer.code, answer.json["detail"]) for answer in (refused, machine.refused("?after=-1"))}
    shown = problems("installer", "requestId")
    assert {(code, detail) for code, detail in shown if detail not in FIXED_OF_INSTALLER} == given


def test_an_install_that_has_not_begun_is_as_its_example(founder: Gatehouse) -> None:
    example = resolved({"$ref": "#/components/examples/IdleInstall"}, "installer")["value"]
    assert Machine(founder).install() == example


def test_a_join_that_has_just_begun_is_as_its_example(pending: Node) -> None:
    example = resolved({"$ref": "#/components/examples/PendingRegistration"}, "join")["value"]
    moving = {"joinId", "name", "address", "registeredAt", "certificateExpiresAt"}
    shown = pending.registration().json
    assert {name: shown[name] for name in shown.keys() - moving} == {
        name: example[name] for name in example.keys() - moving
    }


def test_a_run_that_was_just_admitted_is_at_its_first_step(server: Gatehouse) -> None:
    example = document()["components"]["examples"]["AdmittedRun"]["value"]
    run = server.operate("GET", f"/v1/runs/{server.deliver().run}").json
    moving = {"runId", "definitionDigest", "bindingDigest", "admittedAt", "deadlineAt"}
    assert {name: run[name] for name in run.keys() - moving} == {
        name: example[name] for name in example.keys() - moving
    }

from __future__ import annotations

from typing import Final

import rfc8785

from tests.contract.worlds import World
from tests.support.deliveries import PATH, UNREADABLE, UNSERVED, Delivery, envelope
from tests.support.gatehouse import Gatehouse, NewServer
from tests.support.packages import connection, workflow

WRONG_KEY: Final = bytes(32)
LARGE: Final = "C" * 131_072
TOO_LONG: Final = b" " * 1_048_577
AS_TEXT: Final = {"Content-Type": "text/plain"}


def test_the_path_is_looked_at_before_the_method_and_the_credential(server: Gatehouse) -> None:
    assert server.send("PATCH", "/v1/events/case-follow-up").outcome == (404, "request.not-found")


def test_the_method_is_looked_at_before_the_length_of_the_body(server: Gatehouse) -> None:
    assert server.send("PUT", PATH, {}, TOO_LONG).outcome == (405, "request.method-not-allowed")


def test_the_length_of_the_body_is_looked_at_before_the_signature(server: Gatehouse) -> None:
    answer = server.deliver(Delivery(body=TOO_LONG), key=WRONG_KEY)
    assert answer.outcome == (413, "request.body-too-large")


def test_the_form_of_the_signature_is_looked_at_before_the_key_is_read(server: Gatehouse) -> None:
    answer = server.deliver(Delivery(path=UNREADABLE), unsigned={"X-Registry-Signature": "v1=short"})
    assert answer.outcome == (401, "event.unauthenticated")


def test_the_key_is_read_before_parameters_are_looked_at(server: Gatehouse) -> None:
    answer = server.deliver(Delivery(path=UNREADABLE, changes=AS_TEXT))
    assert answer.outcome == (503, "event.source-unavailable")


def test_the_signature_is_verified_before_parameters_are_looked_at(server: Gatehouse) -> None:
    answer = server.deliver(Delivery(changes=AS_TEXT | {"ce-id": "no uuid"}), key=WRONG_KEY)
    assert answer.outcome == (401, "event.unauthenticated")


def test_parameters_are_looked_at_before_the_form_of_the_body(server: Gatehouse) -> None:
    answer = server.deliver(Delivery(body=b"{ }", changes={"X-Registry-Event-Generation": "0"}))
    assert answer.outcome == (400, "request.invalid")


def test_the_media_type_is_looked_at_before_the_form_of_the_body(server: Gatehouse) -> None:
    assert server.deliver(Delivery(body=b"{ }", changes=AS_TEXT)).outcome == (400, "request.invalid")


def test_the_form_of_the_body_is_looked_at_before_the_envelope(server: Gatehouse) -> None:
    answer = server.deliver(Delivery(body=b'{"unknown": 1}'))
    assert answer.outcome == (400, "event.invalid")
    assert "canonical form" in answer.json["detail"]


def test_the_envelope_is_looked_at_before_the_identity(server: Gatehouse) -> None:
    event = envelope()
    assert server.deliver(Delivery(event=event)).status == 204
    unknown_member = Delivery(event=event, body=rfc8785.dumps(event | {"unknown": 1}))
    assert server.deliver(unknown_member).outcome == (400, "event.invalid")
    other_type = Delivery(event=event, changes={"ce-type": "case-closed-v1"})
    assert server.deliver(other_type).outcome == (400, "event.invalid")


def test_the_identity_is_looked_at_before_the_size_of_the_event(server: Gatehouse) -> None:
    event = envelope()
    assert server.deliver(Delivery(event=event)).status == 204
    grown = Delivery(event=event | {"data": {"caseId": LARGE}})
    assert server.deliver(grown).outcome == (409, "idempotency.key-reused")


def test_the_key_is_looked_at_before_the_size_of_the_event(server: Gatehouse) -> None:
    key = {"Idempotency-Key": "a key before a size"}
    assert server.deliver(Delivery(changes=key)).status == 204
    other = Delivery(event=envelope(data={"caseId": LARGE}), changes=key)
    assert server.deliver(other).outcome == (409, "idempotency.key-reused")


def test_the_size_of_the_event_is_looked_at_before_its_type(server: Gatehouse) -> None:
    event = envelope(type="case-closed-v1", data={"caseId": LARGE})
    assert server.deliver(Delivery(event=event)).outcome == (413, "event.too-large")


def test_the_type_is_looked_at_before_the_input(server: Gatehouse) -> None:
    for name in ("source", "type", "dataschema"):
        event = envelope(**{name: "urn:another"}, data={})
        assert server.deliver(Delivery(event=event)).outcome == (400, "event.invalid"), name


def test_the_input_is_looked_at_before_the_holds(world: World) -> None:
    event = envelope(data={"caseId": 1})
    assert world.held().deliver(Delivery(event=event)).outcome == (400, "input.invalid")


def test_recovery_only_is_looked_at_before_the_holds(new_server: NewServer) -> None:
    server = new_server(arguments=["--recovery-only"])
    server.start()
    assert server.hold().status == 200
    assert server.deliver().outcome == (409, "admission.recovery-only")


def test_the_hold_of_admission_is_looked_at_before_that_of_execution(world: World) -> None:
    assert world.held().deliver().outcome == (409, "admission.held")


def test_the_hold_of_execution_is_looked_at_before_the_package(world: World) -> None:
    server = world.held_in_execution()
    server.add_source("case-follow-up", "unserved", server.key, "unserved.key")
    assert server.deliver(Delivery(path=UNSERVED)).outcome == (409, "execution.held")


def test_that_no_package_is_active_is_looked_at_before_which_one_was_loaded(own_server: Gatehouse) -> None:
    with own_server.database() as database:
        database.execute("UPDATE switches SET package_digest = NULL")
    assert own_server.deliver().outcome == (409, "deployment.refused")


def test_a_package_applied_since_is_noticed_before_its_triggers_are_looked_at(new_server: NewServer) -> None:
    server = new_server()
    server.add_source("case-follow-up", "case-reopened", server.key, "reopened.key")
    server.start()
    reopened = Delivery(path="/v1/events/case-follow-up/case-reopened")
    assert server.deliver(reopened).outcome == (409, "deployment.refused")
    server.apply(workflow(version="2", triggers=["case-created", "case-reopened"]))
    assert server.deliver(reopened).outcome == (409, "deployment.activation-changed")
    assert server.deliver(reopened).status == 204


def test_a_package_applied_since_is_noticed_before_its_definitions_are_looked_at(own_server: Gatehouse) -> None:
    own_server.apply(workflow(deadline_seconds=60), force=True)
    assert own_server.deliver().outcome == (409, "deployment.activation-changed")
    assert own_server.deliver().outcome == (409, "definition.refused")


def test_the_definition_is_looked_at_before_the_connections(new_server: NewServer) -> None:
    server = new_server()
    server.apply(workflow(connection="crm"), force=True)
    server.start()
    assert server.deliver().outcome == (409, "definition.refused")


def test_the_connections_are_looked_at_before_those_of_live_runs(new_server: NewServer) -> None:
    server = new_server()
    server.configure(connections={"crm": connection("https://crm.example")})
    server.apply(workflow(version="2", connection="crm"))
    server.start()
    assert server.deliver().status == 204
    server.configure(connections={})
    server.restart()
    assert server.deliver().outcome == (409, "binding.conflict")


def test_the_state_is_looked_at_before_the_audit_file(own_server: Gatehouse) -> None:
    assert own_server.hold().status == 200
    (own_server.state / "audit.jsonl").unlink()
    (own_server.state / "audit.jsonl").mkdir()
    assert own_server.deliver().outcome == (409, "admission.held")


def test_everything_before_the_identity_needs_no_database(world: World) -> None:
    assert world.away.deliver(Delivery(body=b"{ }")).outcome == (400, "event.invalid")
    other_type = Delivery(changes={"ce-type": "case-closed-v1"})
    assert world.away.deliver(other_type).outcome == (400, "event.invalid")
    assert world.away.deliver(Delivery(event=envelope(data={}))).outcome == (503, "service.unavailable")

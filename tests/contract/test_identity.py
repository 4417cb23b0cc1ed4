from __future__ import annotations

from typing import Final
from uuid import uuid4

import pytest

from tests.support import wire
from tests.support.contract import check
from tests.support.deliveries import PATH, Delivery, envelope
from tests.support.gatehouse import Gatehouse, NewServer
from tests.support.packages import workflow
from tests.support.wire import Answer

REOPENED: Final = "/v1/events/case-follow-up/case-reopened"
REUSED: Final = (409, "idempotency.key-reused")
TWO_TRIGGERS: Final = workflow(version="2", triggers=["case-created", "case-reopened"])


@pytest.fixture(scope="module")
def two_triggers(new_server: NewServer) -> Gatehouse:
    server = new_server()
    server.add_source("case-follow-up", "case-reopened", server.key, "reopened.key")
    server.apply(TWO_TRIGGERS)
    server.start()
    return server


def at_once(server: Gatehouse, deliveries: list[Delivery]) -> list[Answer]:
    requests = [wire.message("POST", each.path, each.headers(server.key), each.body) for each in deliveries]
    answers = wire.send_at_once(server.port, requests)
    for answer in answers:
        check("POST", PATH, answer)
    return answers


def grown(before: dict[str, int], after: dict[str, int]) -> set[int]:
    return {after[table] - before[table] for table in before}


def test_200_deliveries_of_one_event_at_once_are_one_run(server: Gatehouse) -> None:
    before = server.rows()
    event = envelope()
    answers = at_once(server, [Delivery(event=event, attempt=attempt + 1) for attempt in range(200)])
    assert [answer.status for answer in answers] == [204] * 200
    assert len({answer.run for answer in answers}) == 1
    assert grown(before, server.rows()) == {1}


def test_of_two_contents_under_one_identity_at_once_one_is_admitted(server: Gatehouse) -> None:
    before = server.rows()
    first = envelope()
    second = first | {"data": {"caseId": "another"}}
    answers = at_once(server, [Delivery(event=event) for event in [first, second] * 50])
    halves = [answers[::2], answers[1::2]]
    admitted, refused = sorted(halves, key=lambda half: half[0].status)
    assert {answer.status for answer in admitted} == {204}
    assert len({answer.run for answer in admitted}) == 1
    assert {answer.outcome for answer in refused} == {REUSED}
    assert grown(before, server.rows()) == {1}


def test_of_many_events_under_one_key_at_once_one_is_admitted(server: Gatehouse) -> None:
    before = server.rows()
    key = {"Idempotency-Key": str(uuid4())}
    answers = at_once(server, [Delivery(changes=key) for _ in range(50)])
    assert sorted(answer.outcome for answer in answers) == [(204, "")] + [REUSED] * 49
    assert grown(before, server.rows()) == {1}


def test_many_events_at_once_are_as_many_runs(server: Gatehouse) -> None:
    before = server.rows()
    answers = at_once(server, [Delivery() for _ in range(200)])
    assert len({answer.run for answer in answers}) == 200
    assert grown(before, server.rows()) == {200}


def test_another_content_under_the_identity_is_refused(server: Gatehouse) -> None:
    event = envelope()
    assert server.deliver(Delivery(event=event)).status == 204
    before = server.rows()
    assert server.deliver(Delivery(event=event | {"time": "2026-08-30T00:00:00.1Z"})).outcome == REUSED
    assert server.rows() == before


def test_the_event_id_is_compared_as_bits_whatever_the_case_of_its_letters(server: Gatehouse) -> None:
    event = envelope(id="abcdefab-cdef-4abc-8def-abcdefabcdef")
    assert server.deliver(Delivery(event=event)).status == 204
    assert server.deliver(Delivery(event=envelope(id=event["id"].upper()))).outcome == REUSED


def test_an_event_with_letters_in_upper_case_is_redelivered_as_it_was(server: Gatehouse) -> None:
    event = envelope(id="ABCDEFAB-0000-4ABC-8DEF-ABCDEFABCDEF")
    assert server.deliver(Delivery(event=event)).run == server.deliver(Delivery(event=event)).run


def test_another_trigger_of_the_same_event_is_another_run(two_triggers: Gatehouse) -> None:
    event = envelope()
    created = two_triggers.deliver(Delivery(event=event))
    reopened = two_triggers.deliver(Delivery(event=event, path=REOPENED))
    assert created.run != reopened.run
    assert two_triggers.deliver(Delivery(event=event)).run == created.run
    assert two_triggers.deliver(Delivery(event=event, path=REOPENED)).run == reopened.run


def test_a_key_stands_for_one_event_of_its_trigger(two_triggers: Gatehouse) -> None:
    key = {"Idempotency-Key": "one key"}
    assert two_triggers.deliver(Delivery(changes=key)).status == 204
    assert two_triggers.deliver(Delivery(changes=key)).outcome == REUSED
    assert two_triggers.deliver(Delivery(changes=key, path=REOPENED)).status == 204


def test_the_same_event_under_another_key_is_found_and_the_first_key_stays(server: Gatehouse) -> None:
    first, second = ({"Idempotency-Key": str(uuid4())} for _ in range(2))
    event = envelope()
    run = server.deliver(Delivery(event=event, changes=first)).run
    assert server.deliver(Delivery(event=event, changes=second)).run == run
    assert server.deliver(Delivery(changes=first)).outcome == REUSED
    assert server.deliver(Delivery(changes=second)).status == 204


def test_a_redelivery_is_known_whatever_its_attempt_and_generation(server: Gatehouse) -> None:
    event = envelope()
    run = server.deliver(Delivery(event=event)).run
    later = {"X-Registry-Event-Generation": "9223372036854775807"}
    assert server.deliver(Delivery(event=event, attempt=9_999_999_999_999_999_999, changes=later)).run == run


def test_an_event_of_any_age_is_taken(server: Gatehouse) -> None:
    assert server.deliver(Delivery(event=envelope(time="0001-01-01T00:00:00Z"))).status == 204


def test_an_admitted_event_is_found_after_its_run_has_ended(server: Gatehouse) -> None:
    event = envelope()
    run = server.deliver(Delivery(event=event)).run
    assert server.operate("POST", f"/v1/runs/{run}/cancel", {"reason": "A test wants it."}).status == 200
    assert server.deliver(Delivery(event=event)).run == run


def test_an_admitted_event_is_found_while_held(own_server: Gatehouse) -> None:
    event = envelope()
    run = own_server.deliver(Delivery(event=event)).run
    assert own_server.hold().status == 200
    assert own_server.deliver(Delivery(event=event)).run == run
    assert own_server.deliver(Delivery(event=event | {"data": {}})).outcome == REUSED


def test_an_admitted_event_is_found_in_recovery_only(own_server: Gatehouse) -> None:
    event = envelope()
    run = own_server.deliver(Delivery(event=event)).run
    own_server.restart("--recovery-only")
    assert own_server.deliver(Delivery(event=event)).run == run
    assert own_server.deliver().outcome == (409, "admission.recovery-only")


def test_an_admitted_event_is_found_under_another_package_and_after_its_trigger_is_gone(own_server: Gatehouse) -> None:
    event = envelope()
    run = own_server.deliver(Delivery(event=event)).run
    own_server.apply(workflow(version="2", triggers=["case-reopened"]))
    assert own_server.deliver(Delivery(event=event)).run == run
    assert own_server.deliver().outcome == (409, "deployment.activation-changed")
    assert own_server.deliver(Delivery(event=event)).run == run
    assert own_server.deliver().outcome == (409, "deployment.refused")


def test_an_admitted_event_is_found_after_the_trigger_takes_another_type(own_server: Gatehouse) -> None:
    event = envelope()
    run = own_server.deliver(Delivery(event=event)).run
    changed = workflow(version="2")
    changed["triggers"]["case-created"] |= {"type": "case-created-v2"}
    own_server.apply(changed)
    own_server.restart()
    assert own_server.deliver(Delivery(event=event)).run == run
    assert own_server.deliver().outcome == (400, "event.invalid")

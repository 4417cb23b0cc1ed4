from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace as with_members

from generated.coordinator.models import Causation, HookEnvelope, RecordSubject
from generated.coordinator.operations.admit_event import Request
from generated.coordinator.security import RegistrySignature
from handlers.coordinator.envelope import check_envelope, event_id

OWN = "a1b2c3d4-0000-4000-8000-00000000000f"
PARENT = "00000000-0000-4000-8000-000000000002"
ROOT = "00000000-0000-4000-8000-000000000003"


def request(**members: Any) -> Request:
    """A valid request for an event at hop 0, whose headers follow the members that are given."""
    envelope = HookEnvelope(
        causation=Causation(hop=0, root=OWN),
        data={"caseId": "C-1"},
        dataschema="urn:example:case-created-v1",
        id=OWN,
        source="urn:example",
        subject=RecordSubject(record_reference="case/1", record_revision=1),
        time="2026-08-30T00:00:00.5Z",
        type="case-created-v1",
    )
    body = with_members(envelope, **members)
    return Request(
        principal=RegistrySignature(key_number=1),
        workflow="case-follow-up",
        trigger="case-created",
        ce_specversion="1.0",
        ce_id=body.id,
        ce_source=body.source,
        ce_type=body.type,
        ce_time=body.time,
        ce_dataschema=body.dataschema,
        x_registry_event_generation="1",
        x_registry_delivery_attempt="1",
        x_registry_delivery_time="2026-08-30T00:00:01Z",
        idempotency_key="key",
        body=body,
        raw_body=b"{}",
        trace_id="0" * 32,
    )


@pytest.mark.parametrize(
    "causation",
    [
        Causation(hop=0, root=OWN),
        Causation(hop=0, root=OWN.upper()),
        Causation(hop=1, root=ROOT, parent=ROOT),
        Causation(hop=8, root=ROOT, parent=PARENT),
    ],
)
def test_a_chain_that_can_be_is_taken(causation: Causation) -> None:
    assert check_envelope(request(causation=causation)) is None


@pytest.mark.parametrize(
    "causation",
    [
        Causation(hop=0, root=ROOT),
        Causation(hop=0, root=OWN, parent=PARENT),
        Causation(hop=1, root=ROOT, parent=UNSET),
        Causation(hop=1, root=ROOT, parent=OWN),
        Causation(hop=1, root=ROOT, parent=OWN.upper()),
        Causation(hop=1, root=OWN, parent=PARENT),
        Causation(hop=8, root=OWN.upper(), parent=PARENT),
    ],
)
def test_a_chain_that_cannot_be_is_refused_with_a_phrase_that_repeats_nothing(causation: Causation) -> None:
    fault = check_envelope(request(causation=causation))
    assert fault is not None
    assert not any(part in fault for part in (OWN, PARENT, ROOT))


@pytest.mark.parametrize("header", ["ce_id", "ce_source", "ce_type", "ce_time", "ce_dataschema"])
def test_each_ce_header_equals_its_member(header: str) -> None:
    good = request()
    other: dict[str, Any] = {header: getattr(good, header) + "x"}
    assert check_envelope(good) is None
    assert check_envelope(with_members(good, **other)) is not None


def test_an_id_in_another_letter_case_is_the_same_event_but_not_the_same_header() -> None:
    assert event_id(OWN.upper()) == event_id(OWN) == "a1b2c3d4000040008000" + "00000000000f"
    assert check_envelope(with_members(request(), ce_id=OWN.upper())) is not None
    assert check_envelope(request(id=OWN.upper())) is None


@pytest.mark.parametrize("time", ["2026-08-30T00:00:00Z", "2026-08-30T00:00:00.1Z", "2026-08-30T00:00:00.123Z"])
def test_a_time_to_the_millisecond_is_taken(time: str) -> None:
    assert check_envelope(request(time=time)) is None


@pytest.mark.parametrize(
    "time",
    ["2026-08-30T00:00:00.1234Z", "2026-08-30T00:00:00.100Z", "2026-08-30T00:00:00.0Z", "2026-08-30T00:00:00+00:00",
     "2026-08-30t00:00:00z", "2016-12-31T23:59:60Z", "0000-01-01T00:00:00Z", "2026-02-30T00:00:00Z"],
)  # fmt: skip
def test_another_form_of_a_time_is_refused(time: str) -> None:
    assert check_envelope(request(time=time)) is not None

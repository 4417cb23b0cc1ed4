from __future__ import annotations

import inspect
from typing import get_args

import msgspec
import pytest
from msgspec import UNSET

from tests.generator.members.generated.clinic import models
from tests.generator.members.generated.clinic.models import Doctor, Kind, Patient

LEAST = {"name": "Ada", "bornOn": "1815-12-10", "ward": None, "anything": [1, {"a": None}]}


def test_an_absent_member_is_unset_and_stays_absent() -> None:
    patient = msgspec.convert(LEAST, Patient)
    assert (patient.note, patient.remark, patient.doctor) == (UNSET, UNSET, UNSET)
    assert msgspec.to_builtins(patient) == {**LEAST, "urgency": "low", "visits": 0}


def test_null_is_none_and_stays_null() -> None:
    patient = msgspec.convert({**LEAST, "remark": None, "doctor": None}, Patient)
    assert (patient.ward, patient.remark, patient.doctor) == (None, None, None)
    assert msgspec.to_builtins(patient)["remark"] is None


def test_a_member_with_a_default_has_it_where_it_is_absent() -> None:
    patient = msgspec.convert({**LEAST, "urgency": "high"}, Patient)
    assert (patient.urgency, patient.visits) == ("high", 0)


def test_a_required_member_has_to_be_given() -> None:
    with pytest.raises(TypeError, match="ward"):
        Patient(name="Ada", born_on="1815-12-10", anything=None)  # type: ignore[call-arg]


def test_members_are_in_snake_case_and_keep_their_names_on_the_wire() -> None:
    patient = msgspec.convert({**LEAST, "class": "A", "seenAt": "2026-04-15T09:30:00Z"}, Patient)
    assert (patient.class_, patient.seen_at) == ("A", "2026-04-15T09:30:00Z")
    assert {"class", "seenAt", "bornOn"} <= msgspec.to_builtins(patient).keys()


def test_bounds_patterns_and_closed_objects_are_left_to_the_validator() -> None:
    patient = msgspec.convert({**LEAST, "name": "", "visits": 2**62, "unknown": 1}, Patient)
    assert (patient.name, patient.visits) == ("", 2**62)


def test_maps_lists_and_references_have_their_types() -> None:
    doctors = [{"id": "1", "deputy": {"id": "2"}}]
    given = {"wards": {"east": 1}, "extra": {"a": 1}, "list": doctors, "kind": "inpatient"}
    patient = msgspec.convert(LEAST | given, Patient)
    assert patient.list == [Doctor(id="1", deputy=Doctor(id="2"))]
    assert (patient.wards, patient.extra, patient.kind) == ({"east": 1}, {"a": 1}, "inpatient")


def test_an_enumeration_is_a_literal_under_its_own_name() -> None:
    assert get_args(Kind) == ("inpatient", "outpatient")
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert("daycare", Kind)


def test_what_no_request_or_answer_is_made_of_becomes_no_model() -> None:
    classes = {name for name, _ in inspect.getmembers(models, inspect.isclass)}
    assert "Patient" in classes
    assert not classes & {"Unused", "Problem"}


def test_descriptions_become_docstrings() -> None:
    assert inspect.getdoc(Patient) == 'One patient. Bounds and patterns are the validator\'s; "closed" is too.'

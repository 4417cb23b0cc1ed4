from __future__ import annotations

from dataclasses import replace

import pytest

from handlers.gateway.faults import RETRY_AFTER, Fault
from tests.handlers.gateway.small_api import JOIN_FAULTS, Shop, small_apis

SHOP, JOIN = small_apis(Shop())


def test_an_operation_is_answered_with_the_first_code_that_it_documents() -> None:
    operations = {operation.name: operation for operation in SHOP.operations}
    assert SHOP.entry(Fault.MEDIA_TYPE, operations["put_item"]).code == "request.unsupported-media-type"
    assert SHOP.entry(Fault.MEDIA_TYPE, operations["seal"]).code == "request.invalid"
    assert SHOP.entry(Fault.UNAVAILABLE, operations["frail"]).code == "runtime.failure"


def test_a_path_without_an_operation_is_answered_with_the_first_code_of_all() -> None:
    assert SHOP.entry(Fault.MEDIA_TYPE).code == "request.unsupported-media-type"


def test_an_entry_is_what_the_document_says_of_its_code() -> None:
    entry = SHOP.catalogue["service.unavailable"]
    assert (entry.status, entry.title) == (503, "Title of service.unavailable")
    assert (entry.type, dict(entry.headers)) == ("https://shop.test/service.unavailable", {"Retry-After": 5})


def test_each_document_names_the_trace_id_in_its_own_way() -> None:
    assert {entry.trace_member for entry in SHOP.catalogue.values()} == {"traceId"}
    assert {entry.trace_member for entry in JOIN.catalogue.values()} == {"requestId"}


def test_only_codes_with_that_member_list_findings() -> None:
    assert [code for code, entry in JOIN.catalogue.items() if entry.findings] == ["INVALID_INPUT"]
    assert not any(entry.findings for entry in SHOP.catalogue.values())


def test_an_api_that_forgets_a_fault_is_refused() -> None:
    some = dict(JOIN_FAULTS)
    del some[Fault.BODY]
    with pytest.raises(ValueError, match="the faults of join are incomplete"):
        replace(JOIN, faults=some)


def test_an_api_that_names_a_code_without_an_entry_is_refused() -> None:
    with pytest.raises(ValueError, match=r"NONE"):
        replace(JOIN, faults={**JOIN_FAULTS, Fault.BODY: ["INVALID_INPUT", "NONE"]})


def test_no_fault_s_words_repeat_a_value() -> None:
    assert not any(character in fault.value for fault in Fault for character in "{}%")


def test_only_faults_that_pass_by_themselves_say_when() -> None:
    assert set(RETRY_AFTER) == {Fault.UNAVAILABLE, Fault.OVERLOADED, Fault.AUDIT_UNAVAILABLE}

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handlers.coordinator.execution.connection import binding, binding_digest, connections
from handlers.coordinator.workflows.digest import digest_of

BARE: dict[str, Any] = {"baseUrl": "https://crm.example"}


def digest(**members: Any) -> str:
    return binding_digest(["crm"], connections({"crm": BARE | members}))


def test_what_the_settings_leave_out_is_as_by_default() -> None:
    crm = connections({"crm": BARE})["crm"]
    assert (crm.name, crm.base_url, crm.methods, crm.paths) == ("crm", "https://crm.example", (), ())
    assert (crm.recovery, crm.receipt_path) == ("hold-after-dispatch", None)
    assert (crm.token_file, crm.ca_file) == (None, None)
    assert (crm.timeout_seconds, crm.max_response_bytes, crm.response_schema) == (10.0, 262_144, None)


def test_what_the_settings_say_is_taken() -> None:
    said: dict[str, Any] = {
        "baseUrl": "https://crm.example/v1/",
        "recovery": "same-command-and-receipt",
        "receiptPath": "/receipts/{key}",
        "tokenFile": "/run/x.token",
        "caFile": "/run/ca.pem",
        "timeoutSeconds": 0.5,
        "maxResponseBytes": 1,
        "responseSchema": {"type": "object"},
    }
    crm = connections({"crm": said})["crm"]
    assert crm.base_url == "https://crm.example/v1"
    assert (crm.recovery, crm.receipt_path) == ("same-command-and-receipt", "/receipts/{key}")
    assert (crm.token_file, crm.ca_file) == (Path("/run/x.token"), Path("/run/ca.pem"))
    assert (crm.timeout_seconds, crm.max_response_bytes) == (0.5, 1)
    assert crm.response_schema is not None
    assert crm.response_schema.is_valid({})
    assert not crm.response_schema.is_valid([])


@pytest.mark.parametrize(
    ("method", "template", "permitted"),
    [
        ("POST", "/cases", True),
        ("POST", "/cases/{case}/notes", True),
        ("POST", "/cases/{id}/notes", True),
        ("GET", "/cases", False),
        ("POST", "/cases/", False),
        ("POST", "/cases/1/notes", False),
        ("POST", "/cases/{id}", False),
        ("POST", "/files/{id}", False),
        ("POST", "/files/f-{any}", True),
    ],
)
def test_a_method_and_a_template_are_permitted_together(method: str, template: str, permitted: bool) -> None:
    crm = connections({"crm": {**BARE, "methods": ["POST"], "paths": ["/cases", "/cases/{id}/notes", "/files/f-{x}"]}})
    assert crm["crm"].permits(method, template) is permitted


def test_a_connection_of_a_base_url_alone_is_bound_by_that() -> None:
    assert binding(BARE) == BARE
    assert digest() == digest_of({"crm": BARE})


@pytest.mark.parametrize(
    "change", [{"timeoutSeconds": 5}, {"maxResponseBytes": 5}, {"tokenFile": "/x"}, {"caFile": "/x"}]
)
def test_how_a_call_is_sent_binds_no_run(change: dict[str, Any]) -> None:
    assert digest(**change) == digest()


@pytest.mark.parametrize(
    "change",
    [
        {"baseUrl": "https://other.example"},
        {"methods": ["POST"]},
        {"paths": ["/a"]},
        {"recovery": "same-command"},
        {"receiptPath": "/receipts/{key}"},
        {"responseSchema": True},
    ],
)
def test_what_a_call_is_binds_runs(change: dict[str, Any]) -> None:
    assert digest(**change) != digest()


def test_the_order_of_what_is_permitted_makes_no_difference() -> None:
    one = digest(methods=["POST", "GET"], paths=["/b", "/a"])
    assert one == digest(methods=["GET", "POST"], paths=["/a", "/b"])

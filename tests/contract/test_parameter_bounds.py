from __future__ import annotations

from typing import Any, Final, NamedTuple

import jsonschema_rs
import pytest

from tests.support.contract import ApiName, document, parameters

# Some of these are bounds that no request comes as far as, since its signature is refused before. Clients go by them.

LAST: Final = (1 << 63) - 1


class Bounds(NamedTuple):
    """A parameter: whether it has to be there, values that it may have, and values beyond them."""

    place: str
    required: bool
    good: list[Any]
    bad: list[Any]


NAME: Final = (["x", "x" * 64], ["", "x" * 65])
TEXT: Final = (["x", "x" * 5_000], [""])
COUNT: Final = (["1", "9" * 19], ["", "0", "01", "x1", "1x", "-1", "1" * 20])
UUID: Final = (["019d9079-e78a-7c31-8f02-6b1d4e9a5c77"], ["", "x", "019d9079-e78a-7c31-8f02-6b1d4e9a5c7"])
TIME: Final = (["2026-04-15T09:30:01.4Z"], ["", "yesterday", "2026-04-15", "2026-02-30T00:00:00Z"])

PARAMETERS: Final[dict[tuple[ApiName, str], dict[str, Bounds]]] = {
    ("coordinator", "admitEvent"): {
        "workflow": Bounds("path", True, *NAME),
        "trigger": Bounds("path", True, *NAME),
        "ce-specversion": Bounds("header", True, ["1.0"], ["", "1", "1.1", "1.0-x"]),
        "ce-id": Bounds("header", True, *UUID),
        "ce-source": Bounds("header", True, *TEXT),
        "ce-type": Bounds("header", True, *TEXT),
        "ce-time": Bounds("header", True, *TIME),
        "ce-dataschema": Bounds("header", True, *TEXT),
        "X-Registry-Event-Generation": Bounds("header", True, *COUNT),
        "X-Registry-Delivery-Attempt": Bounds("header", True, *COUNT),
        "X-Registry-Delivery-Time": Bounds("header", True, *TIME),
        "Idempotency-Key": Bounds("header", True, ["x", "x" * 256], ["", "x" * 257]),
    },
    ("join", "reportJoinEvents"): {
        "joinId": Bounds("path", True, *UUID),
        "Idempotency-Key": Bounds("header", False, ["!", "~" * 64], ["", "~" * 65, "a b", " a", "a ", "é"]),
    },
    ("installer", "streamInstallEvents"): {
        "after": Bounds("query", False, [0, LAST], [-1, LAST + 1, 0.5, "0"]),
        "Last-Event-ID": Bounds(
            "header", False, ["0", str(LAST)], ["", "-1", "01", "x1", "1x", str(LAST + 1), "1" + "0" * 19]
        ),
    },
}


@pytest.mark.parametrize(("api", "operation"), PARAMETERS)
def test_parameters_have_their_bounds_in_the_document(api: ApiName, operation: str) -> None:
    found = {each["name"]: each for each in parameters(operation, api)}
    for name, bounds in PARAMETERS[api, operation].items():
        each = found[name]
        assert (each["in"], each.get("required", False)) == (bounds.place, bounds.required), name
        whole = {"components": document(api)["components"], **each["schema"]}
        judge = jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
        assert [value for value in bounds.good if not judge.is_valid(value)] == [], name
        assert [value for value in bounds.bad if judge.is_valid(value)] == [], name

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tools.joiner.conftest import Founder, Signer
from tools.joiner.answers import Certified, Registration, read

TEXTS = ("joinId", "name", "address", "state")
WRONG = [
    *({name: value} for name in TEXTS for value in (None, 1, ["x"])),
    {"position": "0"},
    {"position": 0.5},
    {"plan": "services"},
    {"plan": [None]},
    {"steps": {}},
    {"steps": [{"step": ["services"], "status": "waiting"}]},
    {"steps": [{"step": "services"}]},
    {"rafts": [{}]},
    {"rafts": [{"name": "control", "state": "learner", "error": 1, "peers": []}]},
    {"rafts": [{"name": "control", "state": "learner", "error": None, "peers": [{"name": "x"}]}]},
    {"rafts": [{"name": "control", "state": "learner", "error": None, "peers": [["x", "y"]]}]},
    {"failure": {"step": None}},
    {"failure": "why"},
]


def test_a_registration_is_given_with_all_that_it_has(signer: Signer) -> None:
    value = Founder(signer).registration() | {"more": [1.5]}
    assert read(json.dumps(value).encode(), Registration) == value


@pytest.mark.parametrize("change", WRONG, ids=json.dumps)
def test_one_with_a_member_of_another_type_is_none(change: dict[str, Any], signer: Signer) -> None:
    assert read(json.dumps(Founder(signer).registration() | change).encode(), Registration) is None


@pytest.mark.parametrize("name", [*TEXTS, "position", "plan", "steps", "rafts", "failure"])
def test_one_that_lacks_a_member_is_none(name: str, signer: Signer) -> None:
    value = Founder(signer).registration()
    del value[name]
    assert read(json.dumps(value).encode(), Registration) is None


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"[]", b"null", b'{"certificate":"x"', b'{"certificate":NaN}', b'{"certificate":"\xff"}'),
        *(b'{"certificate":"\\ud800"}', b'{"certificate":"x","more":' + b"[" * 100_000),
    ],
    ids=range(8),
)
def test_what_is_no_strict_json_is_none(content: bytes) -> None:
    assert read(content, Certified) is None

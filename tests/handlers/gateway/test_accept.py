from __future__ import annotations

import pytest

from handlers.gateway.accept import preferred

JSON, YAML = "application/json", "application/yaml"


@pytest.mark.parametrize(
    "accept",
    [
        None,
        "",
        "*/*",
        "application/*",
        JSON,
        f"{JSON}, {YAML}",
        f"{YAML}, {JSON}",
        f"{YAML};q=0.5, */*",
        f"{YAML};q=0.5, {JSON};q=0.501",
        f"{YAML};q=0",
        f"{YAML};q=0, {JSON};q=0",
        f"{YAML};q=0.0, application/*;q=0.1",
        "text/html",
        "text/yaml",
        "application/yam",
        f"{YAML}x",
        f"{YAML};q=",
        f"{YAML};q=1.1",
        f"{YAML};q=0.1234",
        f"{YAML};q=-1",
        f"{YAML};q=nan",
        f"{YAML};q=\u0661",
        "ä/ö, ,;q=1,/",
    ],
)
def test_the_first_is_preferred_where_the_client_does_not_say_otherwise(accept: str | None) -> None:
    assert preferred(accept, [JSON, YAML]) == JSON


@pytest.mark.parametrize(
    "accept",
    [
        YAML,
        "Application/YAML",
        f"text/html, {YAML}",
        f"{YAML}, */*;q=0.1",
        f"{YAML};q=0.002, {JSON};q=0.001",
        f"{YAML};q=1.000,{JSON};q=0.999",
        f"{YAML} ; Q=1 , {JSON}\t;\tq=0.",
        f"{YAML};charset=utf-8;q=0.3, {JSON};q=0.2",
        f"{JSON};q=0, */*",
        f"{JSON};q=0.1, application/*;q=0.2",
        f"*/*, {JSON};q=0.9",
        f"nonsense, {YAML}",
        f"{JSON};q=2, {YAML};q=0.1",
    ],
)
def test_another_is_preferred_by_its_weight(accept: str) -> None:
    assert preferred(accept, [JSON, YAML]) == YAML

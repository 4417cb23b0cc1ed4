from __future__ import annotations

import pytest

from handlers.gateway.routing import canonical_path, router_view
from tests.handlers.gateway.serving import Served
from tests.handlers.gateway.small_api import SHOP_OPERATIONS


@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        (b"/v1/items", "/v1/items"),
        (b"/v1/it%65ms", "/v1/items"),
        (b"/v1/%69%74%65%6D%73", "/v1/items"),
        (b"/v1/a%2Fb", "/v1/a%2Fb"),
        (b"/v1/a%2fb", "/v1/a%2Fb"),
        (b"/v1/%7e", "/v1/~"),
        (b"/v1/%C3%B6", "/v1/%C3%B6"),
        (b"/v1/%ff", "/v1/%FF"),
        (b"/v1/%2561", "/v1/%2561"),
        (b"/v1/%2E%2e/a", "/v1/../a"),
        (b"/v1//a%41", "/v1//aA"),
        (b"/v1/%", "/v1/%25"),
        (b"/v1/%zz", "/v1/%25zz"),
        (b"/v1/%0a", "/v1/%0A"),
        (b"/v1/items?a=%2F", "/v1/items"),
    ],
)
def test_a_path_has_one_spelling(raw: bytes, canonical: str) -> None:
    assert canonical_path(raw) == canonical


def test_the_router_view_has_concrete_paths_first_and_numbered_parameters() -> None:
    paths = list(router_view({operation.id: operation for operation in SHOP_OPERATIONS})["paths"])
    assert paths.index("/v1/items/special") < paths.index("/v1/items/{p0}")
    assert "/v1/parts/{p0}/of/{p1}/{p2}" in paths


def test_parameters_with_odd_names_are_told_apart_whatever_the_order_of_their_declaration(control: Served) -> None:
    answer = control.ask("GET", "/v1/parts/left/of/lamp/7")
    assert answer.json["values"] == {"part": "left", "item-id": "lamp", "a.b": 7}


@pytest.mark.parametrize(
    ("segment", "value"),
    [
        ("a%2Fb", "a/b"),
        ("%2F", "/"),
        ("%C3%B6", "\xf6"),
        ("%FF", "\ufffd"),
        ("%00", "\0"),
        ("%20", " "),
        ("+", "+"),
        ("%2561", "%61"),
        ("..", ".."),
        ("%2E%2E", ".."),
        ("a;b=c", "a;b=c"),
        ("a|b", "a|b"),
        ("%7C", "|"),
        ("speci%61l%20", "special "),
    ],
)
def test_a_path_parameter_is_its_segment_decoded_once(control: Served, segment: str, value: str) -> None:
    assert control.ask("GET", f"/v1/items/{segment}").json["values"] == {"itemId": value}


@pytest.mark.parametrize("path", ["/v1/items/special", "/v1/items/speci%61l", "/%761/items/%73pecial"])
def test_a_concrete_path_goes_before_a_parametrised_one_in_any_spelling(control: Served, path: str) -> None:
    assert control.ask("GET", path).json["values"] == {"special": True}


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "//",
        "/v1",
        "/v1/",
        "/v1/items/",
        "/v1/items/a/",
        "/v1/items//",
        "/v1//items",
        "//v1/items",
        "/v1/./items/a",
        "/v1/x/../items/a",
        "/v1%2Fitems/a",
        "/v1/items%2Fa",
        "/V1/items/a",
        "/v1/items/a/b",
        "/v1/parts/left/of//7",
        "/v1/items/special/",
        "/docs/",
        "/metrics/",
        "/openapi/",
        "/openapi/none.json",
    ],
)
def test_any_other_path_is_404_and_never_a_redirect(control: Served, path: str) -> None:
    for method in ("GET", "HEAD", "POST", "OPTIONS"):
        answer = control.ask(method, path)
        assert answer.status == 404
        assert answer.header("Location") is None


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("POST", "/v1/items", "GET, HEAD"),
        ("OPTIONS", "/v1/items", "GET, HEAD"),
        ("DELETE", "/v1/items/a", "GET, HEAD, POST, PUT"),
        ("DELETE", "/v1/items/a%2Fb", "GET, HEAD, POST, PUT"),
        ("TRACE", "/v1/it%65ms/a", "GET, HEAD, POST, PUT"),
        ("OPTIONS", "/v1/items/special", "DELETE, GET, HEAD"),
        ("GET", "/v1/sealed", "POST"),
        ("HEAD", "/v1/sealed", "POST"),
        ("PATCH", "/v1/settings", "PUT"),
        ("PROPFIND", "/v1/export", "GET, HEAD"),
    ],
)
def test_another_method_is_405_with_what_the_path_carries(control: Served, method: str, path: str, allow: str) -> None:
    answer = control.ask(method, path)
    assert (answer.status, answer.header("Allow")) == (405, allow)
    if method != "HEAD":
        assert answer.code == "request.method-not-allowed"
        assert answer.json["traceId"] == answer.header("X-Request-Id")


def test_a_method_of_a_parametrised_path_is_none_of_the_concrete_one_that_it_would_match(control: Served) -> None:
    answer = control.ask("PUT", "/v1/items/special")
    assert (answer.status, answer.header("Allow")) == (405, "DELETE, GET, HEAD")


@pytest.mark.parametrize(
    "path", ["/v1/items/a", "/v1/items", "/v1/items/unknown", "/v1/export", "/v1/misbehave", "/none", "/docs"]
)
def test_head_is_get_without_a_body(control: Served, path: str) -> None:
    traceparent = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
    asked = [control.ask(method, path, traceparent) for method in ("GET", "HEAD")]
    got, head = ([field for field in answer.fields if field[0] != "date"] for answer in asked)
    assert asked[0].status == asked[1].status
    assert got == head
    assert len(asked[0].body) == int(asked[1].header("Content-Length") or 0) > 0

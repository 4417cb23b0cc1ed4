from __future__ import annotations

import re

import pytest

from tests.handlers.gateway.serving import DOCUMENTS, Served


@pytest.mark.parametrize("name", ["shop", "join"])
def test_a_document_is_served_byte_for_byte(control: Served, name: str) -> None:
    answer = control.ask("GET", f"/openapi/{name}.json")
    assert (answer.status, answer.header("Content-Type")) == (200, "application/json")
    assert answer.body == DOCUMENTS[name]


def test_the_docs_load_nothing_but_what_this_server_has(control: Served) -> None:
    page = control.ask("GET", "/docs")
    assert (page.status, page.header("Content-Type")) == (200, "text/html; charset=utf-8")
    named = re.findall(r'(?:src|href)="([^"]+)"', page.body.decode())
    assert len(named) == 5
    for reference in named:
        answer = control.ask("GET", f"/{reference}")
        assert answer.status == 200, reference
        assert answer.body


@pytest.mark.parametrize(
    ("asset", "media_type"),
    [
        ("swagger-ui.css", "text/css"),
        ("swagger-ui-bundle.js", "text/javascript"),
        ("swagger-ui-standalone-preset.js", "text/javascript"),
        ("favicon-32x32.png", "image/png"),
        ("start.js", "text/javascript; charset=utf-8"),
    ],
)
def test_an_asset_has_its_media_type(control: Served, asset: str, media_type: str) -> None:
    answer = control.ask("GET", f"/docs/{asset}")
    assert answer.header("Content-Type") == media_type


def test_the_docs_offer_every_document_by_a_path_of_this_server(control: Served) -> None:
    start = control.ask("GET", "/docs/start.js").body.decode()
    assert '[{"name":"join","url":"openapi/join.json"},{"name":"shop","url":"openapi/shop.json"}]' in start


def test_the_docs_send_trials_to_the_address_under_which_they_were_opened(control: Served) -> None:
    start = control.ask("GET", "/docs/start.js").body.decode()
    assert "requestInterceptor: (request) =>" in start
    assert "request.url = location.origin + target.pathname + target.search;" in start


def test_swagger_ui_knows_openapi_3_1(control: Served) -> None:
    assert b"isOAS31" in control.ask("GET", "/docs/swagger-ui-bundle.js").body


@pytest.mark.parametrize("path", ["/docs", "/docs/start.js", "/docs/swagger-ui.css", "/openapi/shop.json", "/metrics"])
def test_a_page_lets_a_browser_load_from_this_server_alone(control: Served, path: str) -> None:
    policy = control.ask("GET", path).header("Content-Security-Policy")
    assert policy is not None
    assert "default-src 'self'" in policy
    assert "http" not in policy
    assert "unsafe-eval" not in policy
    assert control.ask("GET", path).header("X-Content-Type-Options") == "nosniff"


def test_the_docs_have_no_script_in_their_page(control: Served) -> None:
    assert not re.search(r"<script(?![^>]*\ssrc=)", control.ask("GET", "/docs").body.decode())


@pytest.mark.parametrize("path", ["/docs", "/docs/swagger-ui.css", "/openapi/shop.json", "/metrics"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_a_page_carries_get_and_head_alone(control: Served, path: str, method: str) -> None:
    answer = control.ask(method, path)
    assert answer.outcome == (405, "request.method-not-allowed")
    assert answer.header("Allow") == "GET, HEAD"


@pytest.mark.parametrize("path", ["/docs/none.js", "/docs/../pages.py", "/docs/%2E%2E/pages.py", "/docs/index.html"])
def test_what_is_no_page_is_404(control: Served, path: str) -> None:
    assert control.ask("GET", path).outcome == (404, "request.not-found")

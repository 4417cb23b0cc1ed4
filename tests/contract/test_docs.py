from __future__ import annotations

import hashlib
import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from typing import Any, Final

import pytest
import rfc8785

from handlers.coordinator.signature import sign
from tests.support.browser import Browser
from tests.support.contract import parameters, places
from tests.support.effort import in_ci_alone
from tests.support.gatehouse import Gatehouse
from tests.support.programs import needs
from tests.support.wire import message, send

# The order of the signing input: headers, but for what the request line and the body tell.
SIGNED: Final = (
    *("ce-id", "ce-source", "ce-type", "ce-time", "ce-dataschema"),
    *("X-Registry-Event-Generation", "X-Registry-Delivery-Attempt", "X-Registry-Delivery-Time"),
    *("method", "requestTarget", "Content-Type", "Idempotency-Key", "body"),
)


class Example:
    """The worked example in the description of admitEvent."""

    def __init__(self) -> None:
        text = places()["admitEvent"].content["description"].partition("**A worked example.**")[2]
        listing, first_bytes, header = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
        key = re.search(r"the ([0-9]+) ASCII bytes `([^`]+)`", text)
        size = re.search(r"These are ([0-9]+) bytes", text)
        digest = re.search(r"SHA-256 is `([0-9a-f]{64})`", text)
        assert key
        assert size
        assert digest
        self.key_size, self.key = int(key[1]), key[2].encode()
        self.opening, *parts = listing.splitlines()
        self.parts = [(bytes.fromhex(part[:16]), part[17:].encode()) for part in parts]
        self.first_bytes = bytes.fromhex(first_bytes)
        self.size, self.digest = int(size[1]), digest[1]
        self.header = header.strip().removeprefix("X-Registry-Signature: ")

    @property
    def signing_input(self) -> bytes:
        """The bytes that are signed, as the listing says them."""
        return b"".join([self.opening.encode(), *(length + value for length, value in self.parts)])

    @property
    def vector(self) -> dict[str, Any]:
        """The example in the form of the vector file that the producing product pins."""
        values = [value.decode() for _, value in self.parts[1:]]
        return {
            "keyUtf8": self.key.decode(),
            "fields": dict(zip(SIGNED, values, strict=True)),
            "signature": self.header,
        }


def test_the_worked_example_s_bytes_are_what_they_are_said_to_be() -> None:
    example = Example()
    assert len(example.key) == example.key_size
    for length, value in example.parts:
        assert int.from_bytes(length, "big") == len(value), value
    assert example.parts[0][1] == b"1.0"
    assert len(example.signing_input) == example.size
    assert example.signing_input.startswith(example.first_bytes)
    assert hashlib.sha256(example.signing_input).hexdigest() == example.digest
    digest = hmac.digest(example.key, example.signing_input, "sha256")
    assert example.header == "v1=" + urlsafe_b64encode(digest).decode().rstrip("=")


def test_the_worked_example_s_signature_is_the_product_s_own() -> None:
    vector = Example().vector
    fields = vector["fields"]
    own = {name: value for name, value in fields.items() if name not in {"method", "requestTarget", "body"}}
    key, body = vector["keyUtf8"].encode(), fields["body"].encode()
    made = sign(key, own, method=fields["method"], target=fields["requestTarget"], body=body)
    assert made == vector["signature"]


def test_the_worked_example_is_of_the_document_s_own_example() -> None:
    fields = Example().vector["fields"]
    documented = {each["name"]: each["example"] for each in parameters("admitEvent")}
    for name in SIGNED:
        if name in documented:
            assert fields[name] == documented[name]
    path = places()["admitEvent"].path
    assert fields["requestTarget"] == path.format(workflow=documented["workflow"], trigger=documented["trigger"])
    body = places()["admitEvent"].content["requestBody"]["content"]["application/json"]["examples"]["root"]["value"]
    assert fields["body"].encode() == rfc8785.dumps(body)


def test_a_server_that_has_its_key_refuses_the_worked_example_as_one_of_the_past(own_server: Gatehouse) -> None:
    example = Example()
    own_server.add_source("case-follow-up", "case-created", example.key, "worked.key")
    fields = example.vector["fields"]
    named = {name: value for name, value in fields.items() if name not in {"method", "requestTarget", "body"}}
    signed = named | {"ce-specversion": "1.0", "X-Registry-Signature": example.header}
    answer = send(own_server.port, message("POST", fields["requestTarget"], signed, fields["body"].encode()))
    assert answer.outcome == (401, "event.unauthenticated")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


def authorize(browser: Browser, scheme: str, secret: str) -> None:
    """Give a secret to a scheme, as a person does."""
    browser.click(".btn.authorize")
    browser.wait_for("document.querySelectorAll('.auth-container').length")
    place = browser.run(
        f"[...document.querySelectorAll('.auth-container')].findIndex(each => each.innerText.startsWith('{scheme}'))"
    )
    assert place >= 0
    browser.run(f"document.querySelectorAll('.auth-container')[{place}].id = 'chosen'")
    browser.write("#chosen input", secret)
    browser.click("#chosen .authorize")
    browser.click(".btn-done")


def try_out(browser: Browser, tag: str, operation: str) -> int:
    """Send an operation's example, and return the status that the page shows."""
    block = f"#operations-{tag}-{operation}"
    browser.click(f"{block} .opblock-summary-control")
    browser.click(f"{block} .try-out__btn")
    browser.click(f"{block} .execute")
    return int(browser.text(f"{block} .live-responses-table .response .response-col_status").split()[-1])


@in_ci_alone
@needs("chromium")
def test_a_browser_without_internet_renders_the_document_as_openapi_3_1(server: Gatehouse, browser: Browser) -> None:
    browser.open(f"{server.control}/docs#/events/admitEvent")
    description = browser.text("#operations-events-admitEvent .opblock-description")
    page = browser.text("#swagger-ui")
    assert "OAS 3.1" in page
    assert "Start a workflow from a signed product event" in page
    assert "Unable to render" not in page
    assert Example().header in description
    assert "A worked example." in description


@in_ci_alone
@needs("chromium")
def test_an_operator_tries_the_control_listener_with_the_token(server: Gatehouse, browser: Browser) -> None:
    browser.open(f"{server.control}/docs?control")
    assert try_out(browser, "runs", "listRuns") == 401
    browser.open(f"{server.control}/docs?again")
    authorize(browser, "operatorToken", server.token)
    assert try_out(browser, "runs", "listRuns") == 200


@in_ci_alone
@needs("chromium")
def test_an_operator_tries_the_installer_listener_with_the_code(server: Gatehouse, browser: Browser) -> None:
    browser.open(f"{server.installer}/docs")
    authorize(browser, "installCode", server.code)
    assert try_out(browser, "install", "getInstall") == 200


@in_ci_alone
@needs("chromium")
def test_a_node_s_operator_tries_the_join_listener_with_a_token(server: Gatehouse, browser: Browser) -> None:
    browser.open(f"{server.join}/docs")
    authorize(browser, "joinToken", server.mint()["token"])
    # The token is taken; the example's request is no CSR.
    assert try_out(browser, "registrations", "register") in {201, 400}

"""A real Chromium without a window, driven by its own protocol over pipes."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final, Self

from tests.support.gatehouse import PATIENCE_SECONDS, wait_for

# Nothing of Chromium's own may ask for the internet, which is not there.
FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # The server's authority is a test's own.
    "--ignore-certificate-errors",
)
# Sets a field as a person does who types: React looks at nothing else.
_TYPE: Final = """(field, text) => {
  Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), "value").set.call(field, text)
  field.dispatchEvent(new Event("input", {bubbles: true}))
}"""


class Browser:
    """One page of a browser of its own."""

    def __init__(self, folder: Path) -> None:
        read, self._write = os.pipe()
        self._read, write = os.pipe()
        # The protocol's pipes are the descriptors 3 and 4 of the browser.
        order = f'exec chromium "$@" --remote-debugging-pipe 3<&{read} 4>&{write}'
        self._process = subprocess.Popen(
            ["bash", "-c", order, "chromium", *FLAGS, f"--user-data-dir={folder}"],
            pass_fds=(read, write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read)
        os.close(write)
        self._received = b""
        self._numbers = itertools.count(1)
        self._session = ""

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as failing:
            failing.push(self)
            target = self._ask("Target.createTarget", url="about:blank")["targetId"]
            self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            failing.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError, AssertionError):
            self._ask("Browser.close")
        os.close(self._write)
        self._process.wait(PATIENCE_SECONDS)
        os.close(self._read)

    def open(self, url: str) -> None:
        """Go to a page."""
        self._ask("Page.navigate", sessionId=self._session, url=url)

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        answer = self._ask("Runtime.evaluate", sessionId=self._session, expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, script: str) -> Any:
        """Return the first true value of an expression in the page."""
        return wait_for(lambda: self.run(script))

    def click(self, selector: str) -> None:
        """Click what a selector finds, once it is there."""
        self.wait_for(
            f"(found => found ? (found.click(), true) : false)(document.querySelector({json.dumps(selector)}))"
        )

    def write(self, selector: str, text: str) -> None:
        """Write into the field that a selector finds, once it is there."""
        found, text = json.dumps(selector), json.dumps(text)
        self.wait_for(f"(f => f ? (({_TYPE})(f, {text}), true) : false)(document.querySelector({found}))")

    def text(self, selector: str) -> str:
        """Return the text of what a selector finds, once there is any."""
        return str(self.wait_for(f"document.querySelector({json.dumps(selector)})?.innerText"))

    def _ask(self, method: str, sessionId: str | None = None, **parameters: Any) -> Any:  # noqa: N803 - the protocol's word
        number = next(self._numbers)
        order = {"id": number, "method": method, "params": parameters}
        if sessionId is not None:
            order["sessionId"] = sessionId
        os.write(self._write, json.dumps(order).encode() + b"\0")
        while True:
            answer = json.loads(self._next())
            if answer.get("id") == number:
                assert "result" in answer, answer
                return answer["result"]

    def _next(self) -> bytes:
        while b"\0" not in self._received:
            more = os.read(self._read, 65_536)
            assert more, "the browser has ended"
            self._received += more
        answer, _, self._received = self._received.partition(b"\0")
        return answer

from __future__ import annotations

import asyncio
import os
import signal
import threading

import httpx
import pytest

from handlers.gateway.server import bind
from tools.commands.terminal import STOPPING
from tools.contract.proxy import Scope, Send
from tools.standalone import Standalone


async def hello(_scope: Scope, _receive: object, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_ends_it_and_the_command_goes_on_with_the_handlers_of_before(number: signal.Signals) -> None:
    handlers = [signal.getsignal(each) for each in STOPPING]
    answers: list[httpx.Response] = []
    with bind("127.0.0.1", 0) as opened:
        url = f"http://127.0.0.1:{opened.getsockname()[1]}"

        def ask() -> None:
            answers.append(httpx.get(url, trust_env=False))
            os.kill(os.getpid(), number)

        asking = threading.Thread(target=ask)
        asking.start()
        asyncio.run(Standalone(hello).serve([opened]))
        asking.join()
    assert [(answer.status_code, answer.text) for answer in answers] == [(200, "hello")]
    assert "date" in answers[0].headers
    assert "server" not in answers[0].headers
    assert [signal.getsignal(each) for each in STOPPING] == handlers


def test_it_is_stopped_from_elsewhere_where_it_has_no_signals() -> None:
    server = Standalone(hello, date_header=False)
    with bind("127.0.0.1", 0) as opened:
        serving = threading.Thread(target=lambda: asyncio.run(server.serve([opened])))
        serving.start()
        answer = httpx.get(f"http://127.0.0.1:{opened.getsockname()[1]}", trust_env=False)
        server.stop()
        serving.join()
    assert (answer.text, "date" in answer.headers) == ("hello", False)

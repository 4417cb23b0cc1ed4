from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handlers.coordinator.execution.connection import connections
from handlers.coordinator.execution.exchange import Answered, Exchange, NotConnected, TooLarge, Unanswered
from handlers.coordinator.scenarios.journal import MemoryJournal
from handlers.coordinator.scenarios.scenario import Act
from handlers.coordinator.scenarios.stage import Clock, Operator, Services, UnfinishedError
from storage.execution.records import Command
from tests.handlers.coordinator.scenarios.staging import made, scenario
from tests.storage.work import NEW_RUN

pytestmark = pytest.mark.anyio

CONNECTION = connections({"registry": {"baseUrl": "https://registry.invalid", "maxResponseBytes": 20}})["registry"]
COMMAND = Command(
    key="run.ask",
    connection="registry",
    recovery="same-command",
    method="POST",
    url="https://registry.invalid/cases/a%2Fb?wait=true",
    headers=(),
    body=b'{"a":1}',
)


def staged(folder: Path, acts: tuple[Act, ...] = (), **members: Any) -> tuple[Services, Clock, Operator]:
    clock = Clock(1000)
    operator = Operator(acts, clock, MemoryJournal("run", "case-decision", NEW_RUN, clock))
    return Services(scenario(folder, made(folder), **members), clock, operator), clock, operator


@pytest.mark.parametrize(
    ("reply", "exchange", "milliseconds"),
    [
        ({"status": 200, "body": {"b": 2}, "afterSeconds": 2}, Answered(200, b'{"b":2}'), 2000),
        ({"status": 200, "text": "{"}, Answered(200, b"{"), 0),
        ({"status": 204}, Answered(204), 0),
        ({"status": 429, "body": {"why": "busy"}, "retryAfter": 30}, Answered(429, b"", 30_000), 0),
        ({"status": 200, "body": {"long": "x" * 20}}, TooLarge(200), 0),
        ({"fault": "too-large"}, TooLarge(200), 0),
        ({"fault": "refused-connection", "afterSeconds": 1}, NotConnected(), 1000),
        ({"fault": "cut-off", "afterSeconds": 1}, Unanswered(), 1000),
        ({"fault": "timeout"}, Unanswered(), 10_000),
        ({"status": 200, "afterSeconds": 11}, Unanswered(), 10_000),
    ],
)
async def test_each_form_of_a_reply_comes_to_what_a_caller_would_find(
    tmp_path: Path, reply: dict[str, Any], exchange: Exchange, milliseconds: int
) -> None:
    services, clock, _ = staged(tmp_path, replies={"ask": [reply]})
    assert await services.send(CONNECTION, COMMAND) == exchange
    assert clock() == 1000 + milliseconds


async def test_what_is_sent_is_kept_in_parts(tmp_path: Path) -> None:
    services, _, _ = staged(tmp_path, replies={"ask": [{"status": 200}]})
    await services.send(CONNECTION, COMMAND)
    [sent] = services.sent
    assert sent == ("ask", "POST", "/cases/a%2Fb", "wait=true", {"a": 1}, False)
    assert services.left_over() == []


async def test_a_reply_that_is_always_given_has_no_end_and_another_has(tmp_path: Path) -> None:
    services, _, _ = staged(tmp_path, replies={"ask": [{"status": 503}, {"status": 502, "always": True}]})
    assert services.left_over() == ["replies.ask: 2 given, 0 used"]
    answers = [await services.send(CONNECTION, COMMAND) for _ in range(4)]
    assert [answer.status for answer in answers if isinstance(answer, Answered)] == [503, 502, 502, 502]
    with pytest.raises(UnfinishedError, match="0 given, and the receipt was asked for once more"):
        await services.receipt(CONNECTION, COMMAND)


async def test_an_operator_acts_while_the_clock_goes_on_and_never_after(tmp_path: Path) -> None:
    acts = (Act("retry-same", 500, False), Act("cancel", 2000, False), Act("cancel", 5000, False))
    _, clock, operator = staged(tmp_path, acts)
    operator.until(1400)
    assert (clock(), operator.next_at(), operator.troubles) == (1400, 1500, [])
    operator.until(4000)
    assert (clock(), operator.next_at()) == (4000, 6000)
    assert operator.troubles == ["the act retry-same after 0.5 s was refused: retry.refused"]

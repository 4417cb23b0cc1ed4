from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence

import pytest

from storage.database import Storage
from tests.handlers.installer.machine import CONFIG, EVENTS, INSTALL, Answer, Machine, outcome
from tests.storage.installer.work import SUCCEEDED, append, lines

pytestmark = pytest.mark.anyio

LAST = 2**63 - 1
REFUSED = (400, "INVALID_REQUEST")

NO_IDS = ["", "-1", "+1", "1_0", "01", "00", "-0", "1.0", "1e0", "0x1", "1,1", "1 1", "x", str(LAST + 1), "9" * 30]


@pytest.fixture
async def installed(machine: Machine, storage: Storage) -> Machine:
    """A machine whose one attempt has ended with the event 6."""
    await machine.put(CONFIG)
    assert (await machine.ask("POST", INSTALL)).status_code == 202
    machine.app.feed.published(1, await append(storage, 1, *lines(5), SUCCEEDED))
    return machine


async def follow(machine: Machine, *headers: tuple[str, str | bytes], query: str = "") -> Answer:
    async with asyncio.timeout(10):
        return await machine.ask("GET", EVENTS + query, *headers)


def ids(answer: Answer) -> list[int]:
    assert outcome(answer) == (200, "")
    return [int(each) for each in re.findall(r"^id: (.*)$", answer.text, re.MULTILINE)]


def following(after: int) -> Sequence[int]:
    return list(range(after + 1, 7))


async def test_the_whole_history_is_sent_where_nothing_is_asked_for(installed: Machine) -> None:
    answer = await follow(installed)
    assert ids(answer) == following(0)
    assert answer.headers["Content-Type"] == "text/event-stream"
    assert (answer.headers["Cache-Control"], answer.headers["X-Accel-Buffering"]) == ("no-store", "no")
    assert answer.text.startswith(": gatehouse\n\nretry: 2000\n\nid: 1\nevent: log\ndata: {")
    data = [json.loads(each) for each in re.findall(r"^data: (.*)$", answer.text, re.MULTILINE)]
    assert [each["id"] for each in data] == following(0)
    assert data[-1] | {"at": ""} == {"id": 6, "attempt": 1, "type": "verdict", "outcome": "succeeded", "at": ""}


async def test_a_stream_resumes_behind_an_id(installed: Machine) -> None:
    for after in (0, 1, 3, 5, 10**18, LAST):
        assert ids(await follow(installed, query=f"?after={after}")) == following(after)
        assert ids(await follow(installed, ("Last-Event-ID", str(after)))) == following(after)


async def test_of_both_the_header_counts(installed: Machine) -> None:
    assert ids(await follow(installed, ("Last-Event-ID", "2"), query="?after=4")) == following(2)
    assert ids(await follow(installed, ("Last-Event-ID", "4"), query="?after=2")) == following(4)
    assert ids(await follow(installed, ("Last-Event-ID", "0"), query="?after=6")) == following(0)


async def test_a_query_that_is_no_id_is_refused(installed: Machine) -> None:
    for text in [*NO_IDS, "%D9%A3", "%EF%BC%91", "%2B1", "%201", "1%20", "1%00", "1%0A", "%ff"]:
        query = "?after=" + text.replace(" ", "%20")
        assert outcome(await follow(installed, query=query)) == REFUSED, text
        assert outcome(await follow(installed, ("Last-Event-ID", "1"), query=query)) == REFUSED, text


async def test_a_header_that_is_no_id_is_refused(installed: Machine) -> None:
    for text in [*NO_IDS, "\N{ARABIC-INDIC DIGIT THREE}", "\N{FULLWIDTH DIGIT ONE}", "\xb2"]:
        for header in {text.encode(), text.encode("latin-1", "replace")}:
            given = ("Last-Event-ID", header)
            assert outcome(await follow(installed, given)) == REFUSED, text
            assert outcome(await follow(installed, given, query="?after=1")) == REFUSED, text


async def test_a_query_that_asks_twice_is_refused(installed: Machine) -> None:
    for query in ("?after=1&after=1", "?after=1&after=2", "?after=1&%61fter=1", "?after&after=1"):
        assert outcome(await follow(installed, query=query)) == REFUSED, query


async def test_a_header_that_comes_twice_is_refused(installed: Machine) -> None:
    assert outcome(await follow(installed, ("Last-Event-ID", "1"), ("last-event-id", "1"))) == REFUSED


async def test_other_parameters_are_nobodys_matter(installed: Machine) -> None:
    assert ids(await follow(installed, query="?before=x&After=x&after=3&")) == following(3)


async def test_a_refusal_repeats_nothing_of_what_was_sent(installed: Machine) -> None:
    answer = await follow(installed, query="?after=hunter2")
    assert answer.json()["detail"] == "The query parameter after does not satisfy the document."

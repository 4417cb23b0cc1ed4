import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing

import httpx
import pytest

from tests.support.effort import in_ci_alone
from tools.bench.install import EVENTS, Live, Machine, Replay, serving_all
from tools.bench.streams import EVENTS as PATH
from tools.bench.streams import OPENING, take_until, understood

pytestmark = in_ci_alone

NAMES = ["gatehouse", "fastapi", "limit"]
TIMES = re.compile(rb'"at":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"|"line":"\d{16} ')
BAD = ["-1", "+1", "1_0", "1.0", "", "01", str(1 << 63)]


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Machine]]:
    """Gatehouse and its peers; what they stand for is only worth comparing where they answer alike."""
    with serving_all(tmp_path_factory.mktemp("bench") / "install") as served:
        yield {machine.server.program.name: machine for machine in served}


def events(machine: Machine, after: int) -> bytes:
    """A stream to its end, without the times that are in it."""
    with machine.reading(1) as [reader]:
        reader.ask(machine.code, after)
        take_until(lambda each: each.ended, [reader])
        understood([reader], after)
        return TIMES.sub(b"", reader.body()[0])


def get(machine: Machine, query: str = "", headers: Sequence[tuple[str, str]] = ()) -> tuple[int, str]:
    """The status of an answer, and the code of a problem or the media type of anything else."""
    with (
        httpx.Client(verify=machine.trust, trust_env=False) as client,
        client.stream("GET", f"{machine.server.url}{PATH}{query}", headers=list(headers)) as answer,
    ):
        kind = answer.headers["Content-Type"].partition(";")[0]
        if kind != "application/problem+json":
            return answer.status_code, kind
        answer.read()
        return answer.status_code, answer.json()["code"]


@pytest.mark.parametrize("after", [0, 1, 255, 256, 300, EVENTS - 1, EVENTS, EVENTS + 1])
def test_a_history_is_sent_in_the_same_bytes_but_for_its_times(machines: dict[str, Machine], after: int) -> None:
    gatehouse, fastapi, limit = (events(machines[name], after) for name in NAMES)
    assert gatehouse == fastapi == limit
    assert (gatehouse == OPENING) is (after >= EVENTS)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_beginning_of_a_stream_is_refused_alike(machines: dict[str, Machine], name: str) -> None:
    machine = machines[name]
    known = ("Authorization", machine.code)
    assert get(machine) == (401, "INSTALL_CODE_REFUSED")
    assert get(machine, headers=[("Authorization", "Bearer no")]) == (401, "INSTALL_CODE_REFUSED")
    for bad in BAD:
        assert get(machine, f"?after={bad.replace('+', '%2B')}", [known]) == (400, "INVALID_REQUEST")
        assert get(machine, headers=[known, ("Last-Event-ID", bad)]) == (400, "INVALID_REQUEST")
    assert get(machine, "?after=1&after=1", [known]) == (400, "INVALID_REQUEST")
    header = ("Last-Event-ID", str(EVENTS))
    assert get(machine, "?after=1", [known, header]) == (200, "text/event-stream")
    assert get(machine, "?after=1", [known, header, header]) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize("name", NAMES)
def test_a_replay_reaches_all_readers(machines: dict[str, Machine], name: str) -> None:
    outcome = Replay(count=5).play(machines[name])
    assert outcome.requests == 5 * EVENTS
    assert 0 < outcome.p50 <= outcome.p99 <= outcome.longest


def test_an_install_that_goes_on_reaches_all_readers_and_is_history_then(machines: dict[str, Machine]) -> None:
    seconds = 2
    for name in NAMES:
        outcome = Live(seconds, count=5).play(machines[name])
        assert outcome.requests == 5 * (2_000 * seconds + 3)
        # The time of a commit has no more than three digits of its second.
        assert 0 < outcome.p50 <= outcome.p99 <= outcome.longest
        assert outcome.since_written is not None
        assert outcome.since_written[0] > 0
    gatehouse, fastapi, limit = (events(machines[name], EVENTS) for name in NAMES)
    assert gatehouse == fastapi == limit


@pytest.mark.parametrize("name", NAMES)
def test_what_was_sent_is_stored(machines: dict[str, Machine], name: str) -> None:
    table = "events" if name == "fastapi" else "install_events"
    with closing(sqlite3.connect(machines[name].server.program.database)) as connection:
        assert connection.execute(f"SELECT count(*), max(id) FROM {table}").fetchone() == (machines[name].last,) * 2  # noqa: S608 - our own names

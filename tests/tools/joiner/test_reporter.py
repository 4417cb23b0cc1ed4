from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from tests.tools.joiner import conftest
from tests.tools.joiner.conftest import HASTY, NODE, Signer
from tests.tools.joiner.test_founder import first
from tools.joiner.folder import Batch, NodeFolder
from tools.joiner.founder import Founder, JoinEnded
from tools.joiner.pieces import LINE_CHARACTERS
from tools.joiner.progress import Progress
from tools.joiner.reporter import MOST_BYTES, MOST_EVENTS, Reporter

Report: TypeAlias = Callable[[Callable[[Reporter], Awaitable[Any]]], None]


@pytest.fixture
def report(founder: conftest.Founder, folder: NodeFolder, signer: Signer) -> Report:
    """Lets a registered node's reporter run beside a task, until the task is done or the reporter fails."""
    folder.trust(signer.pem.decode())

    def reporting(task: Callable[[Reporter], Awaitable[Any]]) -> None:
        async def main() -> None:
            progress = Progress(machine=True)
            async with Founder(founder.url, folder, NODE, signer.token, progress, pace=HASTY, reached=True) as asked:
                await asked.register()
                reporter = Reporter(asked, folder, progress, HASTY)
                tasks = [asyncio.ensure_future(task(reporter)), asyncio.ensure_future(reporter.run())]
                try:
                    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                    for each in done:
                        each.result()
                finally:
                    for each in tasks:
                        each.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run(main())

    return reporting


async def work(reporter: Reporter) -> None:
    await reporter.step("services", "running")
    for number in range(1200):
        await reporter.line("services", f"line {number} é")
    await reporter.step("services", "done", "all is up")


def test_lines_and_steps_are_reported_in_order_in_few_batches(founder: conftest.Founder, report: Report) -> None:
    report(work)
    assert founder.lines == [f"line {number} é" for number in range(1200)]
    assert founder.steps == [("services", "running"), ("services", "done")]
    assert founder.events[-1]["message"] == "all is up"
    assert {event["step"] for event in founder.events} == {"services"}
    assert all(event["at"].endswith("Z") for event in founder.events)
    sizes = [len(json.loads(body)["events"]) for _, body in founder.reports]
    assert max(sizes) == MOST_EVENTS
    assert len(sizes) < 8
    assert len({key for key, _ in founder.reports}) == len(sizes)


def test_no_line_is_lost_or_repeated_where_connections_are_cut(
    founder: conftest.Founder, folder: NodeFolder, report: Report
) -> None:
    kept: list[Batch | None] = []
    cuts = first(3, "events")

    def cut(name: str) -> bool:
        kept.append(folder.unsent())
        return cuts(name)

    founder.cuts_request = lambda name: "events" in name and cut(name)
    founder.cuts_answer = first(3, "events")
    report(work)
    assert founder.lines == [f"line {number} é" for number in range(1200)]
    assert founder.steps == [("services", "running"), ("services", "done")]
    # Each batch was kept before it was sent.
    assert {each.key for each in kept if each} == {key for key, _ in founder.reports}
    assert folder.unsent() is None


def test_a_batch_stays_far_below_the_bound_of_the_body(founder: conftest.Founder, report: Report) -> None:
    async def long_lines(reporter: Reporter) -> None:
        for _ in range(300):
            await reporter.line("services", "\0" * LINE_CHARACTERS)
        await reporter.step("services", "done")

    report(long_lines)
    assert len(founder.lines) == 300
    assert MOST_BYTES < max(len(body) for _, body in founder.reports) < 2 * MOST_BYTES


def test_a_line_does_not_wait_for_others(founder: conftest.Founder, report: Report) -> None:
    async def one(reporter: Reporter) -> None:
        await reporter.line("services", "alone")
        while not founder.lines:  # noqa: ASYNC110 - the founder runs in a thread
            await asyncio.sleep(0.01)

    report(one)


def test_where_nothing_happens_the_turn_is_kept(founder: conftest.Founder, folder: NodeFolder, report: Report) -> None:
    async def nothing(_: Reporter) -> None:
        while len(founder.reports) < 3:  # noqa: ASYNC110 - the founder runs in a thread
            await asyncio.sleep(0.01)

    report(nothing)
    assert {body for _, body in founder.reports} == {b'{"events":[]}'}
    assert len({key for key, _ in founder.reports}) == len(founder.reports)
    assert not folder.unsent_file.exists()


@pytest.mark.parametrize("was_recorded", [False, True])
def test_what_a_killed_process_left_is_sent_by_its_own_key(
    founder: conftest.Founder, folder: NodeFolder, report: Report, was_recorded: bool
) -> None:
    left = Batch("left-1", '{"events":[{"type":"log","message":"left"}]}')
    if was_recorded:
        founder.report(left.key, left.body.encode())

    async def again(reporter: Reporter) -> None:
        folder.sending(left)
        await reporter.resend()
        await reporter.resend()
        await reporter.step("services", "running")

    report(again)
    assert founder.lines == ["left"]
    assert founder.reports[0] == (left.key, left.body.encode())
    assert folder.unsent() is None


def test_the_end_of_the_join_ends_the_reporter_and_whoever_waits(founder: conftest.Founder, report: Report) -> None:
    founder.state = "failed"
    with pytest.raises(JoinEnded):
        report(work)
    assert founder.reports == []

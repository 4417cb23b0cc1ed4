from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.tools.joiner import conftest
from tests.tools.joiner.conftest import HASTY, NODE, SECRET, Signer
from tools.commands.terminal import RefusedError, UnreachableError
from tools.joiner.folder import Batch, NodeFolder
from tools.joiner.founder import Founder, JoinEnded
from tools.joiner.pin import JoinToken
from tools.joiner.progress import Progress

Task = Callable[[Founder], Awaitable[Any]]

REGISTER = "POST /v1/join/registrations"
LONG = timedelta(minutes=-5), timedelta(days=7)
SHORT = timedelta(hours=-2), timedelta(hours=1)
OVER = timedelta(seconds=-10), timedelta(seconds=-5)


@pytest.fixture
def ask(founder: conftest.Founder, folder: NodeFolder, signer: Signer) -> Callable[..., Any]:
    """Asks the founder, as a process does that knows the authority and has its token."""
    folder.trust(signer.pem.decode())

    def asking(task: Task, *, token: JoinToken | None = signer.token, reached: bool = True) -> Any:
        async def main() -> Any:
            async with Founder(
                founder.url, folder, NODE, token, Progress(machine=True), pace=HASTY, reached=reached
            ) as asked:
                return await task(asked)

        return asyncio.run(main())

    return asking


def first(count: int, what: str = "") -> Callable[[str], bool]:
    """True for the first requests whose name has `what` in it."""
    left = [count]

    def is_one(name: str) -> bool:
        left[0] -= what in name
        return what in name and left[0] >= 0

    return is_one


def test_a_node_registers_with_the_secret_alone_and_is_known_by_its_certificate_then(
    ask: Callable[..., Any], founder: conftest.Founder, folder: NodeFolder
) -> None:
    async def task(asked: Founder) -> Any:
        await asked.register()
        return await asked.registration()

    assert ask(task)["joinId"] == founder.join_id
    assert founder.tokens == [f"Bearer {SECRET}"]
    assert founder.seen == [REGISTER, f"GET /v1/join/registrations/{founder.join_id} known"]
    join = folder.join()
    assert join is not None
    assert (join.join_id, join.node) == (founder.join_id, NODE)


def test_a_lost_answer_of_register_is_mended_by_the_same_token_and_key(
    ask: Callable[..., Any], founder: conftest.Founder, folder: NodeFolder
) -> None:
    founder.cuts_answer = first(2)
    key = folder.key()
    ask(lambda asked: asked.register())
    assert founder.tokens == [f"Bearer {SECRET}"] * 3
    assert folder.key().private_numbers() == key.private_numbers()


def test_a_report_is_sent_again_as_it_was_until_it_is_answered(
    ask: Callable[..., Any], founder: conftest.Founder, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = Batch("key-1", '{"events":[{"type":"log","message":"é"}]}')

    async def task(asked: Founder) -> None:
        await asked.register()
        founder.cuts_request = first(1, "events")
        founder.cuts_answer = first(2, "events")
        founder.refusals = [(500, "INTERNAL"), (500, "INTERNAL"), (503, "UNAVAILABLE")]
        await asked.report(batch)

    ask(task)
    assert founder.reports == [("key-1", batch.body.encode())]
    assert founder.lines == ["é"]
    told = [json.loads(line)["detail"] for line in capsys.readouterr().out.splitlines()]
    assert told[0].startswith(f"{founder.url} does not answer: ")
    assert told[1:] == [None]


def test_a_founder_that_is_busy_is_asked_again(
    ask: Callable[..., Any], founder: conftest.Founder, capsys: pytest.CaptureFixture[str]
) -> None:
    founder.refusals = [(503, "UNAVAILABLE"), (500, "INTERNAL"), (502, "")]
    ask(lambda asked: asked.register())
    told = [json.loads(line)["detail"] for line in capsys.readouterr().out.splitlines()]
    assert told == [f"{founder.url} answers 503", None]


def test_a_join_that_has_ended_takes_no_report(ask: Callable[..., Any], founder: conftest.Founder) -> None:
    async def task(asked: Founder) -> None:
        await asked.register()
        founder.state = "failed"
        await asked.report(Batch("key-1", '{"events":[]}'))

    with pytest.raises(JoinEnded):
        ask(task)


def test_any_other_refusal_ends_the_command(ask: Callable[..., Any], founder: conftest.Founder) -> None:
    founder.refusals = [(409, "JOIN_NAME_TAKEN")]
    with pytest.raises(RefusedError, match=r"JOIN_NAME_TAKEN \(409\)") as refused:
        ask(lambda asked: asked.register())
    assert refused.value.body["code"] == "JOIN_NAME_TAKEN"


@pytest.mark.parametrize(
    "value",
    [
        ["no registration"],
        {"joinId": 1, "certificate": "x"},
        {"joinId": "x"},
        {"joinId": "x", "certificate": None},
        {"joinId": "x", "certificate": "\ud800"},
    ],
)
def test_an_answer_that_no_founder_gives_is_told(
    ask: Callable[..., Any], founder: conftest.Founder, folder: NodeFolder, value: Any
) -> None:
    founder.answer = lambda *_: (200, value)  # type: ignore[method-assign] # somebody else answers
    with pytest.raises(RefusedError, match="answers 200 with what no founder does"):
        ask(lambda asked: asked.register())
    assert folder.join() is None


def test_the_id_of_a_join_is_one_segment_of_a_path(ask: Callable[..., Any], founder: conftest.Founder) -> None:
    founder.join_id = "../x?\n\r\x1b"

    async def task(asked: Founder) -> Any:
        await asked.register()
        return await asked.registration()

    with pytest.raises(RefusedError, match="NOT_FOUND"):
        ask(task)
    assert founder.seen[-1] == "GET /v1/join/registrations/..%2Fx%3F%0A%0D%1B known"


def test_an_answer_without_end_is_not_read_to_it(ask: Callable[..., Any], founder: conftest.Founder) -> None:
    founder.answer = lambda *_: (200, {"joinId": "x" * 17_000_000})  # type: ignore[method-assign] # somebody else
    with pytest.raises(UnreachableError, match="the answer has more than 16777216 bytes"):
        ask(lambda asked: asked.register(), reached=False)


def test_who_gives_up_a_request_does_not_tear_it(ask: Callable[..., Any], founder: conftest.Founder) -> None:
    async def task(asked: Founder) -> None:
        await asked.register()
        report = asyncio.create_task(asked.report(Batch("key-1", '{"events":[]}')))
        await asyncio.sleep(0)
        report.cancel()
        with pytest.raises(asyncio.CancelledError):
            await report

    ask(task)
    assert [key for key, _ in founder.reports] == ["key-1"]


def known_twice(founder: conftest.Founder, life: tuple[timedelta, timedelta]) -> Task:
    """Register for such a life of the certificate, and ask twice with it."""

    async def task(asked: Founder) -> None:
        founder.life = life
        await asked.register()
        founder.life = LONG
        await asked.registration()
        await asked.registration()

    return task


def test_a_certificate_is_renewed_once_half_of_its_life_is_over(
    ask: Callable[..., Any], founder: conftest.Founder, folder: NodeFolder
) -> None:
    ask(known_twice(founder, SHORT))
    join = f"/v1/join/registrations/{founder.join_id}"
    assert founder.seen[1:] == [f"POST {join}/certificate known", *[f"GET {join} known"] * 2]
    assert folder.validity() is not None


def test_a_renewal_that_fails_is_let_alone_for_a_while(ask: Callable[..., Any], founder: conftest.Founder) -> None:
    founder.cuts_answer = first(9, "certificate")
    ask(known_twice(founder, SHORT))
    assert [name for name in founder.seen if "certificate" in name] == [founder.seen[1]]


def test_an_expired_certificate_is_replaced_by_registering_again(
    ask: Callable[..., Any], founder: conftest.Founder
) -> None:
    ask(known_twice(founder, OVER))
    assert founder.seen[:2] == [REGISTER, REGISTER]
    assert founder.tokens == [f"Bearer {SECRET}"] * 2


def test_an_expired_certificate_without_the_token_is_refused(
    ask: Callable[..., Any], founder: conftest.Founder
) -> None:
    founder.life = OVER
    ask(lambda asked: asked.register())
    with pytest.raises(RefusedError, match="wants a join token"):
        ask(lambda asked: asked.registration(), token=None)


def test_a_founder_that_was_never_reached_is_unreachable(ask: Callable[..., Any], founder: conftest.Founder) -> None:
    founder.url = "https://127.0.0.1:1"
    with pytest.raises(UnreachableError, match=r"https://127\.0\.0\.1:1 does not answer"):
        ask(lambda asked: asked.register(), reached=False)


def test_who_is_not_signed_by_the_authority_gets_no_request(
    ask: Callable[..., Any], founder: conftest.Founder, folder: NodeFolder
) -> None:
    folder.trust(Signer.new().pem.decode())
    with pytest.raises(RefusedError, match="is not the founder"):
        ask(lambda asked: asked.register())
    assert founder.seen == []


def test_a_token_is_another_one_unless_the_join_was_registered_with_it(ask: Callable[..., Any]) -> None:
    async def has_other(asked: Founder) -> bool:
        return asked.has_other_token

    assert ask(has_other)
    ask(lambda asked: asked.register())
    assert not ask(has_other)
    assert not ask(has_other, token=None)
    assert ask(has_other, token=JoinToken("another", b""))

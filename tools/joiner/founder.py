"""Asks the founder over TLS, again and again where that may help, and keeps the node's certificate valid."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import httpx
import msgspec

from handlers.join.bounded import Bounded
from tools.commands.client import SECONDS, refusal
from tools.commands.terminal import RefusedError, UnreachableError
from tools.joiner import answers, pin
from tools.joiner.folder import Batch, Join, Node, NodeFolder, token_digest
from tools.joiner.pin import JoinToken
from tools.joiner.progress import Progress

REGISTRATIONS: Final = "/v1/join/registrations"
# Answers of a server, or of a proxy before it, that another attempt may change.
_PASSING: Final = frozenset({429, 500, 502, 503, 504})
# What the other side sends within TLS, such as an alert, comes through httpx as it is.
_TRANSPORT: Final = (httpx.TransportError, ssl.SSLError)
# How long a request that nobody wants any more may take.
_LAST_SECONDS: Final = 1.0
# A registration holds what its node has said of its steps, and some lists of a few members.
_ANSWER_BYTES: Final = 16 * 1_048_576
# How long a renewal that failed is let alone; the certificate has days left then.
_RENEWAL_PAUSE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds: between questions, between reports, how old a line may grow, and pauses after a failure."""

    question: float = 1.0
    heartbeat: float = 10.0
    batch: float = 0.25
    first_pause: float = 0.1
    longest_pause: float = 5.0


class JoinEnded(Exception):
    """The founder takes no more reports: the join has ended."""


class Founder:
    """The founder as one node knows it. `reached`: whether it has answered this process already."""

    def __init__(
        self,
        url: str,
        folder: NodeFolder,
        node: Node,
        token: JoinToken | None,
        progress: Progress,
        *,
        pace: Pace,
        reached: bool,
    ) -> None:
        self._url = url
        self._folder = folder
        self._node = node
        self._token = token
        self._progress = progress
        self._pace = pace
        self._reached = reached
        self._answered = False
        self._certifying = asyncio.Lock()
        self._renewal_from = 0.0
        self._clients = contextlib.AsyncExitStack()
        self._stranger: httpx.AsyncClient | None = None
        self._known: httpx.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._clients.aclose()

    @property
    def has_other_token(self) -> bool:
        """Whether there is a token beside the one that the folder's join was registered with."""
        join = self._folder.join()
        return self._token is not None and (join is None or join.token != token_digest(self._token.secret))

    async def register(self) -> None:
        """Register, or get the same registration again, and keep it with its certificate."""
        if self._token is None:
            raise RefusedError("the founder wants a join token; `gatehouse joins token` makes one")
        node = self._node
        body: dict[str, Any] = {
            "name": node.name,
            "role": node.role,
            "address": node.address,
            "csr": self._folder.csr(),
        }
        if node.peer_urls:
            body["peerUrls"] = list(node.peer_urls)
        headers = {"Authorization": f"Bearer {self._token.secret}"}
        answer = await self._ask("POST", REGISTRATIONS, known=False, json=body, headers=headers)
        registered = self._value(answer, answers.Registered)
        self._certified(registered["certificate"])
        self._folder.joined_as(
            Join(
                join_id=registered["joinId"],
                token=token_digest(self._token.secret),
                node=node,
            )
        )

    async def registration(self) -> dict[str, Any]:
        """Return the registration as it is now."""
        return self._value(await self._ask("GET", self._path(""), known=True), answers.Registration)

    async def report(self, batch: Batch) -> None:
        """Report until there is an answer. Raises JoinEnded, and RefusedError for any other refusal."""
        headers = {"Content-Type": "application/json", "Idempotency-Key": batch.key}
        content = batch.body.encode()
        answer = await self._ask("POST", self._path("/events"), known=True, content=content, headers=headers)
        if answer.is_success:
            return
        fault = refusal(answer)
        if fault.body.get("code") == "JOIN_ENDED":
            raise JoinEnded
        raise fault

    def _path(self, rest: str) -> str:
        join = self._folder.join()
        if join is None:
            raise RefusedError("this node is not registered")
        return f"{REGISTRATIONS}/{quote(join.join_id, safe='')}{rest}"

    async def _ask(self, method: str, target: str, *, known: bool, **options: Any) -> httpx.Response:
        """Send a request until the answer is one that would be the same the next time."""
        pause = self._pace.first_pause
        while True:
            if known:
                await self._keep_certified()
            client = self._client(known)
            try:
                answer = await _whole(client.request(method, target, **options))
            except _TRANSPORT as error:
                trouble = self._trouble(error)
            else:
                self._reached = self._answered = True
                if answer.status_code not in _PASSING:
                    self._progress.trouble(None)
                    return answer
                trouble = f"{self._url} answers {answer.status_code}"
            self._progress.trouble(trouble)
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._pace.longest_pause)

    def _trouble(self, error: Exception) -> str:
        """Say what is wrong with the connection, or raise it where it cannot be waited for."""
        if not self._answered and _is_distrust(error):
            raise RefusedError(f"{self._url} is not the founder: {error}") from None
        detail = f"{self._url} does not answer: {str(error) or type(error).__name__}"
        if not self._reached:
            raise UnreachableError(detail) from None
        return detail

    async def _keep_certified(self) -> None:
        """Renew the certificate past half of its life; one that has expired counts for nothing: register again."""
        async with self._certifying:
            begins, ends = self._folder.validity() or (datetime.min.replace(tzinfo=UTC),) * 2
            now = datetime.now(UTC)
            if now >= ends:
                await self.register()
            elif now - begins >= (ends - begins) / 2 and time.monotonic() >= self._renewal_from:
                await self._renew()

    async def _renew(self) -> None:
        self._renewal_from = time.monotonic() + _RENEWAL_PAUSE_SECONDS
        client, body = self._client(known=True), {"csr": self._folder.csr()}
        with contextlib.suppress(*_TRANSPORT, RefusedError):
            answer = await _whole(client.post(self._path("/certificate"), json=body))
            self._certified(self._value(answer, answers.Certified)["certificate"])

    def _value(self, answer: httpx.Response, of: type[msgspec.Struct]) -> dict[str, Any]:
        """Return the object of a success; RefusedError tells of anything else."""
        if not answer.is_success:
            raise refusal(answer)
        value = answers.read(answer.content, of)
        if value is None:
            raise RefusedError(f"{self._url} answers {answer.status_code} with what no founder does")
        return value

    def _certified(self, certificate: str) -> None:
        self._folder.certify(certificate)
        self._known = None

    def _client(self, known: bool) -> httpx.AsyncClient:
        client = self._known if known else self._stranger
        if client is None:
            client = self._new_client(known)
            # Earlier clients may have requests under way; all are closed in the end.
            self._clients.push_async_callback(client.aclose)
            if known:
                self._known = client
            else:
                self._stranger = client
        return client

    def _new_client(self, known: bool) -> httpx.AsyncClient:
        context = pin.trusting(self._folder.authority() or "")
        if known:
            self._folder.identify(context)
        # The environment's proxy is the way to the internet, not to the founder.
        transport = Bounded(_ANSWER_BYTES, context)
        return httpx.AsyncClient(base_url=self._url, transport=transport, timeout=SECONDS, trust_env=False)


async def _whole(request: Coroutine[Any, Any, httpx.Response]) -> httpx.Response:
    """Await a request; a caller that is cancelled waits a moment for its end, as httpx leaves torn handshakes open."""
    task = asyncio.create_task(request)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=_LAST_SECONDS)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise


def _is_distrust(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False

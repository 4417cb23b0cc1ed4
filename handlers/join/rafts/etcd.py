"""An etcd cluster as a raft, by the JSON gateway of its own API (etcd 3.4 and later)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Final, Literal, TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec

from handlers.join.bounded import Bounded
from handlers.join.rafts.port import Member, RaftRefused, RaftSilent, RaftTrouble, peer_url

Answer = TypeVar("Answer")

# etcd gives up a request after 5 s and twice its election time-out, which is 1 s unless somebody has changed it.
_LATE_SECONDS: Final = 10.0
_CALL_SECONDS: Final = 5.0
_TEXT_CHARACTERS: Final = 200
# A list of members has a few hundred bytes for each.
_ANSWER_BYTES: Final = 1_048_576

# gRPC's codes and etcd's texts (api/v3rpc/rpctypes/error.go), as the gateway hands them on.
_INVALID: Final = 3
_NOT_FOUND: Final = 5
_VERDICTS: Final = frozenset({_INVALID, _NOT_FOUND, 9})
_VOTER_ALREADY: Final = "etcdserver: can only promote a learner member"
_NOT_TRIED: Final = frozenset({"etcdserver: unhealthy cluster", "etcdserver: rpc not supported for learner"})


class _Member(msgspec.Struct):
    """A member as the gateway writes it: 64-bit numbers are strings, and what is empty or false is left out."""

    id: Annotated[str, msgspec.Meta(pattern=r"\A[0-9]+\Z")] = msgspec.field(name="ID")
    name: str = ""
    peer_urls: list[str] = msgspec.field(name="peerURLs", default_factory=list)
    learner: bool = msgspec.field(name="isLearner", default=False)

    def member(self) -> Member:
        return Member(self.id, self.name, tuple(self.peer_urls), self.learner)


class _Members(msgspec.Struct):
    members: list[_Member]


class _Added(msgspec.Struct):
    member: _Member


class _Error(msgspec.Struct):
    code: int
    message: str


class _Verdict(Exception):
    """etcd has judged the request, and any other endpoint would judge it the same."""

    def __init__(self, endpoint: str, error: _Error) -> None:
        super().__init__(_told(endpoint, error.message))
        self.code = error.code
        self.message = error.message


class EtcdRaft:
    """The members of an etcd cluster, which is reached at the first of its endpoints that answers."""

    kind: Final[Literal["etcd"]] = "etcd"
    late_seconds: Final = _LATE_SECONDS
    one_at_a_url: Final = True

    def __init__(
        self,
        name: str,
        endpoints: Sequence[str],
        peer_port: int,
        peer_scheme: str,
        tls: ssl.SSLContext | None = None,
        *,
        call_seconds: float = _CALL_SECONDS,
    ) -> None:
        self.name = name
        self._endpoints = [endpoint.rstrip("/") for endpoint in endpoints]
        self._peer_port = peer_port
        self._peer_scheme = peer_scheme
        self._call_seconds = call_seconds
        # Where nothing is TLS the public authorities are not worth the tenth of a second that they take to load.
        encrypted = any(endpoint.startswith("https:") for endpoint in endpoints)
        # No proxy of the environment's, and no redirect: these requests go where the settings say.
        transport = Bounded(_ANSWER_BYTES, tls or encrypted)
        self._client = httpx.AsyncClient(transport=transport, timeout=call_seconds, trust_env=False)

    def peer_urls(self, address: str) -> tuple[str, ...]:
        """Return the one URL of a member at `address`."""
        return (peer_url(self._peer_scheme, address, self._peer_port),)

    async def members(self) -> list[Member]:
        """Return the members as they are after every change that the cluster took before the call."""
        try:
            return await self._at_one_endpoint(self._list)
        except _Verdict as verdict:
            raise RaftTrouble(str(verdict)) from verdict

    async def add(self, name: str, peer_urls: tuple[str, ...]) -> Member:  # noqa: ARG002 - etcd learns a member's name from the member
        """Add a learner; raises RaftRefused where etcd takes no such URL."""
        request = {"peerURLs": list(peer_urls), "isLearner": True}
        try:
            added = await self._change("member/add", request, _Added)
        except _Verdict as verdict:
            raise (RaftRefused if verdict.code == _INVALID else RaftTrouble)(str(verdict)) from verdict
        return added.member.member()

    async def promote(self, member_id: str) -> None:
        """Make a voter of a learner; raises RaftTrouble until it is in sync, RaftRefused where it is no member."""
        try:
            await self._change("member/promote", {"ID": member_id}, _Members)
        except _Verdict as verdict:
            if verdict.message == _VOTER_ALREADY:
                return
            raise (RaftRefused if verdict.code == _NOT_FOUND else RaftTrouble)(str(verdict)) from verdict

    async def remove(self, member_id: str) -> None:
        """Remove a member."""
        try:
            await self._change("member/remove", {"ID": member_id}, _Members)
        except _Verdict as verdict:
            if verdict.code != _NOT_FOUND:
                raise RaftTrouble(str(verdict)) from verdict

    async def close(self) -> None:
        """Close the connections to the endpoints."""
        await self._client.aclose()

    async def _list(self, endpoint: str) -> list[Member]:
        # etcd 3.4 lists what this endpoint has heard of, be it cut off from the others or behind them. The list of
        # alarms is read through the log of the raft: once it is here, so is every change of members before it.
        await self._post(endpoint, "maintenance/alarm", {"action": "GET"}, msgspec.Raw)
        return [each.member() for each in (await self._post(endpoint, "cluster/member/list", {}, _Members)).members]

    async def _change(self, call: str, request: dict[str, Any], of: type[Answer]) -> Answer:
        return await self._at_one_endpoint(lambda endpoint: self._post(endpoint, f"cluster/{call}", request, of))

    async def _at_one_endpoint(self, ask: Callable[[str], Awaitable[Answer]]) -> Answer:
        """Ask one endpoint after the other; the one that answered is the first to be asked the next time.

        Raises the trouble of the last one, or of the last that was silent: a change that it was asked for may stand.
        """
        trouble: RaftTrouble | None = None
        for endpoint in tuple(self._endpoints):
            try:
                answer = await ask(endpoint)
            except RaftTrouble as error:
                trouble = trouble if isinstance(trouble, RaftSilent) and not isinstance(error, RaftSilent) else error
            else:
                self._endpoints.remove(endpoint)
                self._endpoints.insert(0, endpoint)
                return answer
        raise trouble or RaftTrouble("no endpoint is configured")

    async def _post(self, endpoint: str, call: str, request: dict[str, Any], of: type[Answer]) -> Answer:
        """Return one endpoint's answer; raises _Verdict, or RaftTrouble where another one may know better."""
        try:
            async with asyncio.timeout(self._call_seconds):
                response = await self._client.post(f"{endpoint}/v3/{call}", json=request)
        except httpx.ConnectError as error:
            raise RaftTrouble(_told(endpoint, _tls_fault(error) or "cannot be reached")) from error
        except (TimeoutError, httpx.TimeoutException) as error:
            raise RaftSilent(_told(endpoint, f"has not answered for {self._call_seconds:g} s")) from error
        except httpx.HTTPError as error:
            raise RaftSilent(_told(endpoint, "has not answered")) from error
        if response.status_code != httpx.codes.OK:
            raise _refusal(endpoint, response)
        return _decoded(endpoint, response, of)


def _refusal(endpoint: str, response: httpx.Response) -> _Verdict | RaftTrouble:
    """Return what an answer other than 200 means."""
    try:
        error = msgspec.json.decode(response.content, type=_Error)
    except (msgspec.DecodeError, RecursionError):
        # Not etcd's gateway, or one without this call.
        return RaftSilent(_told(endpoint, f"has answered {response.status_code}"))
    if error.code in _VERDICTS:
        return _Verdict(endpoint, error)
    return (RaftTrouble if error.message in _NOT_TRIED else RaftSilent)(_told(endpoint, error.message))


def _decoded(endpoint: str, response: httpx.Response, of: type[Answer]) -> Answer:
    try:
        return msgspec.json.decode(response.content, type=of)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RaftSilent(_told(endpoint, "has answered what etcd does not")) from error


def _tls_fault(error: BaseException) -> str | None:
    """Return what of TLS has failed, in OpenSSL's words, where an error comes from that."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate does not pass: {cause.verify_message}"
    return None if cause is None else f"TLS fails: {cause.reason}"


def _told(endpoint: str, text: str) -> str:
    """Return what an operator reads of an endpoint: no credentials of its URL, one line, and not an endless one."""
    printable = "".join(character if character.isprintable() else " " for character in text[:_TEXT_CHARACTERS])
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}: {printable}"

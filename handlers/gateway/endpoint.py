"""One operation on one listener: authenticates, binds, calls the handler, renders; it refuses as the document says."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.types import Receive, Scope, Send

from generated.runtime import Authenticator, Body, Operation, Problem
from handlers.gateway.answers import Rendered, entry_answer, problem_answer, renderers
from handlers.gateway.bodies import Bodies, BytesFault, MediaTypeFault, SchemaFault
from handlers.gateway.event_stream import EventStream
from handlers.gateway.exchange import EXCHANGE, BodyMalformed, BodyTooLarge, ClientLeft, Exchange
from handlers.gateway.faults import RETRY_AFTER, Api, Entry, Fault, Finding, storage_fault
from handlers.gateway.parameters import ParameterFault, Parameters
from handlers.gateway.pressure import REFUSED
from handlers.gateway.schemas import Describer
from storage.errors import StorageError, Unstorable

log = logging.getLogger("gatehouse.gateway")

_TEMPLATED: Final = re.compile(r"\{([^}]*)\}")

UNAUTHENTICATED: Final = "The request does not carry credentials that this operation accepts."
# Where a scheme's refusal is another one: of what is not the caller's, not even that it exists is told.
UNKNOWN: Final = "The path names nothing that is open to whoever sent this request."

# What WWW-Authenticate names where the document leaves it open: on other listeners their own name.
REALMS: Final[Mapping[str, str]] = {"control": "gatehouse"}


class Refusal(Exception):
    """The gateway refuses the request itself, with this entry of the catalogue."""

    def __init__(self, entry: Entry, detail: str, findings: Sequence[Finding] = ()) -> None:
        super().__init__(entry.code)
        self.entry = entry
        self.detail = detail
        self.findings = findings


class Endpoint:
    """An ASGI application for one operation, compiled from OPERATION and the contract."""

    def __init__(self, api: Api, operation: Operation, listener: str, describer: Describer) -> None:
        self.operation = operation
        self._name = f"{api.name}.{operation.id}"
        self._handler: Callable[[Any], Any] = getattr(api.service, operation.name)
        self._documented = frozenset(operation.problems)
        self._renderers = renderers(operation)
        self._request = operation.request
        self._parameters = Parameters(api.contract, operation.parameters)
        # Parameters may be declared in another order than the path has them, by which the router view numbers them.
        self._path_names = [(f"p{index}", name) for index, name in enumerate(_TEMPLATED.findall(operation.path))]
        self._catalogue = api.catalogue
        self._entries = _entries(api, operation)
        self._body = _Body(api, operation, operation.body, describer) if operation.body else None
        self._limit = operation.body.limit if operation.body else 0
        self._takes_accept = operation.accept
        self._shed = operation.id in api.shed
        self._authenticator, self._unauthenticated = _authentication(api, operation, listener)
        self._challenges = challenges(api, listener)

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        """Answer one request; a client that left is not answered."""
        exchange: Exchange = scope[EXCHANGE]
        exchange.operation = self._name
        exchange.limit = self._limit
        if self._shed and REFUSED in scope:
            await self._fault(Fault.OVERLOADED, exchange).send(send)
            return
        try:
            exchange.path_parameters = self._decode_path(scope["path_params"])
            answer = await self._answer(exchange)
        except ClientLeft:
            return
        if isinstance(answer, EventStream):
            await self._stream(answer, exchange, send)
        else:
            await answer.send(send)

    async def _stream(self, stream: EventStream, exchange: Exchange, send: Send) -> None:
        """Send an answer that can fail when it has long begun; where it does, the client sees that it has no end."""
        try:
            await stream.send(exchange, send)
        except (KeyboardInterrupt, SystemExit):
            raise
        except asyncio.CancelledError:
            # A stopping server has waited long enough.
            await exchange.hang_up()
        except BaseException as error:  # noqa: BLE001 - as in _answer.
            self._log(error, exchange)
            await exchange.hang_up()

    async def _answer(self, exchange: Exchange) -> Rendered | EventStream:
        try:
            response = await self._handler(await self._bind(exchange))
            return self._renderers[type(response)](response)
        except Problem as problem:
            if type(problem) in self._documented:
                return problem_answer(problem, exchange.trace_id, headers=self._challenges.get(problem.code))
            return self._failure(exchange, problem)
        except Refusal as refusal:
            headers = self._challenges.get(refusal.entry.code)
            return entry_answer(
                refusal.entry, refusal.detail, exchange.trace_id, headers=headers, findings=refusal.findings
            )
        except BodyTooLarge:
            return self._fault(Fault.TOO_LARGE, exchange)
        except BodyMalformed:
            return self._fault(Fault.MALFORMED, exchange)
        except Unstorable as error:
            return self._failure(exchange, error)
        except StorageError as error:
            self._log(error, exchange)
            return self._fault(storage_fault(error), exchange)
        except (ClientLeft, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - Rust's panics and the end of a stopping server's patience, too.
            return self._failure(exchange, error)

    async def _bind(self, exchange: Exchange) -> Any:
        fields: dict[str, Any] = {"trace_id": exchange.trace_id}
        if self._authenticator is not None:
            principal = await self._authenticator(exchange)
            if principal is None:
                entry = self._unauthenticated
                raise Refusal(entry, UNAUTHENTICATED if entry.status == 401 else UNKNOWN)
            fields["principal"] = principal
        if self._takes_accept:
            fields["accept"] = _accept(exchange.headers)
        if self._body is None:
            fields |= self._read_parameters(exchange)
            return self._request(**fields)
        raw = await exchange.body()
        media_type = self._media_type(self._body, raw, exchange)
        fields |= self._read_parameters(exchange)
        fields |= self._body.fields(raw, media_type)
        return self._request(**fields)

    def _media_type(self, body: _Body, raw: bytes, exchange: Exchange) -> str | None:
        try:
            return body.media_type(raw, exchange.headers)
        except MediaTypeFault:
            raise Refusal(self._entries[Fault.MEDIA_TYPE], Fault.MEDIA_TYPE.value) from None

    def _read_parameters(self, exchange: Exchange) -> dict[str, Any]:
        try:
            return self._parameters.read(exchange.path_parameters, exchange.scope["query_string"], exchange.headers)
        except ParameterFault as fault:
            parameter = fault.parameter
            entry = self._catalogue[parameter.problem] if parameter.problem else self._entries[Fault.PARAMETERS]
            detail = f"The {parameter.location} parameter {parameter.name} does not satisfy the document."
            raise Refusal(entry, detail, [Finding(parameter.name, "does not satisfy the document")]) from None

    def _decode_path(self, received: Mapping[str, str]) -> dict[str, str]:
        return {name: _decode_segment(received[position]) for position, name in self._path_names}

    def _fault(self, fault: Fault, exchange: Exchange) -> Rendered:
        entry = self._entries[fault]
        headers = {}
        if fault in RETRY_AFTER and "Retry-After" in entry.headers:
            headers["Retry-After"] = str(RETRY_AFTER[fault])
        if fault is Fault.TOO_LARGE:
            headers["Connection"] = "close"
        return entry_answer(entry, fault.value, exchange.trace_id, headers=headers)

    def _failure(self, exchange: Exchange, error: BaseException) -> Rendered:
        self._log(error, exchange)
        return self._fault(Fault.FAILURE, exchange)

    def _log(self, error: BaseException, exchange: Exchange) -> None:
        where = {"operation": self._name, "traceId": exchange.trace_id}
        if isinstance(error, StorageError) and not isinstance(error, Unstorable):
            log.warning("storage: %s", error, extra=where)
        else:
            log.error("failure", exc_info=error, extra=where)


class _Body(Bodies):
    """The body of one operation, with what its faults are answered with."""

    def __init__(self, api: Api, operation: Operation, body: Body, describer: Describer) -> None:
        super().__init__(api.contract, body, describer, api.meanings.get(operation.id), api.plain.get(operation.id))
        general = api.entry(Fault.BODY, operation)
        own = api.catalogue[body.problem] if body.problem else general
        self._of_bytes = own if body.canonical else general
        self._of_value = own
        self._names_media_type = len(body.media_types) > 1

    def fields(self, raw: bytes, media_type: str | None) -> dict[str, Any]:
        """Return the fields of a Request that the body fills; raises Refusal."""
        try:
            fields = {"body": self.decode(raw, media_type), "raw_body": raw}
        except BytesFault as fault:
            raise Refusal(self._of_bytes, str(fault)) from None
        except SchemaFault as fault:
            raise Refusal(self._of_value, _describe(fault.findings[0]), fault.findings) from None
        if self._names_media_type:
            fields["content_type"] = msgspec.UNSET if media_type is None else media_type
        return fields


def _describe(finding: Finding) -> str:
    where = f"{finding.field} " if finding.field else ""
    return f"The body does not satisfy the document: {where}{finding.message}."


def _accept(headers: Sequence[tuple[bytes, bytes]]) -> str | None:
    """Return the value of Accept, the values of several fields as one list (RFC 9110, section 5.3)."""
    values = [value.decode("latin-1") for name, value in headers if name == b"accept"]
    return ", ".join(values) if values else None


def _decode_segment(segment: str) -> str:
    """Decode one path segment; bytes that are not UTF-8 become U+FFFD, and nothing is known by such a name."""
    return unquote_to_bytes(segment).decode(errors="replace") if "%" in segment else segment


def _entries(api: Api, operation: Operation) -> dict[Fault, Entry]:
    """Look up the answer to each fault that the operation can have; a gap in the document is found at start."""
    faults = {Fault.FAILURE, Fault.UNAVAILABLE, Fault.OVERLOADED, Fault.AUDIT_UNAVAILABLE}
    if any(parameter.problem is None for parameter in operation.parameters):
        faults.add(Fault.PARAMETERS)
    if operation.body is not None:
        faults |= {Fault.TOO_LARGE, Fault.MEDIA_TYPE, Fault.BODY, Fault.MALFORMED}
    return {fault: api.entry(fault, operation) for fault in faults}


def _authentication(api: Api, operation: Operation, listener: str) -> tuple[Authenticator[Any] | None, Entry]:
    """Return the authenticator of the one scheme that counts on `listener`, and what a refusal is answered with."""
    failure = api.entry(Fault.FAILURE, operation)
    if not operation.schemes:
        return None, failure
    for scheme in operation.schemes:
        if api.schemes[scheme.name] == listener and scheme.name == api.guard:
            return _let_in, api.catalogue[scheme.problem]
        if api.schemes[scheme.name] == listener:
            return getattr(api.authenticators, scheme.field), api.catalogue[scheme.problem]
    raise LookupError(f"{operation.id} has no security scheme for the listener {listener}")


async def _let_in(exchange: Any) -> Any:
    """Return whom the listener's guard has let in, by this scheme."""
    return exchange.principal


def challenges(api: Api, listener: str) -> dict[str, dict[str, str]]:
    """Return the WWW-Authenticate of each code for which the document leaves it to the listener."""
    challenge = f'Bearer realm="{REALMS.get(listener, listener)}"'
    return {
        code: {"WWW-Authenticate": challenge}
        for code, entry in api.catalogue.items()
        if entry.headers.get("WWW-Authenticate", "") is None
    }

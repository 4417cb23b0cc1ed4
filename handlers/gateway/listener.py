"""A listener: the ASGI application that serves some operations of some documents on one address."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence

from starlette.types import Receive, Scope, Send

from generated.runtime import Operation
from handlers.gateway.answers import Rendered, entry_answer
from handlers.gateway.endpoint import Endpoint
from handlers.gateway.exchange import CONNECTION, EXCHANGE, FAULT, Exchange
from handlers.gateway.faults import Api, Fault
from handlers.gateway.guard import Guard
from handlers.gateway.pages import Page
from handlers.gateway.pressure import Door, Pressure
from handlers.gateway.reply import Reply
from handlers.gateway.routing import canonical_path, routed
from handlers.gateway.schemas import Describer
from handlers.gateway.telemetry import Metrics, RequestLog

log = logging.getLogger("gatehouse.gateway")


class Listener:
    """Serves what the documents put on the listener `name`, and `pages` beside it.

    The first of `apis` gives its problem shape to paths under no other's prefix. Where one has a guard for this
    listener, it stands before all but the pages. What writes is refused where the `pressure` is too high, if any.
    """

    def __init__(
        self,
        name: str,
        apis: Sequence[Api],
        pages: Mapping[str, Page],
        metrics: Metrics,
        request_log: RequestLog,
        pressure: Pressure | None = None,
    ) -> None:
        self.name = name
        self._apis = apis
        self._pages = pages
        self._guard = Guard.of(apis, name)
        self._metrics = metrics
        self._request_log = request_log
        endpoints = {
            endpoint: Endpoint(api, operation, name, describers[api.name])
            for describers in [{api.name: Describer(api.contract) for api in apis}]
            for endpoint, api, operation in _carried(apis, name)
        }
        self.door = None if pressure is None else Door(pressure, _carried(apis, name), metrics.answered)
        self._app = routed(endpoints, self._unrouted, self._wrong_method)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request; after a malformed one the connection ends (see Reply)."""
        exchange = scope[EXCHANGE] = Exchange(scope, receive)
        reply = Reply(exchange, send)
        try:
            if exchange.hosts != 1 and (exchange.hosts or scope["http_version"] != "1.0"):
                scope[FAULT] = True
            if FAULT in scope:
                await self._fault(Fault.MALFORMED, scope["path"], exchange.trace_id).send(reply)
            else:
                scope["path"] = canonical_path(scope["raw_path"])
                refusal = await self._refusal(exchange)
                await (refusal.send(reply) if refusal else self._app(scope, receive, reply))
        except Exception as error:
            if reply.status:
                raise
            log.error("failure outside an operation", exc_info=error, extra={"traceId": exchange.trace_id})
            await self._fault(Fault.FAILURE, scope["path"], exchange.trace_id).send(reply)
        finally:
            # Both hold the scope: left in it, each request would be a cycle that waits for the collector.
            del scope[EXCHANGE]
            if self.door is not None:
                self.door.let_go(scope)
            scope.pop(CONNECTION, None)
            seconds = (reply.ended or time.perf_counter()) - exchange.started
            self._metrics.answered(exchange.operation, reply.status, seconds)
            self._request_log.answered(exchange, self.name, reply.status, seconds)

    async def _refusal(self, exchange: Exchange) -> Rendered | None:
        if self._guard is None or exchange.scope["path"] in self._pages:
            return None
        return await self._guard.refusal(exchange)

    async def _unrouted(self, scope: Scope, _: Receive, send: Send) -> None:
        exchange: Exchange = scope[EXCHANGE]
        page = self._pages.get(scope["path"])
        if page is None:
            rendered = self._fault(Fault.NOT_FOUND, scope["path"], exchange.trace_id)
        elif exchange.method in {"GET", "HEAD"}:
            exchange.operation = "plumbing"
            rendered = page()
        else:
            await self._wrong_method("GET, HEAD", scope, send)
            return
        await rendered.send(send)

    async def _wrong_method(self, allow: str, scope: Scope, send: Send) -> None:
        trace_id = scope[EXCHANGE].trace_id
        await self._fault(Fault.METHOD_NOT_ALLOWED, scope["path"], trace_id, {"Allow": allow}).send(send)

    def _fault(self, fault: Fault, path: str, trace_id: str, headers: Mapping[str, str] | None = None) -> Rendered:
        return entry_answer(self._api_of(path).entry(fault), fault.value, trace_id, headers=headers)

    def _api_of(self, path: str) -> Api:
        return next((api for api in self._apis if api.prefix and path.startswith(api.prefix)), self._apis[0])


def _carried(apis: Sequence[Api], listener: str) -> Iterator[tuple[str, Api, Operation]]:
    """Give the operations that a listener carries, each with the name that it has in metrics and logs."""
    for api in apis:
        for operation in api.operations:
            if listener in operation.listeners:
                yield f"{api.name}.{operation.id}", api, operation

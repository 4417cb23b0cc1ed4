"""The guard of a listener: credentials that are asked of every request, before its path and method are looked at."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Self

from generated.runtime import Authenticator, Problem
from handlers.gateway.answers import Rendered, entry_answer, problem_answer
from handlers.gateway.endpoint import UNAUTHENTICATED, challenges
from handlers.gateway.exchange import Exchange
from handlers.gateway.faults import Api, Fault, storage_fault
from storage.errors import StorageError

log = logging.getLogger("gatehouse.gateway")


class Guard:
    """Lets a request in by the scheme that its document names for that, or tells with what it is refused.

    The principal of one that is let in stays with the exchange, so that its endpoint asks nothing a second time.
    """

    def __init__(self, api: Api, listener: str) -> None:
        scheme = next(each for operation in api.operations for each in operation.schemes if each.name == api.guard)
        self._authenticator: Authenticator[Any] = getattr(api.authenticators, scheme.field)
        self._unauthenticated = api.catalogue[scheme.problem]
        self._documented = frozenset.intersection(*(frozenset(each.problems) for each in api.operations))
        self._challenges = challenges(api, listener)
        self._api = api

    @classmethod
    def of(cls, apis: Sequence[Api], listener: str) -> Self | None:
        """Return the guard of a listener, None where no document has one for it."""
        guarded = (api for api in apis if api.guard is not None and api.schemes[api.guard] == listener)
        return next((cls(api, listener) for api in guarded), None)

    async def refusal(self, exchange: Exchange) -> Rendered | None:
        """Return the answer to a request that is not let in."""
        try:
            return await self._refusal(exchange)
        except StorageError as error:
            log.warning("storage: %s", error, extra={"traceId": exchange.trace_id})
            return self._fault(storage_fault(error), exchange)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            log.error("failure of the guard", exc_info=error, extra={"traceId": exchange.trace_id})
            return self._fault(Fault.FAILURE, exchange)

    async def _refusal(self, exchange: Exchange) -> Rendered | None:
        try:
            exchange.principal = await self._authenticator(exchange)
        except Problem as problem:
            if type(problem) not in self._documented:
                raise
            return problem_answer(problem, exchange.trace_id, headers=self._challenges.get(problem.code))
        if exchange.principal is not None:
            return None
        entry = self._unauthenticated
        return entry_answer(entry, UNAUTHENTICATED, exchange.trace_id, headers=self._challenges.get(entry.code))

    def _fault(self, fault: Fault, exchange: Exchange) -> Rendered:
        return entry_answer(self._api.entry(fault), fault.value, exchange.trace_id)

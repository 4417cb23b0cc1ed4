"""Routing by connexion: the router view that it reads, and the middlewares that it runs."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, TypeAlias
from urllib.parse import quote_from_bytes, unquote_to_bytes

from connexion import ConnexionMiddleware
from connexion.middleware.abstract import ROUTING_CONTEXT, RoutedAPI, RoutedMiddleware
from connexion.middleware.routing import RoutingMiddleware
from connexion.resolver import Resolver
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from generated.runtime import Operation
from handlers.gateway.endpoint import Endpoint

_PARAMETER: Final = re.compile(r"\{[^}]*\}")
_UNRESERVED: Final = "-._~!$&'()*+,;=:@"
# Where shorter paths lead is kept; most requests are for few of them.
_KEPT_PATH: Final = 256

WrongMethod: TypeAlias = Callable[[str, Scope, Send], Awaitable[None]]


def router_view(operations: Mapping[str, Operation]) -> dict[str, Any]:
    """Return the OpenAPI 3.0 document that connexion routes by, with no more than routing needs.

    Concrete paths come first, since the order of declaration decides; validation never uses this view.
    """
    paths: dict[str, dict[str, Any]] = {}
    for name, operation in sorted(operations.items(), key=lambda item: item[1].path.replace("{", "\x7f")):
        path, count = _positional(operation.path)
        parameters = [
            {"name": f"p{i}", "in": "path", "required": True, "schema": {"type": "string"}} for i in range(count)
        ]
        paths.setdefault(path, {})[operation.method.lower()] = {
            "operationId": name,
            "parameters": parameters,
            "responses": {"200": {"description": "see the authored document"}},
        }
    return {"openapi": "3.0.3", "info": {"title": "router view", "version": "0"}, "paths": paths}


def _positional(path: str) -> tuple[str, int]:
    count = 0

    def name(_: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f"{{p{count - 1}}}"

    return _PARAMETER.sub(name, path), count


def canonical_path(raw_path: bytes) -> str:
    """Return the path with one spelling for each segment: what needs no percent-encoding has none, `%2F` stays.

    In the decoded path a slash inside a parameter could not be told from one between segments (RFC 3986, section 2.2).
    Some servers leave the query in the raw path; it is cut off.
    """
    path = raw_path.partition(b"?")[0]
    if b"%" not in path:
        return path.decode("ascii")
    return "/".join(quote_from_bytes(unquote_to_bytes(segment), safe=_UNRESERVED) for segment in path.split(b"/"))


@dataclass(frozen=True, slots=True)
class _OtherMethod:
    """The ASGI application of a path for the methods that it does not carry."""

    answer: WrongMethod
    allow: str

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        await self.answer(self.allow, scope, send)


def _completed(routes: Sequence[Route], answer: WrongMethod) -> list[Route]:
    """Return the routes with one for the other methods of each path.

    It stands right behind the path's own where a parametrised path would take the rest, else at the end.
    """
    near: list[Route] = []
    far: list[Route] = []
    for path, group in groupby(routes, attrgetter("path")):
        own = list(group)
        near += own
        allow = ", ".join(sorted({method for route in own for method in route.methods or ()}))
        shadowed = any(route.path != path and route.path_regex.match(path) for route in routes)
        (near if shadowed else far).append(Route(path, _OtherMethod(answer, allow)))
    return near + far


class _Routing(RoutingMiddleware):  # type: ignore[misc]
    """connexion's routes without redirects, and with a path's own answer to a method that it does not carry.

    They are matched here, one after another. connexion's own way leads through two routers and three copies of the
    scope, which took a fifth of the time of an admitted event.
    """

    def add_api(self, specification: Any, *, wrong_method: WrongMethod, **arguments: Any) -> None:
        super().add_api(specification, **arguments)
        self._routes: list[tuple[Callable[[str], re.Match[str] | None], Collection[str] | None, Any]] = [
            (route.path_regex.match, route.methods, route.app)
            for mount in self.router.routes
            for route in _completed(mount.app.routes, wrong_method)
        ]

        self._known = lru_cache(maxsize=1024)(self._find)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Attach the operation and its path parameters to the scope, for the middleware behind this one."""
        path, method = scope["path"], scope["method"]
        app, parameters = self._known(path, method) if len(path) <= _KEPT_PATH else self._find(path, method)
        if isinstance(app, _OtherMethod):
            await app(scope, receive, send)
            return
        scope["path_params"] = parameters
        context = {"api_base_path": "", "operation_id": None if app is None else app.operation_id}
        scope.setdefault("extensions", {})[ROUTING_CONTEXT] = context
        await self.app(scope, receive, send)

    def _find(self, path: str, method: str) -> tuple[Any, Mapping[str, str]]:
        """Return what answers a path and method, None for nothing, and the path parameters."""
        for match, methods, app in self._routes:
            found = match(path)
            if found is not None and (methods is None or method in methods):
                return app, found.groupdict()
        return None, {}


class _EndpointApi(RoutedAPI):  # type: ignore[misc]
    """Gives each operationId of the router view its endpoint."""

    def __init__(self, specification: Any, *, endpoints: Mapping[str, Endpoint], **arguments: Any) -> None:
        super().__init__(specification, **arguments)
        self._endpoints = endpoints
        self.add_paths()

    def make_operation(self, operation: Any) -> Endpoint:
        return self._endpoints[operation.operation_id]


class _Endpoints(RoutedMiddleware):  # type: ignore[misc]
    api_cls = _EndpointApi


class _NoFunction(Resolver):  # type: ignore[misc]
    """connexion wants a function for each operation; endpoints are found by operationId instead."""

    def resolve_function_from_operation_id(self, operation_id: str) -> Any:
        return partial(str, operation_id)


def routed(endpoints: Mapping[str, Endpoint], unrouted: ASGIApp, wrong_method: WrongMethod) -> ASGIApp:
    """Return connexion's stack: routing, our endpoints.

    `unrouted` gets every other path, `wrong_method` the other methods of a path, with its Allow. connexion's own two
    middlewares for errors would find none that the listener does not answer itself, and each took its time of every
    message.
    """
    app = ConnexionMiddleware(unrouted, middlewares=[_Routing, _Endpoints], resolver=_NoFunction())
    app.add_api(
        router_view({name: endpoint.operation for name, endpoint in endpoints.items()}),
        base_path="",
        endpoints=endpoints,
        wrong_method=wrong_method,
    )
    return app  # type: ignore[no-any-return]

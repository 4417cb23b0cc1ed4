"""Routing by connexion: the router view that it reads, and the middlewares that it runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

from connexion import ConnexionMiddleware
from connexion.middleware.abstract import RoutedAPI, RoutedMiddleware
from connexion.middleware.exceptions import ExceptionMiddleware
from connexion.middleware.routing import RoutingMiddleware
from connexion.middleware.server_error import ServerErrorMiddleware
from connexion.resolver import Resolver
from starlette.types import ASGIApp

from generated.runtime import Operation
from handlers.gateway.endpoint import Endpoint

_PARAMETER: Final = re.compile(r"\{[^}]*\}")
_UNRESERVED: Final = "-._~!$&'()*+,;=:@"


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
    """
    if b"%" not in raw_path:
        return raw_path.decode("ascii")
    return "/".join(quote_from_bytes(unquote_to_bytes(segment), safe=_UNRESERVED) for segment in raw_path.split(b"/"))


class AllowTable:
    """Which methods each path of a listener carries."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        methods: dict[str, set[str]] = {}
        for operation in operations:
            methods.setdefault(operation.path, set()).update(
                {operation.method, "HEAD"} if operation.method == "GET" else {operation.method}
            )
        self._paths = [(_path_pattern(path), ", ".join(sorted(carried))) for path, carried in methods.items()]

    def allow(self, path: str) -> str | None:
        """Return the Allow value of a canonical path, or None where no operation has it."""
        return next((allow for pattern, allow in self._paths if pattern.fullmatch(path)), None)


def _path_pattern(path: str) -> re.Pattern[str]:
    literals = _PARAMETER.split(path)
    return re.compile("[^/]+".join(re.escape(literal) for literal in literals))


class _Routing(RoutingMiddleware):  # type: ignore[misc]
    """connexion's routing without redirects: a path with a needless slash is another path."""

    def add_api(self, specification: Any, **arguments: Any) -> None:
        super().add_api(specification, **arguments)
        self.router.redirect_slashes = False
        for mount in self.router.routes:
            mount.app.redirect_slashes = False


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


def routed(endpoints: Mapping[str, Endpoint], unrouted: ASGIApp, on_method: Any, on_failure: Any) -> ASGIApp:
    """Return connexion's stack: server errors, exceptions, routing, our endpoints; `unrouted` gets every other path."""
    app = ConnexionMiddleware(
        unrouted,
        middlewares=[ServerErrorMiddleware, ExceptionMiddleware, _Routing, _Endpoints],
        resolver=_NoFunction(),
    )
    app.add_api(
        router_view({name: endpoint.operation for name, endpoint in endpoints.items()}),
        base_path="",
        endpoints=endpoints,
    )
    app.add_error_handler(405, on_method)
    app.add_error_handler(Exception, on_failure)
    return app  # type: ignore[no-any-return]

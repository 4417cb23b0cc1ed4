"""Sends the request that the document gives as an operation's example."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from tests.support.contract import APIS, ApiName, guarded, parameters, places, resolved
from tests.support.gatehouse import Gatehouse
from tests.support.wire import Answer


def send_example(server: Gatehouse, operation: str, changes: Mapping[str, str] | None = None) -> Answer:
    """Send an operation's example, with the operator's token where it asks for that, to control or else to join.

    `changes` are values of parameters, by name, that are sent instead of the example's.
    """
    api = next(each for each in APIS if operation in places(each))
    path, method, content, *_ = places(api)[operation]
    values: dict[str, dict[str, str]] = {"path": {}, "query": {}, "header": {}}
    for parameter in parameters(operation, api):
        example = (changes or {}).get(parameter["name"], _text(_example(parameter, api)))
        values[parameter["in"]][parameter["name"]] = example
    target = path.format(**{name: quote(value, safe="") for name, value in values["path"].items()})
    query = f"?{urlencode(values['query'])}" if values["query"] else ""
    token = server.operator if operation in guarded(api) else {}
    kind, body = _body(content, api)
    send = server.send if "control" in content["x-listeners"] else server.send_join
    return send(method, target + query, values["header"] | token | kind, body)


def _body(content: Mapping[str, Any], api: ApiName) -> tuple[dict[str, str], bytes | None]:
    if "requestBody" not in content:
        return {}, None
    media_type, part = next(iter(resolved(content["requestBody"], api)["content"].items()))
    return {"Content-Type": media_type}, json.dumps(_example(part, api)).encode()


def _example(part: Mapping[str, Any], api: ApiName) -> Any:
    if "example" in part:
        return part["example"]
    return resolved(next(iter(part["examples"].values())), api)["value"]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)

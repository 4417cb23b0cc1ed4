"""What brings about each answer of the installer's document."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Final, TypeAlias

from tests.contract.worlds import World
from tests.support.contract import Documented, places
from tests.support.installs import CONFIG, SUCCEEDS, Machine
from tests.support.wire import Answer

ALL: Final = list(places("installer"))
STREAM: Final = "streamInstallEvents"

Cause: TypeAlias = Callable[[World, str], Answer]


def attempt(operation: str, machine: Machine, body: bytes | None = None, kind: str = "application/json") -> Answer:
    """Send a request of the operation that the machine serves; `body` is sent instead of a good one."""
    path, method, content, _ = places("installer")[operation]
    if "requestBody" not in content:
        return machine.operate(method, path)
    return machine.operate(method, path, {"Content-Type": kind}, json.dumps(CONFIG).encode() if body is None else body)


def _in_order(world: World, operation: str) -> Answer:
    """Send what the operation serves, and leave no attempt running."""
    world.machine.plan(SUCCEEDS)
    answer = attempt(operation, world.machine)
    world.machine.ended()
    return answer


def _stream(world: World, _: str) -> Answer:
    with world.machine.stream() as stream:
        return stream.head


def _without_a_config(world: World, operation: str) -> Answer:
    return attempt(operation, world.bare_machine)


def _with_body(body: bytes, kind: str = "application/json") -> Cause:
    return lambda world, operation: attempt(operation, world.machine, body, kind)


def _too_long(world: World, operation: str) -> Answer:
    limit: int = places("installer")[operation].content["requestBody"]["x-body-limit"]
    return attempt(operation, world.machine, b" " * (limit + 1))


def _malformed(world: World, _: str) -> Answer:
    return world.machine.refused("?after=-1")


def _without_code(world: World, operation: str) -> Answer:
    path, method, *_ = places("installer")[operation]
    return world.machine.ask(method, path)


def _by_another_method(world: World, operation: str) -> Answer:
    return world.machine.operate("PATCH", places("installer")[operation].path)


def _while_one_runs(world: World, operation: str) -> Answer:
    with world.machine.writing():
        return attempt(operation, world.machine)


def _while_locked(world: World, operation: str) -> Answer:
    path, method, *_ = places("installer")[operation]
    # One that no other operation's lock makes ready to be used again.
    guesser = f"127.0.0.{100 + ALL.index(operation)}"
    world.machine.lock(guesser)
    return world.machine.operate(method, path, source=guesser)


def _where_it_is_spoiled(world: World, operation: str) -> Answer:
    return attempt(operation, world.spoiled_machine)


TABLE: Final[list[tuple[Collection[str], int, str, Cause]]] = [
    (["getConfig", "putConfig", "getInstall"], 200, "", _in_order),
    ([STREAM], 200, "", _stream),
    (["startInstall"], 202, "", _in_order),
    (["putConfig"], 400, "INVALID_CONFIG", _with_body(b'{"role":')),
    (["startInstall"], 400, "INVALID_CONFIG", _without_a_config),
    ([STREAM], 400, "INVALID_REQUEST", _malformed),
    (ALL, 401, "INSTALL_CODE_REFUSED", _without_code),
    (["getConfig"], 404, "CONFIG_NOT_SET", _without_a_config),
    (set(ALL) - {STREAM}, 405, "METHOD_NOT_ALLOWED", _by_another_method),
    (["putConfig", "startInstall"], 409, "INSTALL_RUNNING", _while_one_runs),
    (["putConfig"], 413, "BODY_TOO_LARGE", _too_long),
    (["putConfig"], 415, "UNSUPPORTED_MEDIA_TYPE", _with_body(b"{}", "text/plain")),
    (ALL, 429, "INSTALL_CODE_LOCKED", _while_locked),
    (ALL, 500, "INTERNAL", _where_it_is_spoiled),
]

CAUSES: Final = {
    Documented(operation, status, code): cause for names, status, code, cause in TABLE for operation in names
}

"""What brings about each answer of the join's document."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any, Final, TypeAlias

from tests.contract.worlds import World
from tests.support.contract import Documented, guarded, places, stored
from tests.support.nodes import Node, request_of, step
from tests.support.wire import Answer
from tools.authority import new_key

UNKNOWN: Final = "019d9079-e78a-7c31-8f02-6b1d4e9a5c77"

ALL: Final = list(places("join"))
GUARDED: Final = guarded("join")
STORED: Final = stored("join")
WITH_BODY: Final = [name for name, place in places("join").items() if "requestBody" in place.content]
OF_A_JOIN: Final = [name for name, place in places("join").items() if "{joinId}" in place.path]
# What is open to a node alone, on the join listener; getRegistration is open to the operator, too.
BY_NODE: Final = [name for name, place in places("join").items() if place.content["x-listeners"] == ["join"]]


Cause: TypeAlias = Callable[[World, str], Answer]


def _target(operation: str, join_id: str = UNKNOWN, token_id: str = UNKNOWN) -> str:
    return places("join")[operation].path.format(joinId=join_id, tokenId=token_id)


def _value(operation: str, node: Node) -> Any:
    values: dict[str, Any] = {
        "mintJoinToken": {},
        "register": node.request(),
        "renewCertificate": {"csr": request_of(node.key)},
        "rejectNodeJoin": {"reason": "A test wants it."},
        "reportJoinEvents": {"events": [step("services", "running")]},
    }
    return values.get(operation)


def attempt(operation: str, node: Node) -> Answer:
    """Send a request of the operation that the server of `node` serves, about that node or its token."""
    value = _value(operation, node)
    return _send(operation, node, None if value is None else json.dumps(value).encode())


def _send(operation: str, node: Node, body: bytes | None, kind: str = "application/json") -> Answer:
    server, method = node.server, places("join")[operation].method
    target = _target(operation, node.join_id or UNKNOWN, node.minted.get("tokenId", UNKNOWN))
    fields = {} if body is None else {"Content-Type": kind}
    if operation == "register":
        return server.send_join(method, target, fields | {"Authorization": f"Bearer {node.minted['token']}"}, body)
    if operation in BY_NODE:
        return node.send(method, target, fields, body)
    return server.send(method, target, server.operator | fields, body)


def _pending(world: World) -> Node:
    return Node.registered(world.founder)


def _newcomer(world: World) -> Node:
    node = Node(world.founder)
    node.minted = world.founder.mint()
    return node


def _ended(world: World) -> Node:
    node = _pending(world)
    assert world.founder.reject(node.join_id).status == 200
    return node


def _in_order(world: World, operation: str) -> Answer:
    """Send what the operation serves, and leave no turn behind."""
    if operation == "register":
        return attempt(operation, _newcomer(world))
    node = Node.in_turn(world.founder) if operation == "reportJoinEvents" else _pending(world)
    answer = attempt(operation, node)
    node.leave()
    return answer


def _again(world: World, operation: str) -> Answer:
    return attempt(operation, _pending(world))


def _without_credential(world: World, operation: str) -> Answer:
    place = places("join")[operation]
    send = world.founder.send_join if operation in BY_NODE else world.founder.send
    return send(place.method, _target(operation))


def _by_another_method(world: World, operation: str) -> Answer:
    send = world.founder.send_join if operation in BY_NODE else world.founder.send
    return send("PATCH", _target(operation))


def _of_nothing(world: World, operation: str) -> Answer:
    return attempt(operation, Node(world.founder))


def _with_body(body: Callable[[str], bytes], kind: str = "application/json") -> Cause:
    def cause(world: World, operation: str) -> Answer:
        return _send(operation, _pending(world), body(operation), kind)

    return cause


def _too_long(operation: str) -> bytes:
    limit: int = places("join")[operation].content["requestBody"]["x-body-limit"]
    return b" " * (limit + 1)


def _with_query(query: str) -> Cause:
    def cause(world: World, operation: str) -> Answer:
        return world.founder.operate("GET", f"{_target(operation, _pending(world).join_id)}?{query}")

    return cause


def _with_a_name_that_is_taken(world: World, _: str) -> Answer:
    taken = _pending(world)
    name = world.founder.registration(taken.join_id)["name"]
    newcomer = _newcomer(world)
    answer = newcomer.register(newcomer.minted["token"], name=name)
    taken.leave()
    return answer


def _of_an_address_that_is_taken(world: World, _: str) -> Answer:
    taken, node = _pending(world), _pending(world)
    address = world.founder.registration(taken.join_id)["address"]
    answer = world.founder.approve(node.join_id, address=address)
    taken.leave()
    node.leave()
    return answer


def _for_another_key(world: World, _: str) -> Answer:
    return _pending(world).renew(new_key())


def _after_the_end(world: World, operation: str) -> Answer:
    return attempt(operation, _ended(world))


def _before_the_turn(world: World, operation: str) -> Answer:
    return attempt(operation, _pending(world))


def _backwards(world: World, _: str) -> Answer:
    node = Node.in_turn(world.founder)
    answer = node.report(step("services", "done"), step("services", "running"))
    node.leave()
    return answer


def _another_batch_under_the_key(world: World, _: str) -> Answer:
    node = Node.in_turn(world.founder)
    assert node.report(key="a-key").status == 204
    answer = node.report(step("services", "running"), key="a-key")
    node.leave()
    return answer


def _where_it_is_spoiled(world: World, operation: str) -> Answer:
    server, _ = world.spoiled
    return attempt(operation, world.node_of(server))


def _where_the_database_is_away(world: World, operation: str) -> Answer:
    return attempt(operation, world.node_of(world.away))


TABLE: Final[list[tuple[Collection[str], int, str, Cause]]] = [
    (["mintJoinToken", "register"], 201, "", _in_order),
    (["register"], 200, "", _again),
    (["revokeJoinToken", "reportJoinEvents"], 204, "", _in_order),
    (
        [
            "listRegistrations",
            "getRegistration",
            "renewCertificate",
            "approveNodeJoin",
            "rejectNodeJoin",
            "getJoinLog",
        ],
        200,
        "",
        _in_order,
    ),
    (WITH_BODY, 400, "INVALID_INPUT", _with_body(lambda _: b'{"name":')),
    (["listRegistrations"], 400, "INVALID_INPUT", _with_query("state=asleep")),
    (["getJoinLog"], 400, "INVALID_INPUT", _with_query("after=-1")),
    ([*GUARDED, "register"], 401, "UNAUTHENTICATED", _without_credential),
    ([*OF_A_JOIN, "revokeJoinToken"], 404, "NOT_FOUND", _of_nothing),
    (set(ALL) - {"reportJoinEvents"}, 405, "METHOD_NOT_ALLOWED", _by_another_method),
    (["register"], 409, "JOIN_NAME_TAKEN", _with_a_name_that_is_taken),
    (["approveNodeJoin"], 409, "JOIN_APPROVAL_REFUSED", _of_an_address_that_is_taken),
    (["approveNodeJoin", "rejectNodeJoin"], 409, "JOIN_STATE_CONFLICT", _after_the_end),
    (["renewCertificate"], 409, "JOIN_KEY_MISMATCH", _for_another_key),
    (["renewCertificate", "reportJoinEvents"], 409, "JOIN_ENDED", _after_the_end),
    (["reportJoinEvents"], 409, "JOIN_NOT_IN_TURN", _before_the_turn),
    (["reportJoinEvents"], 409, "JOIN_STEP_ORDER", _backwards),
    (["reportJoinEvents"], 409, "IDEMPOTENCY_KEY_REUSED", _another_batch_under_the_key),
    (WITH_BODY, 413, "BODY_TOO_LARGE", _with_body(_too_long)),
    (WITH_BODY, 415, "UNSUPPORTED_MEDIA_TYPE", _with_body(lambda _: b"{}", "text/plain")),
    (STORED, 500, "INTERNAL", _where_it_is_spoiled),
    (STORED, 503, "UNAVAILABLE", _where_the_database_is_away),
]

CAUSES: Final = {
    Documented(operation, status, code): cause for names, status, code, cause in TABLE for operation in names
}

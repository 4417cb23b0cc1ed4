"""Two small documents with hand-made tables in the shape of generated/, and the shop that serves them.

`shop` has the coordinator's problem shape; `join` has join's, under the prefix /v1/join/. Both listeners are named
after real ones: `control` takes the operator's token, `join` a client certificate.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from msgspec import UNSET, Struct, UnsetType

from generated.runtime import Answer, Body, Incoming, Operation, Parameter, Problem, Scheme
from handlers.gateway.faults import Api, Fault

TOKEN = "let-me-in"
LIMIT = 4_096
LARGE_LIMIT = 262_144

_INTEGER = {"type": "integer", "minimum": 1, "maximum": 100}


def _parameter(name: str, location: str, schema: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "in": location, "required": location == "path", "schema": dict(schema), **more}


def _json_body(reference: str, **more: Any) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{reference}"}}}, **more}


def _problem_schema(trace_member: str, **more: Any) -> dict[str, Any]:
    text = {"type": "string"}
    members = {"code": text, "detail": text, "status": {"type": "integer"}, "title": text, "type": text}
    return {"type": "object", "properties": {**members, trace_member: text, **more}}


def _closed(required: Sequence[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _codes(*rows: tuple[str, int, dict[str, Any]]) -> Sequence[tuple[str, int, dict[str, Any]]]:
    return rows


SHOP_CONTRACT: dict[str, Any] = {
    "openapi": "3.1.1",
    "info": {"title": "The shop", "version": "1.0.0"},
    "paths": {
        "/v1/items/{item-id}": {
            "parameters": [_parameter("item-id", "path", {"type": "string", "maxLength": 40})],
            "get": {},
            "put": {"requestBody": _json_body("Item", required=True)},
            "post": {"requestBody": _json_body("Note")},
        },
        "/v1/items/special": {"get": {}, "delete": {}},
        "/v1/items": {
            "get": {
                "parameters": [
                    _parameter("limit", "query", {**_INTEGER, "default": 20}),
                    _parameter("kind", "query", {"type": "string", "enum": ["old", "new"]}),
                    _parameter("deep", "query", {"type": "boolean", "default": False}),
                    _parameter("offset", "query", {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}),
                    _parameter("X-Flavour", "header", {"type": "string", "pattern": "^[a-z]+$"}),
                    _parameter("X-Count", "header", _INTEGER),
                ]
            }
        },
        "/v1/parts/{part}/of/{item-id}/{a.b}": {
            "get": {
                "parameters": [
                    # On purpose in another order than in the path.
                    _parameter("a.b", "path", {"type": "integer", "minimum": 1, "maximum": 9}),
                    _parameter("part", "path", {"type": "string"}),
                    _parameter("item-id", "path", {"type": "string"}),
                ]
            }
        },
        "/v1/sealed": {"post": {"requestBody": _json_body("Item", required=True)}},
        "/v1/uploads": {"post": {"requestBody": _json_body("Anything", required=True)}},
        "/v1/settings": {
            "put": {
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/Note"}},
                        "application/yaml": {"schema": {"type": "string", "maxLength": 100}},
                    },
                }
            }
        },
    },
    "components": {
        "schemas": {
            "Problem": _problem_schema("traceId"),
            "Anything": {},
            "Note": _closed(["text"], text={"type": "string", "minLength": 1, "maxLength": 10}),
            "Label": _closed(["name"], name={"type": "string", "pattern": "^[a-z]+$"}),
            "Item": _closed(
                ["name", "count"],
                name={"type": "string", "minLength": 1, "maxLength": 64},
                count={"type": "integer", "minimum": 0, "maximum": 1_000_000},
                labels={
                    "type": "array",
                    "maxItems": 3,
                    "uniqueItems": True,
                    "items": {"$ref": "#/components/schemas/Label"},
                },
            ),
        }
    },
    "x-problems": {
        code: {"status": status, "title": f"Title of {code}", "type": f"https://shop.test/{code}", **more}
        for code, status, more in _codes(
            ("request.invalid", 400, {}),
            ("request.limit-out-of-range", 400, {}),
            ("item.invalid", 400, {}),
            ("item.sealed", 400, {}),
            ("authentication.refused", 401, {"headers": {"WWW-Authenticate": 'Bearer realm="shop"'}}),
            ("certificate.refused", 401, {"headers": {"WWW-Authenticate": 'Bearer realm="node"'}}),
            ("request.not-found", 404, {}),
            ("item.unknown", 404, {}),
            ("request.method-not-allowed", 405, {"headers": {"Allow": None}}),
            ("item.conflict", 409, {"headers": {"X-Holder": None}}),
            ("request.body-too-large", 413, {}),
            ("request.unsupported-media-type", 415, {}),
            ("runtime.failure", 500, {}),
            ("service.unavailable", 503, {"headers": {"Retry-After": 5}}),
            ("audit.response-unavailable", 503, {"headers": {"Retry-After": 5}}),
        )
    },
}

JOIN_CONTRACT: dict[str, Any] = {
    "openapi": "3.1.1",
    "info": {"title": "Joining", "version": "1.0.0"},
    "paths": {
        "/v1/join/nodes": {
            "post": {
                "parameters": [_parameter("wait", "query", {"type": "integer", "minimum": 0, "maximum": 60})],
                "requestBody": _json_body("Node", required=True),
            }
        },
        "/v1/join/nodes/{nodeId}": {"get": {"parameters": [_parameter("nodeId", "path", {"type": "string"})]}},
    },
    "components": {
        "schemas": {
            "Problem": _problem_schema("requestId", errors={"type": "array"}),
            "Node": {
                "type": "object",
                "required": ["name", "links"],
                "properties": {
                    "name": {"type": "string", "minLength": 1},
                    "links": {"type": "array", "items": {"$ref": "#/components/schemas/Link"}},
                },
            },
            "Link": {
                "type": "object",
                "required": ["interface"],
                "properties": {"interface": {"type": "string", "maxLength": 15}},
            },
        }
    },
    "x-problems": {
        code: {
            "status": status,
            "title": f"Title of {code}",
            "type": f"urn:test:problem:join:{code.lower().replace('_', '-')}",
            **more,
        }
        for code, status, more in _codes(
            ("INVALID_INPUT", 400, {"members": ["errors"]}),
            ("UNAUTHENTICATED", 401, {"headers": {"WWW-Authenticate": None}}),
            ("NOT_FOUND", 404, {}),
            ("METHOD_NOT_ALLOWED", 405, {"headers": {"Allow": None}}),
            ("BODY_TOO_LARGE", 413, {}),
            ("UNSUPPORTED_MEDIA_TYPE", 415, {}),
            ("INTERNAL", 500, {}),
            ("UNAVAILABLE", 503, {"headers": {"Retry-After": 5}}),
        )
    },
}


def _problem_class(contract: Mapping[str, Any], code: str) -> type[Problem]:
    entry = contract["x-problems"][code]
    members = {name: entry[name] for name in ("status", "title", "type")}
    trace_member = "traceId" if contract is SHOP_CONTRACT else "requestId"
    return type(code, (Problem,), {**members, "code": code, "trace_member": trace_member})


_SHOP = {code: _problem_class(SHOP_CONTRACT, code) for code in SHOP_CONTRACT["x-problems"]}
_JOIN = {code: _problem_class(JOIN_CONTRACT, code) for code in JOIN_CONTRACT["x-problems"]}
ItemUnknown = _SHOP["item.unknown"]
ItemConflict = _SHOP["item.conflict"]
Undocumented = _SHOP["item.sealed"]
InvalidInput = _JOIN["INVALID_INPUT"]
Unauthenticated = _JOIN["UNAUTHENTICATED"]


class Label(Struct, frozen=True, kw_only=True):
    name: str


class Item(Struct, frozen=True, kw_only=True):
    name: str
    count: int
    labels: list[Label] | UnsetType = UNSET


class Note(Struct, frozen=True, kw_only=True):
    text: str


class Link(Struct, frozen=True, kw_only=True):
    interface: str


class Node(Struct, frozen=True, kw_only=True):
    name: str
    links: list[Link]


class FieldError(Struct, frozen=True, kw_only=True):
    field: str
    message: str


class Echo(Struct, frozen=True, kw_only=True):
    """What a handler was given, so that a test can see it from outside."""

    values: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorToken:
    """The operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCertificate:
    """A node with a certificate."""

    chain: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListItems:
    principal: OperatorToken
    limit: int = 20
    kind: Literal["old", "new"] | UnsetType = UNSET
    deep: bool = False
    offset: int | UnsetType = UNSET
    x_flavour: str | UnsetType = UNSET
    x_count: int | UnsetType = UNSET
    trace_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """The request of an operation without parameters, credentials and body."""

    trace_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OfItem:
    item_id: str
    trace_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PutItem:
    principal: OperatorToken
    item_id: str
    body: Item
    raw_body: bytes
    trace_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteItem:
    item_id: str
    body: Note | UnsetType = UNSET
    raw_body: bytes = b""
    trace_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetPart:
    a_b: int
    part: str
    item_id: str
    trace_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    body: Item
    raw_body: bytes
    trace_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    body: Any
    raw_body: bytes
    trace_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PutSettings:
    body: Note | str
    raw_body: bytes
    content_type: Literal["application/json", "application/yaml"]
    trace_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowDoor:
    principal: OperatorToken | ClientCertificate
    trace_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    principal: ClientCertificate
    wait: int | UnsetType = UNSET
    body: Node
    raw_body: bytes
    trace_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetNode:
    principal: OperatorToken | ClientCertificate
    node_id: str
    trace_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ok:
    status: ClassVar[Literal[200]] = 200
    body: Echo


@dataclass(frozen=True, slots=True, kw_only=True)
class OkYaml:
    status: ClassVar[Literal[200]] = 200
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    status: ClassVar[Literal[201]] = 201
    body: Echo
    location: str
    x_revision: int
    x_note: str | UnsetType = UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    status: ClassVar[Literal[202]] = 202
    location: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoContent:
    status: ClassVar[Literal[204]] = 204
    x_item: str


OPERATOR = Scheme(
    name="operatorToken", field="operator_token", problem="authentication.refused", header="Authorization"
)
CERTIFICATE = Scheme(name="clientCertificate", field="client_certificate", problem="certificate.refused")
JOIN_OPERATOR = Scheme(name="operatorToken", field="operator_token", problem="UNAUTHENTICATED", header="Authorization")
JOIN_CERTIFICATE = Scheme(name="clientCertificate", field="client_certificate", problem="NOT_FOUND")

OK = Answer(response=Ok, status=200, media_type="application/json", headers=(), content="body")
OK_YAML = Answer(response=OkYaml, status=200, media_type="application/yaml", headers=(), content="body")
CREATED = Answer(
    response=Created,
    status=201,
    media_type="application/json",
    headers=(("Location", "location"), ("X-Revision", "x_revision"), ("X-Note", "x_note")),
    content="body",
)
ACCEPTED = Answer(response=Accepted, status=202, media_type=None, headers=(("Location", "location"),), content="none")
NO_CONTENT = Answer(response=NoContent, status=204, media_type=None, headers=(("X-Item", "x_item"),), content="none")


def _pointer(*parts: str | int) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def _parameters(
    contract: Mapping[str, Any], path: str, method: str, problems: Mapping[str, str], *, shared: bool = False
) -> tuple[Parameter, ...]:
    places = ("paths", path, "parameters") if shared else ("paths", path, method, "parameters")
    found: Any = contract
    for place in places:
        found = found[place]
    return tuple(
        Parameter(
            name=each["name"],
            location=each["in"],
            field=each["name"].lower().replace("-", "_").replace(".", "_").replace("nodeid", "node_id"),
            kind=each["schema"]["type"],
            required=each["required"],
            pointer=_pointer(*places, index, "schema"),
            problem=problems.get(each["name"]),
            default=each["schema"].get("default"),
        )
        for index, each in enumerate(found)
    )


def _body(path: str, method: str, model: Any, media_types: Sequence[str] = ("application/json",), **more: Any) -> Body:
    defaults = {"required": True, "limit": LIMIT, "canonical": False, "problem": None}
    pointers = {each: _pointer("paths", path, method, "requestBody", "content", each, "schema") for each in media_types}
    return Body(**{**defaults, **more}, media_types=pointers, model=model)


_GENERAL = ("request.invalid", "runtime.failure", "service.unavailable", "audit.response-unavailable")
_WITH_BODY = (*_GENERAL, "request.body-too-large", "request.unsupported-media-type")
_JOIN_CODES = tuple(_JOIN.values())


def _shop(
    name: str,
    method: str,
    path: str,
    request: type,
    answers: Sequence[Answer],
    *,
    codes: Sequence[str] = _GENERAL,
    schemes: Sequence[Scheme] = (),
    parameters: Sequence[Parameter] = (),
    body: Body | None = None,
    listeners: Sequence[str] = ("control",),
) -> Operation:
    head, *tail = name.split("_")
    return Operation(
        id=head + "".join(word.capitalize() for word in tail),
        name=name,
        method=method,
        path=path,
        listeners=tuple(listeners),
        schemes=tuple(schemes),
        parameters=tuple(parameters),
        body=body,
        request=request,
        answers=tuple(answers),
        problems=tuple(_SHOP.get(code) or _JOIN[code] for code in codes),
    )


_ITEM = "/v1/items/{item-id}"
_OF_ITEM = _parameters(SHOP_CONTRACT, _ITEM, "get", {"item-id": "item.unknown"}, shared=True)
_PART = "/v1/parts/{part}/of/{item-id}/{a.b}"

SHOP_OPERATIONS = (
    # Parametrised paths come first on purpose: concrete ones win whatever the order.
    _shop("show_item", "GET", _ITEM, OfItem, [OK], codes=[*_GENERAL, "item.unknown"], parameters=_OF_ITEM),
    _shop(
        "put_item",
        "PUT",
        _ITEM,
        PutItem,
        [CREATED, OK, NO_CONTENT],
        codes=[*_WITH_BODY, "item.unknown", "item.invalid", "item.conflict", "authentication.refused"],
        schemes=[OPERATOR],
        parameters=_OF_ITEM,
        body=_body(_ITEM, "put", Item, problem="item.invalid"),
    ),
    _shop(
        "note_item",
        "POST",
        _ITEM,
        NoteItem,
        [ACCEPTED],
        codes=[*_WITH_BODY, "item.unknown"],
        parameters=_OF_ITEM,
        body=_body(_ITEM, "post", Note, required=False),
    ),
    _shop("show_special", "GET", "/v1/items/special", Open, [OK]),
    _shop("drop_special", "DELETE", "/v1/items/special", Open, [NO_CONTENT]),
    _shop(
        "list_items",
        "GET",
        "/v1/items",
        ListItems,
        [OK],
        codes=[*_GENERAL, "request.limit-out-of-range", "authentication.refused"],
        schemes=[OPERATOR],
        parameters=_parameters(SHOP_CONTRACT, "/v1/items", "get", {"limit": "request.limit-out-of-range"}),
    ),
    _shop("get_part", "GET", _PART, GetPart, [OK], parameters=_parameters(SHOP_CONTRACT, _PART, "get", {})),
    _shop(
        "seal",
        "POST",
        "/v1/sealed",
        Seal,
        [NO_CONTENT],
        # Without 415, as admitEvent: another media type is the general 400.
        codes=[*_GENERAL, "request.body-too-large", "item.sealed"],
        body=_body("/v1/sealed", "post", Item, canonical=True, problem="item.sealed"),
    ),
    _shop(
        "upload",
        "POST",
        "/v1/uploads",
        Upload,
        [OK],
        codes=_WITH_BODY,
        body=_body("/v1/uploads", "post", Any, limit=LARGE_LIMIT),
    ),
    _shop(
        "put_settings",
        "PUT",
        "/v1/settings",
        PutSettings,
        [OK],
        codes=_WITH_BODY,
        body=_body("/v1/settings", "put", Note | str, ["application/json", "application/yaml"]),
    ),
    _shop("export", "GET", "/v1/export", Open, [OK_YAML]),
    _shop("misbehave", "GET", "/v1/misbehave", Open, [OK], codes=[*_GENERAL, "item.conflict"]),
    _shop("frail", "GET", "/v1/frail", Open, [OK], codes=["runtime.failure"]),
    _shop(
        "show_door",
        "GET",
        "/v1/door",
        ShowDoor,
        [OK],
        codes=[*_GENERAL, "authentication.refused", "certificate.refused"],
        schemes=[CERTIFICATE, OPERATOR],
        listeners=["control", "join"],
    ),
    _shop("close_door", "DELETE", "/v1/door", Open, [NO_CONTENT], listeners=["join"]),
)

JOIN_OPERATIONS = (
    _shop(
        "register",
        "POST",
        "/v1/join/nodes",
        Register,
        [CREATED],
        codes=list(_JOIN),
        schemes=[JOIN_CERTIFICATE],
        parameters=_parameters(JOIN_CONTRACT, "/v1/join/nodes", "post", {}),
        body=_body("/v1/join/nodes", "post", Node),
        listeners=["join"],
    ),
    _shop(
        "get_node",
        "GET",
        "/v1/join/nodes/{nodeId}",
        GetNode,
        [OK],
        codes=list(_JOIN),
        schemes=[JOIN_CERTIFICATE, JOIN_OPERATOR],
        parameters=_parameters(JOIN_CONTRACT, "/v1/join/nodes/{nodeId}", "get", {}),
        listeners=["control", "join"],
    ),
)

SHOP_FAULTS: Mapping[Fault, Sequence[str]] = {
    Fault.NOT_FOUND: ["request.not-found"],
    Fault.METHOD_NOT_ALLOWED: ["request.method-not-allowed"],
    Fault.MALFORMED: ["request.invalid"],
    Fault.PARAMETERS: ["request.invalid"],
    Fault.MEDIA_TYPE: ["request.unsupported-media-type", "request.invalid"],
    Fault.BODY: ["request.invalid"],
    Fault.TOO_LARGE: ["request.body-too-large"],
    Fault.FAILURE: ["runtime.failure"],
    Fault.UNAVAILABLE: ["service.unavailable", "runtime.failure"],
    Fault.OVERLOADED: ["service.unavailable", "runtime.failure"],
    Fault.AUDIT_UNAVAILABLE: ["audit.response-unavailable", "service.unavailable", "runtime.failure"],
}

JOIN_FAULTS: Mapping[Fault, Sequence[str]] = {
    Fault.NOT_FOUND: ["NOT_FOUND"],
    Fault.METHOD_NOT_ALLOWED: ["METHOD_NOT_ALLOWED"],
    Fault.MALFORMED: ["INVALID_INPUT"],
    Fault.PARAMETERS: ["INVALID_INPUT"],
    Fault.MEDIA_TYPE: ["UNSUPPORTED_MEDIA_TYPE"],
    Fault.BODY: ["INVALID_INPUT"],
    Fault.TOO_LARGE: ["BODY_TOO_LARGE"],
    Fault.FAILURE: ["INTERNAL"],
    Fault.UNAVAILABLE: ["UNAVAILABLE"],
    Fault.OVERLOADED: ["UNAVAILABLE"],
    Fault.AUDIT_UNAVAILABLE: ["UNAVAILABLE"],
}


class Shop:
    """The handlers of both documents, and who may call them.

    `stored` is every body that came through, `misdeed` what misbehave does, `target`, `client` and `tls` what was last
    seen of a request that needs credentials.
    """

    def __init__(self) -> None:
        self.stored: list[Any] = []
        self.target = b""
        self.client = ""
        self.tls: Mapping[str, Any] | None = None
        self.misdeed: Callable[[], Awaitable[Any]] = self.behave

    async def behave(self) -> Ok:
        return Ok(body=Echo(values={}))

    async def show_item(self, request: OfItem) -> Ok:
        if request.item_id == "unknown":
            raise ItemUnknown("There is no such item.")
        return Ok(body=Echo(values={"itemId": request.item_id}))

    async def put_item(self, request: PutItem) -> Created | Ok | NoContent:
        self.stored.append(request.body)
        echo = Echo(values={"name": request.body.name, "count": request.body.count})
        match request.item_id:
            case "new":
                return Created(body=echo, location="/v1/items/new", x_revision=1)
            case "noted":
                return Created(body=echo, location="/v1/items/noted", x_revision=1, x_note="caf\xe9")
            case "quiet":
                return NoContent(x_item="quiet")
            case "held":
                raise ItemConflict("Another one holds the item.", headers={"X-Holder": "somebody"})
        return Ok(body=echo)

    async def note_item(self, request: NoteItem) -> Accepted:
        self.stored.append(request.body)
        return Accepted(location="/v1/items/unset" if request.body is UNSET else f"/v1/items/{request.body.text}")

    async def show_special(self, _: Open) -> Ok:
        return Ok(body=Echo(values={"special": True}))

    async def drop_special(self, _: Open) -> NoContent:
        return NoContent(x_item="special")

    async def list_items(self, request: ListItems) -> Ok:
        names = ("limit", "kind", "deep", "offset", "x_flavour", "x_count")
        given = {name: getattr(request, name) for name in names}
        return Ok(body=Echo(values={name: value for name, value in given.items() if value is not UNSET}))

    async def get_part(self, request: GetPart) -> Ok:
        return Ok(body=Echo(values={"a.b": request.a_b, "part": request.part, "item-id": request.item_id}))

    async def seal(self, request: Seal) -> NoContent:
        self.stored.append(request.body)
        return NoContent(x_item=request.body.name)

    async def upload(self, request: Upload) -> Ok:
        self.stored.append(request.body)
        return Ok(body=Echo(values={"bytes": len(request.raw_body)}))

    async def put_settings(self, request: PutSettings) -> Ok:
        self.stored.append(request.body)
        text = request.body if isinstance(request.body, str) else request.body.text
        return Ok(body=Echo(values={"contentType": request.content_type, "text": text}))

    async def export(self, _: Open) -> OkYaml:
        return OkYaml(body="name: caf\xe9\n")

    async def misbehave(self, _: Open) -> Any:
        return await self.misdeed()

    async def frail(self, _: Open) -> Any:
        return await self.misdeed()

    async def show_door(self, request: ShowDoor) -> Ok:
        return Ok(body=Echo(values={"principal": type(request.principal).__name__}))

    async def close_door(self, _: Open) -> NoContent:
        return NoContent(x_item="door")

    async def register(self, request: Register) -> Created:
        self.stored.append(request.body)
        if request.body.name == "refused":
            raise InvalidInput("Refused.", members={"errors": [FieldError(field="name", message="is refused")]})
        if request.body.name == "stranger":
            raise Unauthenticated("The token is none.")
        return Created(body=Echo(values={"name": request.body.name}), location="/v1/join/nodes/1", x_revision=1)

    async def get_node(self, request: GetNode) -> Ok:
        return Ok(body=Echo(values={"nodeId": request.node_id, "principal": type(request.principal).__name__}))

    def _see(self, incoming: Incoming) -> None:
        self.target, self.client, self.tls = incoming.target, incoming.client, incoming.tls

    async def operator_token(self, incoming: Incoming) -> OperatorToken | None:
        self._see(incoming)
        given = [value for name, value in incoming.headers if name == b"authorization"]
        expected = f"Bearer {TOKEN}".encode()
        return OperatorToken() if len(given) == 1 and hmac.compare_digest(given[0], expected) else None

    async def client_certificate(self, incoming: Incoming) -> ClientCertificate | None:
        self._see(incoming)
        chain = incoming.tls["client_cert_chain"] if incoming.tls else []
        return ClientCertificate(chain=len(chain)) if chain else None


def small_apis(shop: Shop) -> list[Api]:
    """Return both documents with the shop behind them, as a listener takes them."""
    schemes = {"operatorToken": "control", "clientCertificate": "join"}
    return [
        Api(
            name=name,
            prefix=prefix,
            contract=contract,
            operations=operations,
            service=shop,
            authenticators=shop,
            schemes=schemes,
            faults=faults,
            shed={operation.id for operation in operations if operation.method not in {"GET", "HEAD"}},
        )
        for name, prefix, contract, operations, faults in [
            ("shop", "", SHOP_CONTRACT, SHOP_OPERATIONS, SHOP_FAULTS),
            ("join", "/v1/join/", JOIN_CONTRACT, JOIN_OPERATIONS, JOIN_FAULTS),
        ]
    ]

"""The admission of events as an experienced user writes it on FastAPI, pydantic and SQLModel.

The tables are Gatehouse's own, so that both write the same rows. BENCH_DATABASE and BENCH_KEY name the files it needs.
"""

import base64
import hashlib
import hmac
import json
import os
import re
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Self, cast
from uuid import UUID

import rfc8785
from fastapi import Depends, FastAPI, Header, Request, Response
from fastapi import Path as PathParameter
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from sqlmodel import Session, col, or_, select

from storage.tables import METADATA, AdmissionRow, AuditHeadRow, AuditRow, OutboxRow, PackageRow, RunRow, SwitchRow
from tools.bench.peers.fastapi_database import durable_engine

BODY_LIMIT: Final = 1_048_576
EVENT_LIMIT: Final = 131_072
SIGNED_LIMIT: Final = 32_768
DEPTH_LIMIT: Final = 64
DELIVERY_WINDOW: Final = 30.0
PAIR: Final = ("case-follow-up", "case-created")
TRIGGER: Final = ("urn:gatehouse:demo", "case-created-v1", "urn:gatehouse:demo:case-created-v1")
DEADLINE_MS: Final = 86_400_000
SIGNED_HEADERS: Final = (
    "ce-id", "ce-source", "ce-type", "ce-time", "ce-dataschema",
    "x-registry-event-generation", "x-registry-delivery-attempt", "x-registry-delivery-time",
)  # fmt: skip
NODE: Final = "local"
PACKAGE_DIGEST: Final = f"sha256:{'a' * 64}"
DEFINITION_DIGEST: Final = f"sha256:{'d' * 64}"
BINDING_DIGEST: Final = f"sha256:{'b' * 64}"
DUMMY_KEYS: Final = (secrets.token_bytes(32), secrets.token_bytes(32))
KEY: Final = Path(os.environ["BENCH_KEY"]).read_bytes()
VISIBLE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
SIGNATURE: Final = re.compile(r"v1=[A-Za-z0-9_-]{43}")
DELIVERY_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{0,8}[1-9])?Z")
EVENT_TIME: Final = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{0,2}[1-9])?Z$"
UUID_TEXT: Final = r"^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"
COUNTER: Final = r"^[1-9][0-9]{0,18}$"


class Problem(Exception):
    """A refusal with its code."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status = status
        self.code = code


def a_real_time(text: str) -> str:
    """The text again; raises ValueError for a date or time of day that does not exist."""
    datetime.fromisoformat(text)
    return text


UuidText = Annotated[str, Field(pattern=UUID_TEXT)]
EventTime = Annotated[str, Field(pattern=EVENT_TIME), AfterValidator(a_real_time)]


class Closed(BaseModel):
    """An object that takes no member it does not know and no value of a neighbouring type."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Causation(Closed):
    hop: int = Field(ge=0, le=8)
    # The default is not validated: absent is allowed, null is not.
    parent: UuidText = cast(str, None)
    root: UuidText


class RecordSubject(Closed):
    reference: str = Field(alias="recordReference")
    revision: int = Field(alias="recordRevision", ge=1, le=2**53 - 1)


class HookEnvelope(Closed):
    causation: Causation
    data: Any
    dataschema: str
    id: UuidText
    source: str
    subject: RecordSubject
    time: EventTime
    type: str

    @model_validator(mode="after")
    def stands_in_its_chain(self) -> Self:
        """A root event has no parent and is its own root; any other has a parent and a root beside itself."""
        own, root, nested = self.id.lower(), self.causation.root.lower(), "parent" in self.causation.model_fields_set
        if self.causation.hop == 0:
            valid = not nested and root == own
        else:
            valid = nested and own not in {self.causation.parent.lower(), root}
        if not valid:
            raise ValueError("the causation does not fit the event")
        return self


class EventHeaders(BaseModel):
    ce_specversion: str = Field(pattern="^1\\.0$")
    ce_id: UuidText
    ce_source: str = Field(min_length=1)
    ce_type: str = Field(min_length=1)
    ce_time: EventTime
    ce_dataschema: str = Field(min_length=1)
    x_registry_event_generation: str = Field(pattern=COUNTER)
    x_registry_delivery_attempt: str = Field(pattern=COUNTER)
    x_registry_delivery_time: str
    idempotency_key: str = Field(min_length=1, max_length=256)
    content_type: Annotated[str, Field(pattern=r"^(?i:application/json)\s*(;.*)?$")]
    content_encoding: Annotated[str, Field(pattern="^(?i:identity)$")] = "identity"


class CaseInput(BaseModel):
    """The input schema of the demo workflow."""

    model_config = ConfigDict(strict=True, extra="forbid")
    case_id: str = Field(alias="caseId")


Name = Annotated[str, PathParameter(min_length=1, max_length=64)]


async def whole_body(request: Request) -> bytes:
    """The body, within its limit."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_LIMIT:
            raise Problem(413, "request.body-too-large")
    return bytes(body)


def signed_values(request: Request) -> tuple[list[bytes], str] | None:
    """The twelve signed fields between version and body, and the signature; None where one is missing or malformed."""
    names = (*SIGNED_HEADERS, "content-type", "idempotency-key", "x-registry-signature")
    found = [request.headers.getlist(name) for name in names]
    if any(len(values) != 1 or not VISIBLE.fullmatch(values[0]) for values in found):
        return None
    values = [each[0].encode() for each in found]
    target = request.scope["raw_path"]
    if request.scope["query_string"]:
        target += b"?" + request.scope["query_string"]
    fields = [*values[:8], request.method.encode(), target, *values[8:10]]
    if sum(map(len, fields)) > SIGNED_LIMIT:
        return None
    return fields, found[10][0]


def is_recent(text: str) -> bool:
    """Whether a delivery time is in its wire form and at most thirty seconds away."""
    match = DELIVERY_TIME.fullmatch(text)
    if match is None:
        return False
    try:
        whole = datetime.fromisoformat(match[1]).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return False
    return abs(time.time() - whole - float(match[2] or 0)) <= DELIVERY_WINDOW


def is_signed(keys: tuple[bytes, bytes], fields: list[bytes], body: bytes, signature: str) -> bool:
    """Whether one of two keys made the signature; both are always tried."""
    values = [b"1.0", *fields, body]
    signed = b"breg-webhook-signature-v1" + b"".join(len(value).to_bytes(8, "big") + value for value in values)
    digests = [hmac.digest(key, signed, "sha256") for key in keys]
    given = base64.urlsafe_b64decode(signature[3:] + "=")
    matches = [hmac.compare_digest(digest, given) for digest in digests]
    return any(matches)


async def authentic_body(
    request: Request, workflow: str, trigger: str, body: Annotated[bytes, Depends(whole_body)]
) -> bytes:
    """The body of a delivery that its source signed; nothing of it has been parsed."""
    values = signed_values(request)
    if values is None:
        raise Problem(401, "event.unauthenticated")
    fields, signature = values
    known = (workflow, trigger) == PAIR
    keys = (KEY, DUMMY_KEYS[1]) if known else DUMMY_KEYS
    well_formed = is_recent(fields[7].decode()) and SIGNATURE.fullmatch(signature) is not None
    if not (well_formed and is_signed(keys, fields, body, signature) and known):
        raise Problem(401, "event.unauthenticated")
    return body


def exact(digits: str) -> int | float:
    """An integer token as RFC 8785 sees it, a binary64."""
    return int(digits) if len(digits) < 16 else float(digits)


def check_depth(value: object, level: int = 1) -> None:
    """Raise ValueError for what is nested deeper than DEPTH_LIMIT; the envelope is level 1."""
    if isinstance(value, dict | list):
        if level > DEPTH_LIMIT:
            raise ValueError("too deep")
        for member in value.values() if isinstance(value, dict) else value:
            check_depth(member, level + 1)


def read_envelope(body: bytes, headers: EventHeaders) -> HookEnvelope:
    """The envelope of canonical JSON (RFC 8785) that says what the headers say."""
    try:
        value = json.loads(body.decode(), parse_int=exact)
        check_depth(value)
        if rfc8785.dumps(value) != body:
            raise Problem(400, "event.invalid")
        envelope = HookEnvelope.model_validate(value)
    except (ValueError, RecursionError):
        raise Problem(400, "event.invalid") from None
    told = (headers.ce_id, headers.ce_source, headers.ce_type, headers.ce_time, headers.ce_dataschema)
    if told != (envelope.id, envelope.source, envelope.type, envelope.time, envelope.dataschema):
        raise Problem(400, "event.invalid")
    return envelope


def workflow_input(envelope: HookEnvelope, body: bytes) -> CaseInput:
    """The run's input by the trigger's mapping; only a new identity is asked for it."""
    if len(body) > EVENT_LIMIT:
        raise Problem(413, "event.too-large")
    if (envelope.source, envelope.type, envelope.dataschema) != TRIGGER:
        raise Problem(400, "event.invalid")
    try:
        return CaseInput.model_validate({"caseId": envelope.data["caseId"]})
    except (ValidationError, TypeError, KeyError, IndexError):
        raise Problem(400, "input.invalid") from None


OTHER_BINDING: Final = (col(RunRow.binding_digest) < BINDING_DIGEST, col(RunRow.binding_digest) > BINDING_DIGEST)

engine = durable_engine()


def new_run_id(now: int) -> UUID:
    """A version 7 UUID for a time in milliseconds (RFC 9562, section 5.7)."""
    number = (now << 80) | secrets.randbits(80)
    number = number & ~(0xF << 76) | (7 << 76)
    return UUID(int=number & ~(0x3 << 62) | (0x2 << 62))


def admit(workflow: str, trigger: str, envelope: HookEnvelope, idempotency_key: str, body: bytes) -> UUID:
    """The run of this event: the one it has, or a new one, committed with its outbox and audit rows."""
    scope = {"workflow": workflow, "trigger": trigger, "source": envelope.source}
    event_id, digest = UUID(envelope.id), f"sha256:{hashlib.sha256(body).hexdigest()}"
    with Session(engine, expire_on_commit=False) as session, session.begin():
        known = session.get(AdmissionRow, {**scope, "event_id": event_id})
        if known is not None:
            if known.event_digest != digest:
                raise Problem(409, "idempotency.key-reused")
            return known.run_id
        if session.exec(select(AdmissionRow).filter_by(**scope, idempotency_key=idempotency_key)).first() is not None:
            raise Problem(409, "idempotency.key-reused")
        case = workflow_input(envelope, body)
        check_state(session, workflow)
        head = session.get_one(AuditHeadRow, NODE)
        run = new_run(workflow, case)
        session.add(run)
        # Before the rows that refer to it.
        session.flush()
        session.add(
            AdmissionRow(
                **scope, event_id=event_id, event_digest=digest, idempotency_key=idempotency_key, run_id=run.run_id
            )
        )
        session.add(OutboxRow(run_id=run.run_id, kind="run.admitted", created_at=run.admitted_at))
        append_audit(session, head, run, digest)
        return run.run_id


def check_state(session: Session, workflow: str) -> None:
    """Refuse where a hold stands or a live run of the workflow is pinned to another binding."""
    switches = session.get_one(SwitchRow, 1)
    if switches.admission_held:
        raise Problem(409, "admission.held")
    if switches.execution_held:
        raise Problem(409, "execution.held")
    if switches.package_digest is None:
        raise Problem(409, "deployment.refused")
    live = select(RunRow.run_id).where(RunRow.workflow_id == workflow, col(RunRow.ended_at).is_(None))
    # Two ranges of the index over live runs, where != would read every one of them.
    below, above = (live.where(other).exists() for other in OTHER_BINDING)
    if session.exec(select(or_(below, above))).one():
        raise Problem(409, "binding.live-conflict")


def new_run(workflow: str, case: CaseInput) -> RunRow:
    """A run that is admitted now."""
    now = time.time_ns() // 1_000_000
    return RunRow(
        run_id=new_run_id(now),
        workflow_id=workflow,
        workflow_version="1",
        definition_digest=DEFINITION_DIGEST,
        binding_digest=BINDING_DIGEST,
        step="start",
        state="admitted",
        input=case.model_dump_json(by_alias=True),
        output=None,
        outcome=None,
        failure_code=None,
        admitted_at=now,
        deadline_at=now + DEADLINE_MS,
        next_due_at=None,
        ended_at=None,
        uncertain=False,
        cancel_requested=False,
        restore_review_required=False,
        blocked=False,
    )


def append_audit(session: Session, head: AuditHeadRow, run: RunRow, digest: str) -> None:
    """Append the admission to the node's chain: each row's hash covers the one before."""
    row: dict[str, Any] = {
        "node": NODE,
        "seq": head.seq + 1,
        "prev_hash": head.hash,
        "at": run.admitted_at,
        "action": "run.admitted",
        "subject": str(run.run_id),
        "body": json.dumps({"eventDigest": digest, "workflow": run.workflow_id}),
    }
    row["hash"] = hashlib.sha256(rfc8785.dumps(row)).hexdigest()
    session.add(AuditRow(**row))
    head.seq, head.hash = row["seq"], row["hash"]


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Make the tables and the rows that an empty database starts with."""
    METADATA.create_all(engine)
    with Session(engine) as session, session.begin():
        session.add(PackageRow(digest=PACKAGE_DIGEST, snapshot="{}", applied_at=0))
        session.flush()
        session.add(SwitchRow(id=1, admission_held=False, execution_held=False, package_digest=PACKAGE_DIGEST))
        session.add(AuditHeadRow(node=NODE, seq=0, hash="0" * 64, length=0))
    yield


app = FastAPI(lifespan=lifespan)


@app.exception_handler(Problem)
async def answer_problem(_: Request, problem: Problem) -> JSONResponse:
    """A refusal as problem+json."""
    content = {"code": problem.code, "status": problem.status, "traceId": secrets.token_hex(16)}
    return JSONResponse(content, problem.status, media_type="application/problem+json")


@app.exception_handler(RequestValidationError)
async def answer_invalid(request: Request, _: RequestValidationError) -> JSONResponse:
    """What FastAPI finds in the parameters."""
    return await answer_problem(request, Problem(400, "request.invalid"))


@app.exception_handler(405)
async def answer_method(request: Request, _: Exception) -> JSONResponse:
    """Another method on the path."""
    return await answer_problem(request, Problem(405, "request.method-not-allowed"))


@app.post("/v1/events/{workflow}/{trigger}", status_code=204)
def admit_event(
    workflow: Name,
    trigger: Name,
    headers: Annotated[EventHeaders, Header()],
    body: Annotated[bytes, Depends(authentic_body)],
) -> Response:
    """Admit one signed event; a sync function, so that FastAPI runs it in its thread pool."""
    envelope = read_envelope(body, headers)
    run_id = admit(workflow, trigger, envelope, headers.idempotency_key, body)
    return Response(
        status_code=204, headers={"X-Coordinator-Run-Id": str(run_id), "X-Request-Id": secrets.token_hex(16)}
    )

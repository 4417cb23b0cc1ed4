"""Sends a signed event, and follows the run that it starts to its end.

python event.py http://127.0.0.1:8080 .gatehouse/sources/demo.key .gatehouse/operator.token
"""

import base64
import hashlib
import hmac
import json
import sys
import time
import uuid
from collections.abc import Generator
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

import httpx
import rfc8785
from gatehouse_coordinator import AuthenticatedClient
from gatehouse_coordinator.api.events import admit_event
from gatehouse_coordinator.api.runs import get_run
from gatehouse_coordinator.models import AdmitEventCeSpecversion, Causation, HookEnvelope, RecordSubject, Run, RunState

ENDED = {RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED}
SIGNED = (
    *("ce-id", "ce-source", "ce-type", "ce-time", "ce-dataschema"),
    *("X-Registry-Event-Generation", "X-Registry-Delivery-Attempt", "X-Registry-Delivery-Time"),
)


class Signature(httpx.Auth):
    """Makes the body canonical JSON and signs the request, the last thing before it is sent."""

    requires_request_body = True

    def __init__(self, key: bytes) -> None:
        self._key = key

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        body = rfc8785.dumps(json.loads(request.content))
        headers = [(name, value) for name, value in request.headers.items() if name != "content-length"]
        signed = httpx.Request(request.method, request.url, headers=headers, content=body)
        values = [
            b"1.0",
            *(signed.headers[name].encode() for name in SIGNED),
            signed.method.encode(),
            signed.url.raw_path,  # with the query, where there is one
            *(signed.headers[name].encode() for name in ("Content-Type", "Idempotency-Key")),
            body,
        ]
        framed = b"".join(len(value).to_bytes(8, "big") + value for value in values)
        digest = hmac.digest(self._key, b"breg-webhook-signature-v1" + framed, hashlib.sha256)
        signed.headers["X-Registry-Signature"] = f"v1={base64.urlsafe_b64encode(digest).decode().rstrip('=')}"
        yield signed


def deliver(client: AuthenticatedClient, event: HookEnvelope, attempt: int = 1) -> uuid.UUID:
    """Deliver an event once, and return the id of its run; the same event may be delivered again and again."""
    answer = admit_event.sync_detailed(
        "case-follow-up",
        "case-created",
        client=client,
        body=event,
        ce_specversion=AdmitEventCeSpecversion.VALUE_0,
        ce_id=str(event.id),
        ce_source=event.source,
        ce_type=event.type_,
        ce_time=event.time,
        ce_dataschema=event.dataschema,
        x_registry_event_generation="1",
        x_registry_delivery_attempt=str(attempt),
        x_registry_delivery_time=now(),
        idempotency_key=f"demo:{event.id}",
    )
    if answer.status_code != HTTPStatus.NO_CONTENT:
        # Each problem that is documented has a class of its own; `code` says which it is.
        sys.exit(f"the event is refused: {answer.parsed}")
    return uuid.UUID(answer.headers["X-Coordinator-Run-Id"])


def follow(client: AuthenticatedClient, run_id: uuid.UUID) -> Run:
    """Wait until a run has ended."""
    while True:
        run = get_run.sync(run_id, client=client)
        if not isinstance(run, Run):
            sys.exit(f"there is no such run: {run}")
        if run.state in ENDED:
            return run
        time.sleep(0.2)


def now() -> str:
    """Return this moment, as events spell it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def main(server: str, key_file: str, token_file: str) -> None:
    """Send one event, and print how its run ended."""
    event_id = uuid.uuid4()
    event = HookEnvelope(
        causation=Causation(hop=0, root=event_id),
        data={"caseId": "C-2026-0417"},
        dataschema="urn:gatehouse:demo:case-created-v1",
        id=event_id,
        source="urn:gatehouse:demo",
        subject=RecordSubject(record_reference="case/C-2026-0417", record_revision=1),
        time=now(),
        type_="case-created-v1",
    )
    # The generated client asks for a token; the signature takes its place.
    signature = {"auth": Signature(Path(key_file).read_bytes())}
    sender = AuthenticatedClient(server, token="", auth_header_name="X-Registry-Signature", httpx_args=signature)
    operator = AuthenticatedClient(server, token=Path(token_file).read_text().strip())
    with sender, operator:
        run = follow(operator, deliver(sender, event))
    print(run.state, run.outcome, json.dumps(run.output))


if __name__ == "__main__":
    main(*sys.argv[1:])

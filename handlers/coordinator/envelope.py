"""What an event's envelope has to be beyond its schema, and its identity."""

from __future__ import annotations

from msgspec import UNSET

from generated.coordinator.models import Causation, HookEnvelope
from generated.coordinator.operations.admit_event import Request
from handlers.coordinator import wire_time


def check_envelope(request: Request) -> str | None:
    """Return why the envelope is refused, as a fixed phrase, or None (ARCHITECTURE.md, step 5)."""
    body = request.body
    if not _agree(request, body):
        return "A ce- header is not equal to its member of the envelope."
    if wire_time.parse(body.time, 3) is None:
        return "The time is not UTC with Z, to the millisecond at most, without trailing zeros."
    return _check_causation(event_id(body.id), body.causation)


def event_id(uuid: str) -> str:
    """Return the 128 bits of a UUID in its hyphenated form, any letter case, as 32 lower-case hex digits."""
    return uuid.replace("-", "").lower()


def _agree(request: Request, body: HookEnvelope) -> bool:
    return (
        request.ce_id == body.id
        and request.ce_source == body.source
        and request.ce_type == body.type
        and request.ce_time == body.time
        and request.ce_dataschema == body.dataschema
    )


def _check_causation(own: str, causation: Causation) -> str | None:
    is_root = event_id(causation.root) == own
    if causation.hop == 0:
        if causation.parent is not UNSET:
            return "An event at hop 0 has no parent."
        return None if is_root else "An event at hop 0 is its own root."
    if causation.parent is UNSET:
        return "An event beyond hop 0 has a parent."
    if is_root or event_id(causation.parent) == own:
        return "An event beyond hop 0 is neither its own parent nor its own root."
    return None

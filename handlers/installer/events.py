"""The tag events: everything that attempts have done, as one stream."""

from __future__ import annotations

from msgspec import UNSET

from generated.installer.operations import stream_install_events as stream_op
from generated.runtime import Stream
from handlers.installer.app import App


async def stream_install_events(app: App, request: stream_op.Request) -> stream_op.Response:
    """Send what follows on an event; where it is named twice, the header is the newer word: clients resume by it."""
    after = 0 if request.after is UNSET else request.after
    if request.last_event_id is not UNSET:
        after = int(request.last_event_id)
    return stream_op.Ok(events=Stream(await app.feed.open(after)))

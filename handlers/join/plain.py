"""Reports as nodes usually send them: read in one pass, and known to be as documented without a look at the schema."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import UNSET, Meta

from generated.join import models
from handlers.gateway.faults import Plain
from handlers.gateway.times import usual_moments

# The document's `maxItems`.
MOST_EVENTS: Final = 500


class PlainEvent(models.JoinEvent, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """An event without members that the document does not know; as it has strings alone, the collector is spared it."""


class PlainReport(models.JoinReport, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A report of such events, and not of too many."""

    events: Annotated[list[PlainEvent], Meta(max_length=MOST_EVENTS)]  # type: ignore[assignment] # nothing is added.


def is_plain(report: PlainReport) -> bool:
    """Tell whether a report is what its schema asks for beyond types, and has its times in the usual spelling."""
    for event in report.events:
        if event.type == "log":
            if event.message is UNSET:
                return False
        elif event.step is UNSET or event.status is UNSET:
            return False
    return usual_moments([event.at for event in report.events if event.at is not UNSET]) is not None


PLAIN: Final = Plain(PlainReport, is_plain)

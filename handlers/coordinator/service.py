"""Which function serves which operation of the coordinator; mypy holds each to the operation's contract."""

from __future__ import annotations

from functools import partial

from generated.coordinator.service import Service
from handlers.coordinator.app import App
from handlers.coordinator.doctor import doctor
from handlers.coordinator.events import admit_event
from handlers.coordinator.health import live, ready
from handlers.coordinator.holds import release_admission_hold, release_restore_hold, restore_hold
from handlers.coordinator.recovery import reconcile, retry_same
from handlers.coordinator.runs import cancel_run, get_run, inspect_run, list_runs, start_run


def service(app: App) -> Service:
    """Return the handlers of the coordinator, bound to what they work with."""
    return Service(
        admit_event=partial(admit_event, app),
        start_run=partial(start_run, app),
        list_runs=partial(list_runs, app),
        get_run=partial(get_run, app),
        inspect_run=partial(inspect_run, app),
        cancel_run=partial(cancel_run, app),
        retry_same=partial(retry_same, app),
        reconcile=partial(reconcile, app),
        restore_hold=partial(restore_hold, app),
        release_restore_hold=partial(release_restore_hold, app),
        release_admission_hold=partial(release_admission_hold, app),
        doctor=partial(doctor, app),
        live=partial(live, app),
        ready=partial(ready, app),
    )

"""Which function serves which operation of join; mypy holds each to the operation's contract."""

from __future__ import annotations

from functools import partial

from generated.join.service import Service
from handlers.join.app import App
from handlers.join.events import get_join_log, report_join_events
from handlers.join.registrations import (
    approve_node_join,
    get_registration,
    list_registrations,
    register,
    reject_node_join,
    renew_certificate,
)
from handlers.join.tokens import mint_join_token, revoke_join_token


def service(app: App) -> Service:
    """Return the handlers of join, bound to what they work with."""
    return Service(
        mint_join_token=partial(mint_join_token, app),
        revoke_join_token=partial(revoke_join_token, app),
        register=partial(register, app),
        list_registrations=partial(list_registrations, app),
        get_registration=partial(get_registration, app),
        renew_certificate=partial(renew_certificate, app),
        approve_node_join=partial(approve_node_join, app),
        reject_node_join=partial(reject_node_join, app),
        get_join_log=partial(get_join_log, app),
        report_join_events=partial(report_join_events, app),
    )

"""How a service must not be filled: each wrong line is a type error, and its ignore is needed."""

from __future__ import annotations

from functools import partial

from tests.generator.security.generated.gate.operations import live, open_door, show_door, sign_door
from tests.generator.security.generated.gate.service import Service


class App:
    """What the handlers work with."""


async def show(_: App, __: show_door.Request) -> show_door.Response:
    return show_door.NoContent()


async def unlock(_: App, __: open_door.Request) -> open_door.Response:
    return open_door.NoContent()


async def sign(_: App, __: sign_door.Request) -> sign_door.Response:
    return sign_door.NoContent()


async def probe(_: App, __: live.Request) -> live.Response:
    return live.NoContent()


async def forgetful(_: App, __: live.Request) -> None:
    return None


def not_a_coroutine(_: App, __: live.Request) -> live.Response:
    return live.NoContent()


def complete(app: App) -> Service:
    return Service(
        show_door=partial(show, app),
        open_door=partial(unlock, app),
        sign_door=partial(sign, app),
        live=partial(probe, app),
    )


def missing_handler(app: App) -> Service:
    return Service(  # type: ignore[call-arg]
        show_door=partial(show, app),
        open_door=partial(unlock, app),
        sign_door=partial(sign, app),
    )


def swapped_handlers(app: App) -> Service:
    return Service(
        show_door=partial(show, app),
        open_door=partial(sign, app),  # type: ignore[arg-type]
        sign_door=partial(unlock, app),  # type: ignore[arg-type]
        live=partial(probe, app),
    )


def handler_that_gives_nothing(app: App) -> Service:
    return Service(
        show_door=partial(show, app),
        open_door=partial(unlock, app),
        sign_door=partial(sign, app),
        live=partial(forgetful, app),  # type: ignore[arg-type]
    )


def handler_that_is_not_awaited(app: App) -> Service:
    return Service(
        show_door=partial(show, app),
        open_door=partial(unlock, app),
        sign_door=partial(sign, app),
        live=partial(not_a_coroutine, app),  # type: ignore[arg-type]
    )


def handler_of_no_operation(app: App) -> Service:
    return Service(
        show_door=partial(show, app),
        open_door=partial(unlock, app),
        sign_door=partial(sign, app),
        live=partial(probe, app),
        close_door=partial(probe, app),  # type: ignore[call-arg]
    )

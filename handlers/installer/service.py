"""Which function serves which operation of the installer; mypy holds each to the operation's contract."""

from __future__ import annotations

from functools import partial

from generated.installer.service import Service
from handlers.installer.app import App
from handlers.installer.config import get_config, put_config
from handlers.installer.events import stream_install_events
from handlers.installer.install import get_install, start_install
from handlers.installer.node_yaml import NodeYaml


def service(app: App, reader: NodeYaml) -> Service:
    """Return the handlers of the installer, bound to what they work with."""
    return Service(
        get_config=partial(get_config, app),
        put_config=partial(put_config, app, reader),
        start_install=partial(start_install, app),
        get_install=partial(get_install, app),
        stream_install_events=partial(stream_install_events, app),
    )

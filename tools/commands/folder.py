"""What commands take from a state folder: its settings, and the address of the server that uses it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import typer

from tools import settings, state
from tools.commands.terminal import RefusedError
from tools.settings import ListenerName, Settings
from tools.settingsfile import SettingsError
from tools.state import StateError, StateFolder, noted


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Tell what is wrong with a state folder or its settings as a command's fault."""
    try:
        yield
    except SettingsError as error:
        detail = "\n  ".join(["the settings are refused:", *error.findings])
        raise RefusedError(detail, {"error": "settings", "findings": error.findings}) from None
    except StateError as error:
        raise RefusedError(str(error)) from None


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """Let new files be for their owner alone, also those that a library makes: events tell of people."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def opened(path: Path, config: Path | None = None) -> tuple[StateFolder, Settings]:
    """Return the state folder at `path` and its settings; RefusedError tells what is wrong with them."""
    folder = StateFolder(path)
    file = config or folder.settings_file
    if not file.exists():
        advice = "" if config else f"; `gatehouse init --state {path}` makes it"
        raise RefusedError(f"{file} is not there{advice}")
    return folder, settings_of(folder, config)


def settings_of(folder: StateFolder, config: Path | None) -> Settings:
    """Read the settings file, by default the folder's, or what a new folder's would say where there is none yet."""
    with told():
        if config is None and not folder.made():
            return settings.parse(state.SETTINGS.encode(), folder.settings_file, folder.database)
        return settings.load(config or folder.settings_file, folder.database)


def operator_token(folder: StateFolder) -> str:
    """Return the operator's bearer token; RefusedError where its file has none."""
    with told():
        return folder.read_secret(folder.operator_token)


def address(folder: StateFolder, chosen: Settings, listener: ListenerName) -> str:
    """Return the URL of a listener: where a running server says it listens, else where the settings put it."""
    running = noted(folder.lock_file(listener))
    if running:
        return running
    bind = chosen.bind(listener)
    if bind.port == 0:
        raise typer.BadParameter(
            f"no server runs on {folder.path}, and {listener}.bind names no port", param_hint="--url"
        )
    return url(bind.host, bind.port, tls=chosen.tls(listener))


def url(host: str, port: int, *, tls: bool) -> str:
    """Return the URL under which a client on this machine reaches a listener that is bound there."""
    scheme = "https" if tls else "http"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

"""The tag config: what the machine is to become, kept as it came and given as JSON or YAML."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from generated.installer import models
from generated.installer.operations import get_config as get_op
from generated.installer.operations import put_config as put_op
from handlers.gateway.accept import preferred
from handlers.installer.app import App
from handlers.installer.install import RUNNING
from handlers.installer.node_yaml import YAML, NodeYaml, NotAConfig, node_yaml
from storage.installer.config import StoredConfig

JSON: Final = "application/json"
NOT_SET: Final = "No configuration is stored yet."


async def get_config(app: App, request: get_op.Request) -> get_op.Response:
    """Give the config in the form that the client would rather have."""
    config = await app.storage.config.get()
    if config is None:
        raise get_op.ConfigNotSet(NOT_SET)
    if preferred(request.accept, [JSON, YAML]) == YAML:
        return get_op.OkYaml(body=node_yaml(config))
    return get_op.OkJson(body=msgspec.json.decode(config.value, type=models.Config))


async def put_config(app: App, reader: NodeYaml, request: put_op.Request) -> put_op.Response:
    """Store a config as it came. JSON has been held to its schema and its meaning already."""
    config = request.body
    if isinstance(config, str):
        # Streams go on while a large one is read.
        config = await asyncio.to_thread(_read, reader, request.raw_body)
    text, value = request.raw_body.decode(), msgspec.json.encode(config).decode()
    stored = await app.storage.config.put(StoredConfig(media_type=request.content_type, text=text, value=value))
    if stored is None:
        raise put_op.InstallRunning(RUNNING)
    return put_op.OkYaml(body=text) if request.content_type == YAML else put_op.OkJson(body=config)


def _read(reader: NodeYaml, raw: bytes) -> models.Config:
    try:
        return msgspec.convert(reader.read(raw), models.Config)
    except NotAConfig as refused:
        count = len(refused.findings)
        errors = [models.FieldError(field_=field, message=message) for field, message in refused.findings]
        detail = f"The configuration has {count} {'fault' if count == 1 else 'faults'}."
        raise put_op.InvalidConfig(detail, errors=errors) from None

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from storage.audit import AUDIT
from storage.database import Storage
from storage.installer.config import StoredConfig
from tests.storage.installer.work import CONFIG, SUCCEEDED, append, started
from tests.storage.work import digest, open_storage, rows

pytestmark = pytest.mark.anyio

YAML = StoredConfig(
    media_type="application/yaml", text="role: founder # \x00 é\r\n\u2028", value='{"role":"\\u0000 é"}'
)


async def test_before_any_there_is_none(storage: Storage) -> None:
    assert await storage.installer.config.get() is None


async def test_a_config_comes_back_as_it_was_put(storage: Storage) -> None:
    for config in (CONFIG, YAML):
        assert await storage.installer.config.put(config) == config
        assert await storage.installer.config.get() == config


async def test_the_last_config_is_kept_and_each_is_in_the_audit(storage: Storage, url: str) -> None:
    before = len(rows(url, AUDIT))
    assert await asyncio.gather(*map(storage.installer.config.put, [CONFIG, YAML])) == [CONFIG, YAML]
    assert await storage.installer.config.get() == YAML
    assert [(row.action, row.subject, row.body) for row in rows(url, AUDIT)[before:]] == [
        ("install-config.stored", "config", f'{{"digest":"{digest(each.text)}","mediaType":"{each.media_type}"}}')
        for each in (CONFIG, YAML)
    ]


async def test_while_an_attempt_runs_the_config_stays(storage: Storage, url: str) -> None:
    attempt = await started(storage)
    before = len(rows(url, AUDIT))
    assert await storage.installer.config.put(YAML) is None
    assert await storage.installer.config.get() == CONFIG
    assert len(rows(url, AUDIT)) == before
    await append(storage, attempt, SUCCEEDED)
    assert await storage.installer.config.put(YAML) == YAML


async def test_a_config_that_is_put_in_the_batch_of_a_start_is_installed_or_refused(storage: Storage) -> None:
    installer = storage.installer
    await installer.config.put(CONFIG)
    outcomes = await asyncio.gather(
        installer.config.put(YAML), installer.attempts.start(["one"]), installer.config.put(CONFIG)
    )
    assert [getattr(outcome, "config", outcome) for outcome in outcomes] == [YAML, YAML, None]
    assert await installer.config.get() == YAML


async def test_a_config_survives_a_restart(storage: Storage, url: str, audit_file: Path) -> None:
    await storage.installer.config.put(YAML)
    async with open_storage(url, audit_file) as again:
        assert await again.installer.config.get() == YAML

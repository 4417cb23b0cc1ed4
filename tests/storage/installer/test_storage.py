from __future__ import annotations

from pathlib import Path

import pytest

from storage.database import Storage
from storage.installer.events import Head
from storage.verification import verify
from tests.storage.installer.work import CONFIG, SUCCEEDED, append, failed, ids, lines, started, step
from tests.storage.work import NODE, open_storage

pytestmark = pytest.mark.anyio


async def test_a_failed_install_is_tried_again_after_a_restart(storage: Storage, url: str, audit_file: Path) -> None:
    first = await started(storage)
    await append(storage, first, step("prepare", "started"), *lines(20), step("prepare", "failed"), failed("exit 1"))
    async with open_storage(url, audit_file) as again:
        installer = again.installer
        assert await installer.events.head() == Head(23, 1, False, 23)
        assert await installer.config.get() == CONFIG
        second = await started(again)
        for name in ("prepare", "install"):
            await append(again, second, step(name, "started"), *lines(20), step(name, "succeeded"))
        await append(again, second, SUCCEEDED)
        assert await installer.events.head() == Head(68, 2, False, 68)
        assert await ids(again) == list(range(1, 69))
        latest = await installer.attempts.latest()
        assert (latest.attempt, latest.state, latest.detail) == (2, "succeeded", None)
    assert verify(url, node=NODE, audit_file=audit_file).faults == ()

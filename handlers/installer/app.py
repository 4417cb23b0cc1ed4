"""What the handlers of the installer work with."""

from __future__ import annotations

from dataclasses import dataclass

from handlers.installer.feed import Feed
from handlers.installer.job import Job
from storage.installer.storage import InstallerStorage


@dataclass(frozen=True, slots=True)
class App:
    """One process's installer: its storage, what runs installs, and the source of the streams that tell of them."""

    storage: InstallerStorage
    job: Job
    feed: Feed

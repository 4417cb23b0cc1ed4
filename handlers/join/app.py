"""What the handlers of join work with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from handlers.join.certificates import Authority
from handlers.join.client_certificate import Network
from handlers.join.identities import Identities
from handlers.join.rafts.port import Raft
from handlers.join.turns import Turns
from storage.database import Storage


@dataclass(frozen=True, slots=True)
class App:
    """One process's join: its storage, the authority that certifies nodes, and the rafts that take them in.

    `turns` is woken where a commit has left something for it to do.
    """

    storage: Storage
    authority: Authority
    rafts: Sequence[Raft]
    turns: Turns
    identities: Identities
    trusted_proxies: Sequence[Network]

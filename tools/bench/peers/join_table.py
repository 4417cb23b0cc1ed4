"""The one join that both peers know: in its turn from the start, pinned to a key that the bench tells.

BENCH_DATABASE names the file, BENCH_JOIN and BENCH_PIN the join and its key.
"""

import os
from typing import Final
from uuid import UUID

from sqlmodel import Session, create_engine

from storage.tables import METADATA, JoinRow, JoinStepRow, JoinTokenRow

JOIN: Final = UUID(os.environ["BENCH_JOIN"])
PIN: Final = os.environ["BENCH_PIN"]
PLAN: Final = ("raft:control", "services", "complete")


def create_database() -> None:
    """Make the tables, and the rows of the join."""
    engine = create_engine(f"sqlite:///{os.environ['BENCH_DATABASE']}")
    METADATA.create_all(engine)
    with Session(engine) as session, session.begin():
        session.add(JoinTokenRow(token_id=JOIN, secret_hash="", name=None, created_at=0, expires_at=0, revoked_at=None))
        # Before the rows that refer to it.
        session.flush()
        session.add(
            JoinRow(
                join_id=JOIN,
                token_id=JOIN,
                pin=PIN,
                name="node",
                role="compute",
                address="192.0.2.1",
                peer_urls=None,
                state="joining",
                in_turn=True,
                approval=1,
                registered_at=0,
                expires_at=0,
                approved_at=0,
                turn_started_at=0,
                ended_at=None,
                failure=None,
                certificate_expires_at=0,
                beats=0,
                last_seq=0,
                recent_keys="[]",
            )
        )
        session.flush()
        for place, step in enumerate(PLAN):
            session.add(
                JoinStepRow(
                    join_id=JOIN, step=step, place=place, status="waiting", message=None, started_at=None, ended_at=None
                )
            )
    engine.dispose()

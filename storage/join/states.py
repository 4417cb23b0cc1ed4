"""The words in which a join, its steps and its rafts are told of."""

from __future__ import annotations

from typing import Literal, TypeAlias

JoinState: TypeAlias = Literal["pending", "approved", "joining", "joined", "rejected", "failed", "expired"]
Role: TypeAlias = Literal["control", "compute", "storage"]
StepStatus: TypeAlias = Literal["waiting", "running", "done", "failed"]
RaftKind: TypeAlias = Literal["ledger", "etcd"]
RaftState: TypeAlias = Literal["absent", "adding", "learner", "promoting", "voter", "removing", "removed"]

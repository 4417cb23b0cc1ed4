"""The words in which an attempt, its steps and its events are told of."""

from __future__ import annotations

from typing import Literal, TypeAlias

AttemptState: TypeAlias = Literal["idle", "running", "succeeded", "failed"]
StepStatus: TypeAlias = Literal["waiting", "running", "succeeded", "failed"]
EventType: TypeAlias = Literal["step", "log", "verdict"]
EventStatus: TypeAlias = Literal["started", "succeeded", "failed"]
Outcome: TypeAlias = Literal["succeeded", "failed"]

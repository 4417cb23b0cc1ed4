from __future__ import annotations

from storage.installer.records import StepRecord, read_steps, write_steps


def test_steps_are_read_as_they_were_written() -> None:
    steps = (
        StepRecord("prepare \x00 é", "succeeded", 1, 2),
        StepRecord("install", "running", 3, None),
        StepRecord("finish", "waiting", None, None),
    )
    assert read_steps(write_steps(steps)) == steps
    assert write_steps(steps).isprintable()
    assert read_steps(write_steps([])) == ()

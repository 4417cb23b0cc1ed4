"""Reports of a joining node as it sends them: log lines as programs write them, the same in every run."""

import json
from typing import Any, Final

# About a hundred characters each, as package managers, service managers and raft members log.
MESSAGES: Final = (
    "Unpacking linux-image-6.1.0-{n}-amd64 (6.1.{n}-1) over (6.1.{m}-1); preparing to replace, {n} files in all ...",
    'systemd[1]: Started gatehouse-agent@{n}.service: agent of "rack-{m}"; main process {n}{m} is up, notified by it.',
    "raft: newcomer 8e9e05c52164{n:04x} is at index {n}{m}, {m} entries behind the leader; snapshot sent in {n}.{m} ms",
    "storage: checked /dev/disk/by-id/nvme-eui.0025385{n}1b0{m} (ext4): clean, {n}{m}/122101760 files, no bad blocks",
    "net: link enp{m}s0f1 is up at 25000 Mbit/s, full duplex; neighbour switch-{n} port Ethernet1/{m}, MTU is 9000",
    "containerd: pulled registry/agent@sha256:3f1c{n:06x}a97e{m:04x}, {n} layers unpacked, {m} reused, in {m}.{n} s",
)
STEPS: Final = (None, "raft:control", "services")


def report(count: int) -> bytes:
    """The body of a report of `count` log lines, some of which name a step, and some their time."""
    return json.dumps({"events": [line(number) for number in range(count)]}, separators=(",", ":")).encode()


def line(number: int) -> dict[str, Any]:
    """One log event."""
    event: dict[str, Any] = {"type": "log"}
    if step := STEPS[number % len(STEPS)]:
        event["step"] = step
    event["message"] = MESSAGES[number % len(MESSAGES)].format(n=number * 7 % 997, m=number % 41 + 1)
    if number % 4 == 0:
        event["at"] = f"2026-04-15T09:{number // 60 % 60:02d}:{number % 60:02d}.{number * 13 % 1000:03d}Z"
    return event

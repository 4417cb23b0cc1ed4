"""Stores a machine's config, starts its install, and prints each event as it comes until the verdict.

python install.py https://127.0.0.1:9443 .gatehouse/ca/ca.pem .gatehouse/install.code
"""

import json
import ssl
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
from gatehouse_installer import AuthenticatedClient
from gatehouse_installer.api.config import put_config
from gatehouse_installer.api.install import start_install
from gatehouse_installer.models import (
    Config,
    ConfigRole,
    Disk,
    Install,
    InstallEvent,
    InstallEventOutcome,
    InstallEventType,
    Link,
    Management,
)


def events(client: AuthenticatedClient, last: int) -> Iterator[InstallEvent]:
    """Yield the events after `last` as they come; a connection that is lost is made again, and none is missed.

    The generated `stream_install_events` gives the whole text once the stream has ended. So this asks by hand.
    """
    while True:
        try:
            with client.get_httpx_client().stream(
                "GET", "/v1/installer/install/events", params={"after": last}, timeout=60
            ) as answer:
                answer.raise_for_status()
                for data in lines_of_data(answer):
                    event = InstallEvent.from_dict(json.loads(data))
                    last = event.id
                    yield event
        except httpx.TransportError:
            time.sleep(2)


def lines_of_data(answer: httpx.Response) -> Iterator[bytes]:
    """Yield the data of each event. Not by `iter_lines`: it ends lines at U+2028, too, which an output may hold."""
    rest = b""
    for chunk in answer.iter_bytes():
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.removeprefix(b"data: ") for line in whole if line.startswith(b"data: "))


def main(installer: str, ca_file: str, code_file: str) -> None:
    """Install, and end with 1 where that fails."""
    code = Path(code_file).read_text().strip()
    client = AuthenticatedClient(installer, token=code, verify_ssl=ssl.create_default_context(cafile=ca_file))
    config = Config(
        role=ConfigRole.FOUNDER,
        hostname="node-1.example",
        mgmt=Management(address="192.0.2.11/24", gateway="192.0.2.1"),
        links=[Link(interface="enp3s0")],
        disks=[Disk(device="/dev/sda", confirm="/dev/sda")],
    )
    stored = put_config.sync(client=client, body=config)
    if not isinstance(stored, Config):
        sys.exit(f"the config is refused: {stored}")
    started = start_install.sync(client=client)
    if not isinstance(started, Install):
        sys.exit(f"the install is not started: {started}")
    for event in events(client, started.last_event_id):
        print(event.id, event.type_, event.step or "", event.status or event.line or event.outcome or "", flush=True)
        if event.type_ == InstallEventType.VERDICT:
            sys.exit(event.outcome != InstallEventOutcome.SUCCEEDED)


if __name__ == "__main__":
    main(*sys.argv[1:])

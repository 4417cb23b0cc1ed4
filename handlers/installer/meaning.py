"""What is wrong with a config beyond its schema, told for as much of it as has its shape."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from typing import Any, Final, TypeAlias

from handlers.gateway.faults import Finding

Address: TypeAlias = IPv4Address | IPv6Address
Interface: TypeAlias = IPv4Interface | IPv6Interface
Network: TypeAlias = IPv4Network | IPv6Network

# The document has no longer lists; of one that is, the rest is not looked at.
_MOST_ITEMS: Final = 128


def faults_of_meaning(config: Any) -> Iterator[Finding]:
    """Give the faults of any JSON value that is meant to be a config; one that its schema takes may have them, too."""
    management = _interface(_member(config, "mgmt", "address"))
    yield from _faults_of_management(config, management)
    yield from _repeated(config, "links", "interface")
    yield from _repeated(config, "disks", "device")
    for index, disk in enumerate(_items(config, "disks")):
        device, confirm = _member(disk, "device"), _member(disk, "confirm")
        if isinstance(device, str) and isinstance(confirm, str) and device != confirm:
            yield Finding(f"disks[{index}].confirm", "is not the device")
    yield from _faults_of_floating(config, management)


def _faults_of_management(config: Any, management: Interface | None) -> Iterator[Finding]:
    if management is None:
        if _member(config, "mgmt", "address") is not None:
            yield Finding("mgmt.address", "is not an address with the length of a prefix")
    elif wrong := _unusable(management.ip, management.network):
        yield Finding("mgmt.address", wrong)
    text = _member(config, "mgmt", "gateway")
    gateway = _address(text)
    if gateway is None:
        if text is not None:
            yield Finding("mgmt.gateway", "is not an address")
    elif management is not None and (wrong := _wrong_gateway(gateway, management)):
        yield Finding("mgmt.gateway", wrong)


def _wrong_gateway(gateway: Address, management: Interface) -> str | None:
    if gateway not in management.network:
        return "is not in the network of mgmt.address"
    if gateway == management.ip:
        return "is the machine's own address"
    return _unusable(gateway, management.network)


def _unusable(address: Address, network: Network) -> str | None:
    """Return why no machine of a network can have an address; those with one or two addresses have no others."""
    if address.is_unspecified or address.is_multicast:
        return "is not an address that a machine can have"
    if address.version == 4 and network.prefixlen < 31:
        if address == network.network_address:
            return "is the address of its network itself"
        if address == network.broadcast_address:
            return "is the broadcast address of its network"
    return None


def _repeated(config: Any, name: str, member: str) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for index, item in enumerate(_items(config, name)):
        value = _member(item, member)
        if isinstance(value, str) and (first := seen.setdefault(value, index)) != index:
            yield Finding(f"{name}[{index}].{member}", f"is listed already, as {name}[{first}].{member}")


def _faults_of_floating(config: Any, management: Interface | None) -> Iterator[Finding]:
    earlier: list[tuple[int, Network]] = []
    for index, text in enumerate(_items(_member(config, "network"), "floatingIpCidrs")):
        field = f"network.floatingIpCidrs[{index}]"
        interface = _interface(text)
        if interface is None:
            yield Finding(field, "is not a network")
            continue
        network = interface.network
        if interface.ip != network.network_address:
            yield Finding(field, "has host bits")
        if management is not None and _overlap(network, management.network):
            yield Finding(field, "overlaps the network of mgmt.address")
        first = next((other for other, each in earlier if _overlap(network, each)), None)
        if first is not None:
            yield Finding(field, f"overlaps network.floatingIpCidrs[{first}]")
        earlier.append((index, network))


def _overlap(one: Network, other: Network) -> bool:
    return one.version == other.version and one.overlaps(other)


def _interface(text: Any) -> Interface | None:
    """Read an address with the length of its prefix; a netmask is none."""
    address, slash, length = text.partition("/") if isinstance(text, str) else ("", "", "")
    if not slash or not length.isascii() or not length.isdigit():
        return None
    try:
        return ipaddress.ip_interface(f"{address}/{length}")
    except ValueError:
        return None


def _address(text: Any) -> Address | None:
    if not isinstance(text, str):
        return None
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _member(value: Any, *names: str) -> Any:
    """Return what is at the end of these names, None where that is nothing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _items(value: Any, name: str) -> list[Any]:
    items = _member(value, name)
    return items[:_MOST_ITEMS] if isinstance(items, list) else []

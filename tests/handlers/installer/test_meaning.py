from __future__ import annotations

from typing import Any

import pytest

from handlers.installer.meaning import faults_of_meaning
from tests.handlers.installer.machine import CONFIG

OUTSIDE = "is not in the network of mgmt.address"
NO_ADDRESS = "is not an address with the length of a prefix"
NOT_ONES = "is not an address that a machine can have"


def found(config: Any) -> list[tuple[str, str]]:
    return [(finding.field, finding.message) for finding in faults_of_meaning(config)]


def management(address: Any, gateway: Any) -> list[tuple[str, str]]:
    faults = found(CONFIG | {"mgmt": {"address": address, "gateway": gateway}, "network": {}})
    return [(field.removeprefix("mgmt."), message) for field, message in faults]


def floating(*networks: Any, address: str = "192.0.2.11/24") -> list[tuple[str, str]]:
    mgmt = {"address": address, "gateway": "192.0.2.1" if "." in address else "2001:db8::1"}
    faults = found(CONFIG | {"mgmt": mgmt, "network": {"floatingIpCidrs": list(networks)}})
    return [(field.removeprefix("network.floatingIpCidrs"), message) for field, message in faults]


@pytest.mark.parametrize("config", [CONFIG, {name: CONFIG[name] for name in CONFIG if name != "network"}])
def test_a_good_config_has_no_faults(config: dict[str, Any]) -> None:
    assert found(config) == []


@pytest.mark.parametrize(
    ("address", "gateway"),
    [
        ("192.0.2.11/24", "192.0.2.254"),
        ("192.0.2.10/31", "192.0.2.11"),
        ("10.0.0.1/8", "10.255.255.254"),
        ("127.0.0.2/8", "127.0.0.1"),
        ("2001:db8::2/64", "2001:db8::1"),
        ("2001:DB8::2/64", "2001:db8:0:0::"),
        ("2001:db8::ffff/112", "2001:db8::"),
        ("fe80::2/64", "fe80::1"),
        ("::ffff:192.0.2.2/120", "::ffff:192.0.2.1"),
    ],
)
def test_the_gateway_is_another_address_of_the_management_network(address: str, gateway: str) -> None:
    assert management(address, gateway) == []


@pytest.mark.parametrize(
    ("address", "gateway", "faults"),
    [
        ("192.0.2.11/24", "192.0.3.1", [("gateway", OUTSIDE)]),
        ("192.0.2.11/24", "2001:db8::1", [("gateway", OUTSIDE)]),
        ("2001:db8::2/64", "192.0.2.1", [("gateway", OUTSIDE)]),
        ("2001:db8::2/64", "fe80::1", [("gateway", OUTSIDE)]),
        ("192.0.2.11/32", "192.0.2.1", [("gateway", OUTSIDE)]),
        ("192.0.2.11/24", "192.0.2.11", [("gateway", "is the machine's own address")]),
        ("2001:db8::2/64", "2001:0DB8::0:2", [("gateway", "is the machine's own address")]),
        ("192.0.2.11/24", "192.0.2.0", [("gateway", "is the address of its network itself")]),
        ("192.0.2.11/24", "192.0.2.255", [("gateway", "is the broadcast address of its network")]),
        ("192.0.2.0/24", "192.0.2.1", [("address", "is the address of its network itself")]),
        ("192.0.2.255/24", "192.0.2.1", [("address", "is the broadcast address of its network")]),
        ("224.0.0.1/24", "224.0.0.2", [("address", NOT_ONES), ("gateway", NOT_ONES)]),
        ("ff02::1/64", "ff02::2", [("address", NOT_ONES), ("gateway", NOT_ONES)]),
        ("0.0.0.0/0", "192.0.2.1", [("address", NOT_ONES)]),
        ("::/64", "::1", [("address", NOT_ONES)]),
    ],
)
def test_other_addresses_are_faults(address: str, gateway: str, faults: list[tuple[str, str]]) -> None:
    assert management(address, gateway) == faults


@pytest.mark.parametrize(
    "address",
    [
        "192.0.2.11",
        "192.0.2.11/",
        "192.0.2.11/33",
        "192.0.2.11/255.255.255.0",
        "192.0.2.011/24",
        "192.0.2.11/+24",
        "1:2:3/64",
        "2001:db8::2/129",
        "2001:db8::2::3/64",
        "2001:db8::2/\u0666\u0664",
        "/24",
        "",
        24,
    ],
)
def test_what_is_no_address_with_a_prefix_is_one_fault(address: Any) -> None:
    assert management(address, "192.0.2.1") == [("address", NO_ADDRESS)]


@pytest.mark.parametrize("gateway", ["192.0.2.1/24", "192.0.2", "192.0.2.01", "1:2", "", 1, [], True])
def test_what_is_no_address_is_no_gateway(gateway: Any) -> None:
    assert management("192.0.2.11/24", gateway) == [("gateway", "is not an address")]


@pytest.mark.parametrize(
    ("networks", "faults"),
    [
        ([], []),
        (["198.51.100.0/25", "198.51.100.128/25", "203.0.113.7/32", "2001:db8:7::/48", "192.0.3.0/24"], []),
        (["198.51.100.1/24"], [("[0]", "has host bits")]),
        (["2001:db8::1/64"], [("[0]", "has host bits")]),
        (["198.51.100.0/24", "198.51.100.0/24"], [("[1]", "overlaps network.floatingIpCidrs[0]")]),
        (["203.0.113.0/24", "198.51.100.64/26", "198.51.0.0/16"], [("[2]", "overlaps network.floatingIpCidrs[1]")]),
        (["2001:db8::/32", "2001:DB8:0:1::/64"], [("[1]", "overlaps network.floatingIpCidrs[0]")]),
        (["192.0.2.0/24"], [("[0]", "overlaps the network of mgmt.address")]),
        (["192.0.0.0/16"], [("[0]", "overlaps the network of mgmt.address")]),
        (["192.0.2.200/32"], [("[0]", "overlaps the network of mgmt.address")]),
        (["::/0"], []),
        (
            ["192.0.2.1/25", "0.0.0.0/0", "x", "203.0.113.0/33", 7, None],
            [
                ("[0]", "has host bits"),
                ("[0]", "overlaps the network of mgmt.address"),
                ("[1]", "overlaps the network of mgmt.address"),
                ("[1]", "overlaps network.floatingIpCidrs[0]"),
                ("[2]", "is not a network"),
                ("[3]", "is not a network"),
                ("[4]", "is not a network"),
                ("[5]", "is not a network"),
            ],
        ),
    ],
)
def test_floating_networks_have_no_host_bits_and_overlap_nothing(
    networks: list[Any], faults: list[tuple[str, str]]
) -> None:
    assert floating(*networks) == faults


def test_floating_networks_overlap_a_management_network_of_ipv6() -> None:
    assert floating("2001:db8::/48", "0.0.0.0/0", address="2001:db8::2/64") == [
        ("[0]", "overlaps the network of mgmt.address")
    ]


def test_a_link_or_a_disk_is_listed_once() -> None:
    links = [{"interface": name} for name in ("a", "b", "a", "A", "b", "a")]
    disks = [{"device": f"/dev/{name}", "confirm": f"/dev/{name}"} for name in ("a", "b", "b")]
    assert found(CONFIG | {"links": links, "disks": disks}) == [
        ("links[2].interface", "is listed already, as links[0].interface"),
        ("links[4].interface", "is listed already, as links[1].interface"),
        ("links[5].interface", "is listed already, as links[0].interface"),
        ("disks[2].device", "is listed already, as disks[1].device"),
    ]


@pytest.mark.parametrize("confirm", ["/dev/sdb", "/dev/SDA", "/dev/sda ", "", "/dev/./sda"])
def test_a_disk_is_confirmed_by_its_very_device(confirm: str) -> None:
    disks = [{"device": "/dev/sdz", "confirm": "/dev/sdz"}, {"device": "/dev/sda", "confirm": confirm}]
    assert found(CONFIG | {"disks": disks}) == [("disks[1].confirm", "is not the device")]


@pytest.mark.parametrize(
    "config",
    [
        *(None, 7, "", [], {}, [CONFIG]),
        {"mgmt": [], "links": {}, "disks": "x", "network": 1},
        {
            "mgmt": {},
            "links": [1, {}, None, {"interface": []}],
            "disks": [{"device": 1, "confirm": "1"}, {"confirm": "x"}],
        },
        {"network": {"floatingIpCidrs": {}}},
        {"disks": [{"device": "/dev/sda"}]},
    ],
)
def test_what_has_not_the_shape_has_no_meaning_and_no_faults_of_it(config: Any) -> None:
    assert found(config) == []


def test_of_a_list_that_is_too_long_the_rest_is_not_looked_at() -> None:
    assert len(floating(*["10.0.0.0/8"] * 20_000)) == 127

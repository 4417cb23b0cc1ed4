from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from handlers.gateway.bodies import LISTED_FINDINGS
from handlers.gateway.yaml_reader import MAX_BYTES, MAX_PROBLEMS, read_document
from handlers.installer.api import installer_document
from handlers.installer.node_yaml import NodeYaml, NotAConfig, node_yaml, written
from storage.installer.config import StoredConfig
from tests.handlers.installer.machine import CONFIG, NODE_YAML

UNCLEAR = "is not the same to every reader: put it in quotes or write it as JSON"
READER = NodeYaml(json.loads(installer_document()))


def read(text: str | bytes) -> Any:
    return READER.read(text if isinstance(text, bytes) else text.encode())


def faults(text: str | bytes) -> list[tuple[str, str]]:
    with pytest.raises(NotAConfig) as raised:
        read(text)
    return [(finding.field, finding.message) for finding in raised.value.findings]


def changed(change: Callable[[dict[str, Any]], object]) -> str:
    config = copy.deepcopy(CONFIG)
    change(config)
    return written(config)


def line(beginning: str, text: str = NODE_YAML) -> int:
    return next(number for number, each in enumerate(text.split("\n"), 1) if each.lstrip().startswith(beginning))


def test_a_node_yaml_has_the_structure_of_the_json() -> None:
    assert read(NODE_YAML) == {
        "role": "founder",
        "hostname": "node-1.example",
        "mgmt": {"address": "192.0.2.11/24", "gateway": "192.0.2.1"},
        "links": [{"interface": "enp3s0"}],
        "disks": [{"device": "/dev/sda", "confirm": "/dev/sda"}],
    }
    assert read(json.dumps(CONFIG)) == read(written(CONFIG)) == CONFIG


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no", f"'no' {UNCLEAR}"),
        ("Yes", f"'Yes' {UNCLEAR}"),
        ("012", f"'012' {UNCLEAR}"),
        ("0x1F", f"'0x1F' {UNCLEAR}"),
        ("1_000", f"'1_000' {UNCLEAR}"),
        ("~", f"'~' {UNCLEAR}"),
        (".inf", f"'.inf' {UNCLEAR}"),
        ("60.0", "is not of the type that the document asks for"),
        ("60", "is not of the type that the document asks for"),
        ("1e3", "is not of the type that the document asks for"),
        ("true", "is not of the type that the document asks for"),
        ("null", "is not of the type that the document asks for"),
        ("", "is not of the type that the document asks for"),
        ("[a]", "is not of the type that the document asks for"),
        ("9007199254740992", "the value has a number beyond 2^53-1"),
        ("!!str a", "tags are not read"),
        ("!!python/object/apply:os.system [ls]", "tags are not read"),
        ("&a b", "anchors are not read: nothing may refer to them"),
        ("*a", "aliases are not read: write the value again"),
        ("2026-01-31 10:00", "does not have the form that the document asks for"),
        ("-a", "does not have the form that the document asks for"),
        ("192.0.2.1", "does not satisfy the document"),
    ],
)
def test_a_value_that_is_no_hostname_is_refused_at_its_key(value: str, message: str) -> None:
    found = faults(NODE_YAML.replace("node-1.example", value))
    assert [field for field, _ in found] == ["hostname"] * len(found)
    places = {each.partition(": ")[0] for _, each in found}
    assert places <= {"line 3, column 1", "line 3, column 11"}
    assert message in [each.partition(": ")[2] for _, each in found]


@pytest.mark.parametrize("value", ["2026-01-31", "'no'", '"012"', "'60.0'", "y", "n", "12a", "e3", "a.b.c", "'0x1f'"])
def test_text_that_looks_like_something_else_is_text(value: str) -> None:
    assert read(NODE_YAML.replace("node-1.example", value))["hostname"] == value.strip("'\"")


def test_faults_of_schema_and_of_meaning_come_in_the_order_of_the_lines() -> None:
    text = changed(
        lambda config: (
            config.update(more=1, role=7),
            config["mgmt"].update(gateway="198.51.100.1"),
            config["links"].append({"interface": "enp3s0", "zone": 1}),
            config["disks"].append({"device": "/dev/sdb", "confirm": "/dev/sdc"}),
            config["disks"].append({"device": "/dev/sdd"}),
            config["network"]["floatingIpCidrs"].append("192.0.2.1/24"),
        )
    )
    assert [(field, message.partition(": ")[2]) for field, message in faults(text)] == [
        ("role", "is not of the type that the document asks for"),
        ("role", "is not one of the values that the document allows"),
        ("mgmt.gateway", "is not in the network of mgmt.address"),
        ("links[2].interface", "is listed already, as links[0].interface"),
        ("links[2]", "has a member that the document does not know"),
        ("disks[1].confirm", "is not the device"),
        ("disks[2].confirm", "is required"),
        ("network.floatingIpCidrs[2]", "has host bits"),
        ("network.floatingIpCidrs[2]", "overlaps the network of mgmt.address"),
        ("", "has a member that the document does not know"),
    ]
    places = {field: message.partition(": ")[0] for field, message in faults(text)}
    assert places["mgmt.gateway"] == f"line {line('gateway', text)}, column 3"
    assert places["disks[1].confirm"] == f"line {line('confirm: /dev/sdc', text)}, column 5"
    assert places["network.floatingIpCidrs[2]"] == f"line {line('- 192.0.2.1/24', text)}, column 7"
    assert places["links[2]"] == f"line {line('zone', text)}, column 5"
    assert places[""] == f"line {line('more', text)}, column 1"


def test_each_member_that_is_not_known_is_told_at_its_place() -> None:
    assert faults(NODE_YAML + "one: 1\ntwo:\n  three: 3\n") == [
        ("", "line 11, column 1: has a member that the document does not know"),
        ("", "line 12, column 1: has a member that the document does not know"),
    ]


def test_a_key_that_stands_twice_is_refused_where_it_does_so_again() -> None:
    twice = NODE_YAML.replace("links:", "  gateway: 192.0.2.2\nlinks:") + "role: member\n"
    assert faults(twice) == [
        ("mgmt.gateway", "line 7, column 3: 'gateway' stands here twice"),
        ("role", "line 12, column 1: 'role' stands here twice"),
    ]


@pytest.mark.parametrize(
    ("text", "field", "place"),
    [
        ("role: founder\nhostname: a: b\n", "hostname", "line 2, column 12"),
        ("disks:\n  - device: /dev/sda\n    confirm: a: b\n", "disks[0].confirm", "line 3, column 15"),
        ("network: {floatingIpCidrs: [a, b\n", "network.floatingIpCidrs", "line 2, column 1"),
        ("mgmt:\n\taddress: x\n", "mgmt", "line 2, column 1"),
        ("more: a: b\n", "", "line 1, column 8"),
        ("hostname: \x07\n", "", "line 1, column 11"),
        ("a\ufffe: 1", "", "line 1, column 2"),
        ("%YAML 1.2\n---\n" + NODE_YAML, "", "line 1, column 1"),
        (NODE_YAML + "---\n" + NODE_YAML, "", "line 11, column 1"),
        ("", "", "line 1, column 1"),
        ("# nothing\n", "", "line 2, column 1"),
        (b"role: founder\nhostname: \xff", "", "line 2, column 11"),
        (NODE_YAML.encode("utf-16"), "", "line 1, column 1"),
        ("# " + "x" * MAX_BYTES, "", "line 1, column 1"),
    ],
)
def test_what_is_not_one_document_of_yaml_is_one_fault(text: str | bytes, field: str, place: str) -> None:
    [(found, message)] = faults(text)
    assert (found, message.partition(": ")[0]) == (field, place)


def test_aliases_that_would_explode_are_refused_at_once() -> None:
    laughs = "a: &a [x, x]\n" + "".join(
        f"{name}: &{name} [*{before}, *{before}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    found = faults(laughs)
    assert ("", "line 2, column 8: aliases are not read: write the value again") in found


@pytest.mark.parametrize(
    "text", ["[" + "no," * 80_000 + "]", "{" + "a: 1," * 40_000 + "}", "links: [" + "{}," * 15_000 + "]"]
)
def test_of_many_faults_no_more_than_some_hundred_are_told(text: str) -> None:
    assert 100 <= len(faults(text)) <= MAX_PROBLEMS + LISTED_FINDINGS


def test_a_message_repeats_no_value_but_a_word_that_is_not_clear() -> None:
    secret = "hunter2-and-more/" * 5
    text = json.dumps({**CONFIG, "hostname": secret, "role": secret, secret: secret, "mgmt": {"gateway": secret}})
    assert "hunter2" not in repr(faults(text))


VALUES = [
    "1e3",
    "no",
    "null",
    "true",
    "012",
    "60.0",
    "0x1",
    "-",
    "- a",
    "a: b",
    "a #b",
    " a",
    "",
    "é\u2028\x85",
    "a\nb",
    "/dev/sda",
    "2001:db8::/32",
    "::1",
    "192.0.2.1/24",
    "it's",
    '"',
    "\\",
    "\t",
    "~",
    "<<",
    "=",
    "y",
    "x" * 300,
    "a " * 100,
    "\U0001f600",
    "\x7f",
    "2026-01-31",
]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_every_reader_takes_what_is_written_for_the_same_value(value: str) -> None:
    written_value = written({"a": value, value: [value, {"b": value}]})
    expected = {"a": value, value: [value, {"b": value}]}
    assert yaml.safe_load(written_value) == expected
    document = read_document(written_value.encode())
    assert (document.value, document.problems) == (expected, [])


def test_what_was_yaml_stays_as_it_came_and_json_is_written() -> None:
    assert node_yaml(StoredConfig(media_type="application/yaml", text=NODE_YAML, value="{}")) == NODE_YAML
    text = node_yaml(StoredConfig(media_type="application/json", text="", value=json.dumps(CONFIG)))
    assert text == written(CONFIG)
    assert text.startswith("role: founder\nhostname: node-1.example\nmgmt:\n  address: 192.0.2.11/24\n")


def test_the_examples_of_the_document_are_configs() -> None:
    examples = json.loads(installer_document())["components"]["examples"]
    for name in ("Founder", "Member"):
        assert read(written(examples[name]["value"])) == examples[name]["value"]

from __future__ import annotations

import copy
import json
import re
from typing import Any, Final

import pytest
import yaml

from tests.support.installs import CONFIG, CONFIG_PATH, JSON, YAML, Machine
from tests.support.wire import Answer

INVALID: Final = (400, "INVALID_CONFIG")
NODE_YAML: Final = """\
# The node in rack 4: ü, 😀.
role:   member        # the others are there
hostname: "node-2"
mgmt: {address: 2001:db8::2/64, gateway: '2001:db8::1'}
links:
- interface: eth0

disks:
    - device: &no /dev/sda
      confirm: /dev/sda
""".replace("&no ", "")
AS_VALUE: Final = {
    "role": "member",
    "hostname": "node-2",
    "mgmt": {"address": "2001:db8::2/64", "gateway": "2001:db8::1"},
    "links": [{"interface": "eth0"}],
    "disks": [{"device": "/dev/sda", "confirm": "/dev/sda"}],
}
PLACE: Final = re.compile(r"line (\d+)\D+column (\d+)|(\d+):(\d+)")


def changed(path: str, value: Any = None) -> Any:
    """Return the config with another value at a place, or without it."""
    config: Any = copy.deepcopy(dict(CONFIG))
    *names, last = [int(name) if name.isdigit() else name for name in re.findall(r"\w+", path)]
    part = config
    for name in names:
        part = part[name]
    if value is None:
        del part[last]
    else:
        part[last] = value
    return config


def fields(answer: Answer) -> list[str]:
    assert answer.outcome == INVALID, answer
    assert all(error["message"] for error in answer.json["errors"])
    return sorted(error["field"] for error in answer.json["errors"])


def get(machine: Machine, accept: str | None = None) -> Answer:
    answer = machine.operate("GET", CONFIG_PATH, {} if accept is None else {"Accept": accept})
    assert answer.status == 200, answer
    return answer


def test_json_comes_back_without_defaults_in_json_and_in_yaml(machine: Machine) -> None:
    for value in (CONFIG, AS_VALUE, CONFIG | {"network": {}}, changed("network")):
        put = machine.configure(value)
        assert (put.status, put.header("Content-Type"), put.json) == (200, "application/json", value)
        assert get(machine).json == value
        rendered = get(machine, "application/yaml")
        assert rendered.header("Content-Type") == "application/yaml"
        assert yaml.safe_load(rendered.body) == value
        # What is rendered can be sent.
        again = machine.configure_yaml(rendered.body)
        assert (again.status, again.body) == (200, rendered.body)


def test_yaml_comes_back_byte_for_byte_and_as_json(machine: Machine) -> None:
    for text in (NODE_YAML, NODE_YAML.replace("\n", "\r\n"), f"---\n{NODE_YAML}...\n", json.dumps(AS_VALUE)):
        put = machine.configure_yaml(text)
        assert (put.status, put.header("Content-Type"), put.body) == (200, "application/yaml", text.encode())
        assert get(machine, "application/yaml").body == text.encode()
        assert get(machine).json == AS_VALUE


def test_the_request_decides_on_what_comes_back_whatever_is_accepted(machine: Machine) -> None:
    for kind, body in ((JSON, json.dumps(AS_VALUE)), (YAML, NODE_YAML)):
        for accept in ("application/json", "application/yaml", "text/html"):
            answer = machine.operate("PUT", CONFIG_PATH, {**kind, "Accept": accept}, body.encode())
            assert (answer.status, answer.header("Content-Type")) == (200, kind["Content-Type"])


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, "json"),
        ("", "json"),
        ("*/*", "json"),
        ("application/*", "json"),
        ("text/html", "json"),
        ("application/yaml", "yaml"),
        ("Application/YAML", "yaml"),
        ("application/yaml, */*", "json"),
        ("application/yaml;q=0.5, application/json;q=0.4", "yaml"),
        ("application/yaml;q=0.4, application/json;q=0.5", "json"),
        ("application/yaml, application/json", "json"),
        ("application/yaml;q=0", "json"),
        ("application/json;q=0, */*", "yaml"),
        ("application/*;q=0.9, application/json;q=0.1", "yaml"),
        ("text/html, application/yaml;q=0.001", "yaml"),
    ],
)
def test_accept_chooses_by_its_q_values_and_json_where_it_leaves_the_choice(
    machine: Machine, accept: str | None, expected: str
) -> None:
    assert machine.configure().status == 200
    assert get(machine, accept).header("Content-Type") == f"application/{expected}"


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("role", "leader", "role"),
        ("role", None, "role"),
        ("role", 7, "role"),
        ("hostname", "-node", "hostname"),
        ("hostname", "a" * 64, "hostname"),
        ("hostname", "192.0.2.1", "hostname"),
        ("hostname", "node\n", "hostname"),
        ("extra", True, ""),
        ("mgmt.extra", True, "mgmt"),
        ("mgmt", "192.0.2.11/24", "mgmt"),
        ("mgmt.address", "192.0.2.11", "mgmt.address"),
        ("mgmt.address", "192.0.2.256/24", "mgmt.address"),
        ("mgmt.address", "192.0.2.11/33", "mgmt.address"),
        ("mgmt.address", "2001:db8:::2/64", "mgmt.address"),
        ("mgmt.gateway", "192.0.2.0x1", "mgmt.gateway"),
        ("mgmt.gateway", "192.0.3.1", "mgmt.gateway"),
        ("mgmt.gateway", "192.0.2.11", "mgmt.gateway"),
        ("mgmt.gateway", "2001:db8::1", "mgmt.gateway"),
        ("links", [], "links"),
        ("links[0].interface", "", "links[0].interface"),
        ("links[0].interface", None, "links[0].interface"),
        ("links[1].interface", "enp3s0", "links[1].interface"),
        ("disks", [], "disks"),
        ("disks[0].device", "sda", "disks[0].device"),
        ("disks[0].confirm", "/dev/sdb", "disks[0].confirm"),
        ("disks[0].confirm", None, "disks[0].confirm"),
        ("disks", [{"device": "/dev/sda", "confirm": "/dev/sda"} for _ in range(2)], "disks[1].device"),
        ("network.floatingIpCidrs[1]", "198.51.100.1/24", "network.floatingIpCidrs[1]"),
        ("network.floatingIpCidrs[1]", "198.51.100.128/25", "network.floatingIpCidrs[1]"),
        ("network.floatingIpCidrs[1]", "198.51.0.0/16", "network.floatingIpCidrs[1]"),
        ("network.floatingIpCidrs[0]", "no network", "network.floatingIpCidrs[0]"),
        ("network.floatingIpCidrs", "198.51.100.0/24", "network.floatingIpCidrs"),
    ],
)
def test_each_fault_is_told_at_its_place_in_both_media_types(
    machine: Machine, path: str, value: Any, field: str
) -> None:
    config = changed(path, value)
    as_json = machine.configure(config)
    text = yaml.safe_dump(config, sort_keys=False)
    as_yaml = machine.configure_yaml(text)
    assert field in fields(as_json)
    assert fields(as_json) == fields(as_yaml)
    assert as_json.json["errors"][0]["field"] == field
    for error in as_yaml.json["errors"]:
        place = PLACE.search(error["message"])
        assert place, error
        line = int(place[1] or place[3])
        assert 1 <= line <= text.count("\n") + 1
    assert str(value) not in as_json.json["detail"] or value in ("", 7)


def test_all_faults_are_told_in_one_answer_those_of_meaning_too(machine: Machine) -> None:
    config = {
        "role": "leader",
        "mgmt": {"address": "192.0.2.11/24", "gateway": "192.0.9.1"},
        "links": [{"interface": "eth0"}, {"interface": "eth1"}, {"interface": "eth0"}, {}],
        "disks": [{"device": "/dev/sda", "confirm": "/dev/sdb"}, {"device": "/dev/sda", "confirm": "/dev/sda"}],
        "network": {"floatingIpCidrs": ["198.51.100.0/24", "198.51.100.7/24", "x", "198.51.0.0/16"]},
        "extra": 1,
    }
    expected = sorted(
        [
            *("role", "hostname", "mgmt.gateway", "links[2].interface", "links[3].interface", ""),
            *("disks[0].confirm", "disks[1].device", "network.floatingIpCidrs[1]", "network.floatingIpCidrs[2]"),
            "network.floatingIpCidrs[3]",
        ]
    )
    before = get(machine).json
    as_json = machine.configure(config)
    assert sorted(set(fields(as_json))) == expected
    assert sorted(set(fields(machine.configure_yaml(yaml.safe_dump(config))))) == expected
    assert get(machine).json == before


def test_a_range_that_overlaps_the_management_network_is_refused(machine: Machine) -> None:
    for index, cidr in enumerate(("192.0.2.0/25", "192.0.0.0/16", "192.0.2.11/32")):
        config = changed("network.floatingIpCidrs", ["198.51.100.0/24"] * bool(index) + [cidr])
        assert fields(machine.configure(config)) == [f"network.floatingIpCidrs[{int(bool(index))}]"]


def test_faults_of_yaml_have_their_line_and_column(machine: Machine) -> None:
    text = NODE_YAML.replace("confirm: /dev/sda", "confirm: /dev/sdb").replace("eth0", "[eth0]")
    errors = {error["field"]: error["message"] for error in machine.configure_yaml(text).json["errors"]}
    assert errors.keys() == {"links[0].interface", "disks[0].confirm"}
    lines = text.splitlines()
    for field, word in (("links[0].interface", "[eth0]"), ("disks[0].confirm", "/dev/sdb")):
        found = PLACE.search(errors[field])
        assert found, errors
        line, column = (int(number) for number in found.groups() if number)
        assert lines[line - 1][column - 1 :].startswith((word, "interface", "confirm")), (line, column)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n# nothing\n",
        b"null",
        b"[]",
        b"text",
        b"role: [",
        b"role: 'founder",
        b"\trole: founder",
        b"role: founder\nrole: member\n",
        b'role: founder\n"role": member\n',
        b"a: &x 1\nb: *x\n",
        b"a: &a [1]\nb: &b [*a,*a]\nc: &c [*b,*b]\nd: [*c,*c]\n",
        b"a: &a [*a]\n",
        b"<<: {role: founder}\n",
        b"!!python/object/apply:os.system ['true']\n",
        b"role: !!str founder\n",
        b"role: !x founder\n",
        b"!!binary Zm91bmRlcg==\n",
        b"? [role]\n: founder\n",
        b"? {a: b}\n: c\n",
        b"1: founder\n",
        b"null: founder\n",
        b"a: .inf\nb: .nan\n",
        b"a: 2001-01-01\nb: 190:20:30\nc: 0o17\nd: no\n",
        b"a: " + b"9" * 5000 + b"\n",
        b"[" * 20_000,
        b"{a: " * 20_000,
        b"- " * 20_000,
        b"? " * 5_000,
        b"a: |\n" + b" x\n" * 50_000,
        b"%YAML 9.9\n---\na: b\n",
        b"%TAG ! tag:x,2000:\n---\na: b\n",
        b"a: \x00\n",
        b"a: \x1b[2J\n",
        b"role: \xff\n",
        b"\xc0\xaf",
        b"role: founder\xe2\x82",
        "role: founder".encode("utf-16"),
        b"\xef\xbb\xbfrole: founder\n",
        b'a: "\\ud800"\n',
        b'a: "\\x00"\n',
    ],
)
def test_hostile_yaml_is_refused_as_a_config_and_nothing_more(machine: Machine, text: bytes) -> None:
    assert machine.configure_yaml(text).outcome == INVALID


def test_two_documents_are_not_one(machine: Machine) -> None:
    assert machine.configure_yaml(f"{NODE_YAML}---\n{NODE_YAML}").outcome == INVALID


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"role":"founder","role":"founder"}',
        b'{"k":"\xff"}',
        b'{"k":"\xc0\xaf"}',
        b'{"k":"\xe2\x82',
        b'\xef\xbb\xbf{"k":1}',
        b'{"k":NaN}',
        b'{"k":"\\ud800"}',
        b"[" * 100_000,
        b'{"mgmt":{"address":"\\u0000"}}',
        b'{"hostname":' + b"9" * 5000 + b"}",
    ],
)
def test_hostile_json_is_refused_as_a_config_and_nothing_more(machine: Machine, body: bytes) -> None:
    answer = machine.operate("PUT", CONFIG_PATH, JSON, body)
    assert answer.outcome == INVALID
    assert answer.json["errors"]


def test_a_config_without_a_body_is_refused(machine: Machine) -> None:
    assert machine.operate("PUT", CONFIG_PATH, JSON).outcome == INVALID
    assert machine.operate("PUT", CONFIG_PATH).status in {400, 415}


def test_a_config_may_have_as_many_bytes_as_the_document_says(machine: Machine) -> None:
    room = 262_144 - len(NODE_YAML.encode())
    longest = NODE_YAML + "#" * (room - 1) + "\n"
    assert machine.configure_yaml(longest).status == 200
    assert get(machine, "application/yaml").body == longest.encode()
    assert machine.configure_yaml(longest + "\n").outcome == (413, "BODY_TOO_LARGE")
    assert machine.configure().status == 200


def test_what_an_attempt_installs_is_what_was_stored_when_it_began(machine: Machine) -> None:
    assert machine.configure_yaml(NODE_YAML).status == 200
    before = machine.last_id
    shown = machine.run(("show", "sh", "-c", 'cat "$GATEHOUSE_NODE_YAML"; echo "attempt $GATEHOUSE_ATTEMPT"'))
    lines = [event.line for event in machine.history(before) if event.type == "log"]
    assert lines[-1] == f"attempt {shown['attempt']}"
    assert yaml.safe_load("\n".join(lines[:-1])) == AS_VALUE
    assert machine.configure().status == 200

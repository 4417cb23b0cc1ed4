from __future__ import annotations

import json
from typing import Any

import pytest

from tests.handlers.installer.machine import CONFIG, CONFIG_PATH, INSTALL, NODE_YAML, Machine, errors, outcome

pytestmark = pytest.mark.anyio

YAML = "application/yaml"
FROM_YAML: dict[str, Any] = {name: value for name, value in CONFIG.items() if name != "network"} | {
    "links": [{"interface": "enp3s0"}]
}


async def test_there_is_no_config_before_one_is_stored(machine: Machine) -> None:
    for accept in ("*/*", YAML):
        assert outcome(await machine.ask("GET", CONFIG_PATH, ("Accept", accept))) == (404, "CONFIG_NOT_SET")


async def test_a_config_comes_back_without_defaults(machine: Machine) -> None:
    for config in (CONFIG, FROM_YAML, FROM_YAML | {"network": {}, "role": "member"}):
        answer = await machine.put(config)
        assert (answer.status_code, answer.headers["Content-Type"], answer.json()) == (200, "application/json", config)
        assert (await machine.ask("GET", CONFIG_PATH)).json() == config


async def test_yaml_comes_back_byte_for_byte(machine: Machine) -> None:
    spelled = ["\ufeff" + NODE_YAML, NODE_YAML.replace("\n", "\r\n"), json.dumps(FROM_YAML), NODE_YAML + "...\n"]
    for text in [NODE_YAML, *spelled]:
        answer = await machine.put_yaml(text)
        assert (answer.status_code, answer.headers["Content-Type"], answer.content) == (200, YAML, text.encode())
        again = await machine.ask("GET", CONFIG_PATH, ("Accept", YAML))
        assert (again.headers["Content-Type"], again.content) == (YAML, text.encode())
        assert (await machine.ask("GET", CONFIG_PATH)).json() == FROM_YAML


async def test_json_may_be_asked_for_as_yaml(machine: Machine) -> None:
    await machine.put(CONFIG)
    answer = await machine.ask("GET", CONFIG_PATH, ("Accept", "application/yaml, */*;q=0.5"))
    assert answer.headers["Content-Type"] == YAML
    assert (await machine.put_yaml(answer.content)).content == answer.content
    assert (await machine.ask("GET", CONFIG_PATH)).json() == CONFIG


async def test_accept_chooses_the_form(machine: Machine) -> None:
    await machine.put_yaml(NODE_YAML)
    for accept, media_type in (
        ([], "application/json"),
        (["*/*"], "application/json"),
        (["text/html"], "application/json"),
        (["text/html", "Application/YAML;q=0.1"], YAML),
        (["application/json;q=0.2, application/yaml;q=0.3"], YAML),
        (["application/yaml;q=0.3", "application/json;q=0.4"], "application/json"),
    ):
        answer = await machine.ask("GET", CONFIG_PATH, *(("Accept", each) for each in accept))
        assert answer.headers["Content-Type"] == media_type, accept


async def test_what_is_put_is_answered_in_its_own_form(machine: Machine) -> None:
    headers = [("Content-Type", "Application/YAML; charset=utf-8"), ("Accept", "application/json")]
    answer = await machine.ask("PUT", CONFIG_PATH, *headers, content=NODE_YAML.encode())
    assert (answer.headers["Content-Type"], answer.text) == (YAML, NODE_YAML)


async def test_every_fault_of_json_is_told_in_one_answer(machine: Machine) -> None:
    disks = [{"device": "/dev/sda", "confirm": "/dev/sdb"}, {"device": "/dev/sda"}, {"device": "sdc", "confirm": "sdd"}]
    network = {"floatingIpCidrs": ["192.0.2.128/25", "203.0.113.1/24", "x", "::/129"]}
    wrong = CONFIG | {"role": "other", "links": [{"interface": ""}, *CONFIG["links"] * 2]}
    found = errors(await machine.put(wrong | {"disks": disks, "network": network, "more": 1}))
    assert sorted(found) == [
        ("", "has a member that the document does not know"),
        ("disks[0].confirm", "is not the device"),
        ("disks[1].confirm", "is required"),
        ("disks[1].device", "is listed already, as disks[0].device"),
        ("disks[2].confirm", "is not the device"),
        ("disks[2].device", "does not have the form that the document asks for"),
        ("links[0].interface", "does not have the form that the document asks for"),
        ("links[0].interface", "is too short"),
        ("links[3].interface", "is listed already, as links[1].interface"),
        ("links[4].interface", "is listed already, as links[2].interface"),
        ("network.floatingIpCidrs[0]", "overlaps the network of mgmt.address"),
        ("network.floatingIpCidrs[1]", "has host bits"),
        ("network.floatingIpCidrs[2]", "does not have the form that the document asks for"),
        ("network.floatingIpCidrs[3]", "does not have the form that the document asks for"),
        ("role", "is not one of the values that the document allows"),
    ]
    assert outcome(await machine.ask("GET", CONFIG_PATH)) == (404, "CONFIG_NOT_SET")


async def test_a_fault_of_meaning_alone_is_one(machine: Machine) -> None:
    wrong = CONFIG | {"mgmt": {"address": "192.0.2.11/24", "gateway": "198.51.100.1"}}
    assert errors(await machine.put(wrong)) == [("mgmt.gateway", "is not in the network of mgmt.address")]


async def test_every_fault_of_yaml_is_told_with_its_place(machine: Machine) -> None:
    text = NODE_YAML.replace("confirm: ", "confirm: /dev/sdb, device: ").replace("hostname: ", "hostname: -")
    answer = await machine.put_yaml(text.replace("192.0.2.1\n", "no\n") + "more: &x 1\n")
    assert answer.json()["detail"] == "The configuration has 6 faults."
    unclear = "'no' is not the same to every reader: put it in quotes or write it as JSON"
    assert errors(answer) == [
        ("hostname", "line 3, column 1: does not have the form that the document asks for"),
        ("mgmt.gateway", f"line 6, column 12: {unclear}"),
        ("disks[0].confirm", "line 10, column 24: is not the device"),
        ("disks[0].device", "line 10, column 43: 'device' stands here twice"),
        ("", "line 11, column 1: has a member that the document does not know"),
        ("", "line 11, column 7: anchors are not read: nothing may refer to them"),
    ]


async def test_one_fault_is_one(machine: Machine) -> None:
    answer = await machine.put_yaml("role: a: b")
    assert answer.json()["detail"] == "The configuration has 1 fault."
    [(field, message)] = errors(answer)
    assert (field, message[:27]) == ("role", "line 1, column 8: not YAML:")


async def test_what_is_no_config_at_all_is_refused_as_one(machine: Machine) -> None:
    for body in (b"", b"\xff", b"null", b"[]", b"{", b"\x00", b"{}"):
        assert errors(await machine.put(body)), body
        assert errors(await machine.put_yaml(body)), body


async def test_other_media_types_are_not_taken(machine: Machine) -> None:
    for media_type in ("text/plain", "application/x-yaml", "text/yaml", "application/problem+json", ""):
        assert outcome(await machine.put(CONFIG, media_type)) == (415, "UNSUPPORTED_MEDIA_TYPE"), media_type


async def test_a_body_has_at_most_262144_bytes(machine: Machine) -> None:
    text = json.dumps(FROM_YAML)
    for media_type in ("application/json", YAML):
        assert (await machine.put(text.rjust(262_144), media_type)).status_code == 200
        assert outcome(await machine.put(text.rjust(262_145), media_type)) == (413, "BODY_TOO_LARGE")


async def test_a_config_stays_as_it_is_while_an_attempt_runs(machine: Machine) -> None:
    await machine.put(CONFIG)
    assert (await machine.ask("POST", INSTALL)).status_code == 202
    assert outcome(await machine.put(FROM_YAML)) == (409, "INSTALL_RUNNING")
    assert outcome(await machine.put_yaml(NODE_YAML)) == (409, "INSTALL_RUNNING")
    assert errors(await machine.put_yaml("role: founder"))
    assert (await machine.ask("GET", CONFIG_PATH)).json() == CONFIG


async def test_a_config_is_stored_in_place_of_the_one_before(machine: Machine) -> None:
    await machine.put_yaml(NODE_YAML)
    await machine.put(CONFIG)
    assert (await machine.ask("GET", CONFIG_PATH)).json() == CONFIG
    assert b"rack 4" not in (await machine.ask("GET", CONFIG_PATH, ("Accept", YAML))).content

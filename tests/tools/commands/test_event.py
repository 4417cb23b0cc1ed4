from __future__ import annotations

import json
import shlex
from pathlib import Path
from uuid import UUID

import pytest

from tests.tools.commands.conftest import Command, StandIn
from tests.tools.commands.test_client import PROBLEM
from tests.tools.commands.test_delivery import DELIVERED
from tools.state import StateFolder

RUN = "019d9079-e78a-7c31-8f02-6b1d4e9a5c77"
OTHERS = ["--workflow", "w", "--trigger", "t/1", "--source", "urn:s", "--type", "t-v1", "--dataschema", "urn:d"]


@pytest.fixture
def admitting(stand_in: StandIn) -> StandIn:
    stand_in.status, stand_in.headers = 204, {"X-Coordinator-Run-Id": RUN}
    return stand_in


def test_without_any_option_one_event_of_the_demo_is_sent(
    gatehouse: Command, folder: StateFolder, admitting: StandIn
) -> None:
    done = gatehouse(
        "event", "send", "--state", folder.path, GATEHOUSE_CONTROL_BIND=admitting.url.removeprefix("http://")
    )
    assert done.returncode == 0
    assert done.stdout.splitlines()[1] == f"attempt 1: 204, run {RUN}"
    (seen,) = admitting.seen
    envelope = json.loads(seen.body)
    assert seen.target == "/v1/events/case-follow-up/case-created"
    assert envelope["data"] == {"caseId": "C-1"}
    assert envelope["causation"] == {"hop": 0, "root": envelope["id"]}
    assert UUID(envelope["id"]).version == 4


def test_every_part_of_the_event_can_be_chosen(gatehouse: Command, folder: StateFolder, admitting: StandIn) -> None:
    key = folder.path / "other.key"
    key.write_bytes(bytes(32))
    chain = [
        *("--id", "2489e9ad-2ee2-8e00-8ec9-32d5f69181c0", "--time", "2026-04-15T12:00:00Z", "--hop", "1"),
        *("--parent", "00000000-0000-4000-8000-000000000001", "--root", "00000000-0000-4000-8000-000000000001"),
        *("--record", "case/1", "--revision", "7", "--idempotency-key", "k-1", "--generation", "4", "--attempt", "9"),
    ]
    done = gatehouse(
        *("event", "send", "--state", folder.path, "--url", admitting.url, "--key-file", key, "--data", "[1]"),
        *(*OTHERS, *chain, "--json"),
    )
    assert json.loads(done.stdout) == {
        "eventId": "2489e9ad-2ee2-8e00-8ec9-32d5f69181c0",
        "time": "2026-04-15T12:00:00Z",
        "idempotencyKey": "k-1",
        "deliveries": [{"attempt": 9, "status": 204, "runId": RUN}],
    }
    (seen,) = admitting.seen
    assert seen.target == "/v1/events/w/t%2F1"
    assert seen.headers["Idempotency-Key"] == "k-1"
    assert [seen.headers[name] for name in DELIVERED[:2]] == ["4", "9"]
    assert json.loads(seen.body) == {
        "causation": {
            "hop": 1,
            "parent": "00000000-0000-4000-8000-000000000001",
            "root": "00000000-0000-4000-8000-000000000001",
        },
        "data": [1],
        "dataschema": "urn:d",
        "id": "2489e9ad-2ee2-8e00-8ec9-32d5f69181c0",
        "source": "urn:s",
        "subject": {"recordReference": "case/1", "recordRevision": 7},
        "time": "2026-04-15T12:00:00Z",
        "type": "t-v1",
    }


def test_a_redelivery_is_the_same_event_with_another_attempt_and_signature(
    gatehouse: Command, folder: StateFolder, admitting: StandIn
) -> None:
    done = gatehouse("event", "send", "--state", folder.path, "--url", admitting.url, "--repeat", "2", "--json")
    assert [each["attempt"] for each in json.loads(done.stdout)["deliveries"]] == [1, 2, 3]
    assert len({seen.body for seen in admitting.seen}) == 1
    assert len({seen.headers["Idempotency-Key"] for seen in admitting.seen}) == 1
    assert [seen.headers[DELIVERED[1]] for seen in admitting.seen] == ["1", "2", "3"]
    assert len({seen.headers["X-Registry-Signature"] for seen in admitting.seen}) == 3


@pytest.mark.parametrize("name", ["-", "data.json"])
def test_the_data_come_from_a_file_or_from_standard_input(
    gatehouse: Command, folder: StateFolder, admitting: StandIn, tmp_path: Path, name: str
) -> None:
    text = '{"caseId": "é\\u0000", "n": 1.0}\n'
    (tmp_path / "data.json").write_text(text)
    done = gatehouse("event", "send", "--state", folder.path, "--url", admitting.url, "--data-file", name, text=text)
    assert done.returncode == 0
    assert '"data":{"caseId":"é\\u0000","n":1}'.encode() in admitting.seen[0].body


def test_the_signed_target_is_the_path_under_which_the_server_is_reached(
    gatehouse: Command, folder: StateFolder, admitting: StandIn
) -> None:
    done = gatehouse("event", "send", "--state", folder.path, "--url", f"{admitting.url}/behind/")
    assert done.returncode == 0
    assert admitting.seen[0].target == "/behind/v1/events/case-follow-up/case-created"


def test_a_refused_delivery_ends_the_command_with_1_and_the_others_are_sent(
    gatehouse: Command, folder: StateFolder, stand_in: StandIn
) -> None:
    stand_in.status, stand_in.body = 409, json.dumps(PROBLEM).encode()
    done = gatehouse("event", "send", "--state", folder.path, "--url", stand_in.url, "--repeat", "1", "--json")
    assert done.returncode == 1
    assert [each["problem"] for each in json.loads(done.stdout)["deliveries"]] == [PROBLEM] * 2
    assert done.stderr.count("trace id 4bf92f3577b34da6a3ce929d0e0e4736") == 2


def test_an_event_that_nobody_answered_can_be_sent_again_by_what_is_told_of_it(
    gatehouse: Command, folder: StateFolder, admitting: StandIn
) -> None:
    send = ("event", "send", "--state", folder.path, "--json", "--url")
    lost = gatehouse(*send, "http://127.0.0.1:1")
    told = json.loads(lost.stdout)
    assert (lost.returncode, told["error"], told["deliveries"]) == (3, "unreachable", [])
    options = lost.stderr.strip().partition(" send it again with the same options and ")[2].split()
    assert options == ["--id", told["eventId"], "--time", told["time"]]
    again = json.loads(gatehouse(*send, admitting.url, *options).stdout)
    identity = ("eventId", "time", "idempotencyKey")
    assert [again[name] for name in identity] == [told[name] for name in identity]


def test_an_event_that_was_answered_is_told_with_its_time(
    gatehouse: Command, folder: StateFolder, admitting: StandIn
) -> None:
    done = gatehouse("event", "send", "--state", folder.path, "--url", admitting.url)
    envelope = json.loads(admitting.seen[0].body)
    assert done.stdout.splitlines()[0] == f"event {envelope['id']} of {envelope['time']}"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--workflow", "w", "--data", "1"], "--source, --type, --dataschema"),
        (["--data", "{"], "the data is not JSON: "),
        (["--data", ""], "the data is not JSON: "),
        (["--data", '"\udcff"'], "is not UTF-8"),
        (["--data", "[" * 2000], "the data is not JSON: "),
        (["--data", '{"a":1,"a":2}'], "repeats"),
        (["--data", "9007199254740993"], "cannot be sent"),
        (OTHERS, "an event for w/t/1 needs one of them"),
        (["--data", "1", "--data-file", "-"], "give one"),
        (["--data-file", "none.json"], "No such file"),
        (["--source", "é"], "cannot be sent"),
        (["--repeat", "-1"], "--repeat"),
    ],
)
def test_an_event_that_cannot_be_built_is_a_wrong_use(
    gatehouse: Command, folder: StateFolder, options: list[str], words: str
) -> None:
    key = folder.demo_key
    done = gatehouse("event", "send", "--state", folder.path, "--key-file", key, "--json", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in " ".join(done.stderr.replace("│", "").split())


def test_a_trigger_without_a_key_is_refused_with_the_command_that_makes_one(
    gatehouse: Command, folder: StateFolder
) -> None:
    done = gatehouse("event", "send", "--state", folder.path, "--data", "1", *OTHERS)
    assert done.returncode == 1
    assert "`gatehouse sources add`" in done.stderr


def test_a_key_that_is_too_short_or_missing_is_refused(gatehouse: Command, folder: StateFolder) -> None:
    short = folder.path / "short.key"
    short.write_bytes(b"short")
    assert gatehouse("event", "send", "--state", folder.path, "--key-file", short).returncode == 2
    missing = gatehouse("event", "send", "--state", folder.path, "--key-file", "none.key")
    assert (missing.returncode, missing.stderr) == (1, "gatehouse: none.key: No such file or directory\n")


def test_a_delivery_can_be_printed_for_curl(gatehouse: Command, folder: StateFolder, admitting: StandIn) -> None:
    data = json.dumps({"caseId": "it's"})
    done = gatehouse("event", "send", "--state", folder.path, "--url", admitting.url, "--data", data, "--curl")
    words = shlex.split(done.stdout)
    assert words[:3] == ["curl", "--include", f"{admitting.url}/v1/events/case-follow-up/case-created"]
    assert json.loads(words[-1])["data"] == {"caseId": "it's"}
    assert any(word.startswith("X-Registry-Signature: v1=") for word in words)
    assert admitting.seen == []

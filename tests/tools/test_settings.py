from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools import settings as module
from tools.settings import Bind, Settings, load
from tools.settingsfile import SettingsError
from tools.state import SETTINGS

FILE = Path("/srv/gatehouse/gatehouse.yaml")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("GATEHOUSE_")]:
        monkeypatch.delenv(name)


def parse(text: str, file: Path, database: Path | None = None) -> Settings:
    return module.parse(text.encode(), file, database)


def findings(text: str) -> list[str]:
    with pytest.raises(SettingsError) as refused:
        parse(text, FILE)
    return refused.value.findings


def test_an_empty_file_gives_the_defaults() -> None:
    settings = parse("", FILE)
    assert [str(settings.bind(name)) for name in ("control", "installer", "join")] == [
        "127.0.0.1:8080",
        "127.0.0.1:9443",
        "127.0.0.1:8443",
    ]
    assert settings.database_url == "sqlite:////srv/gatehouse/gatehouse.db"
    assert (settings.node, settings.events, settings.connections) == ("local", (), {})
    assert settings.installer.comment_seconds == 15


def test_what_init_writes_is_the_defaults_and_what_the_demo_needs() -> None:
    settings, defaults = parse(SETTINGS, FILE), parse("", FILE)
    assert settings.events[0].key_files == (Path("/srv/gatehouse/sources/demo.key"),)
    receiver = settings.connections["demo-receiver"]
    assert (receiver.base_url, receiver.recovery) == ("http://127.0.0.1:8099", "same-command")
    assert (receiver.methods, receiver.paths) == (("POST",), ("/notices",))
    assert settings.model_copy(update={"events": (), "connections": {}}) == defaults


def test_the_environment_wins_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEHOUSE_CONTROL_BIND", "127.0.0.1:18080")
    monkeypatch.setenv("GATEHOUSE_JOIN_BIND", "[::1]:0")
    monkeypatch.setenv("GATEHOUSE_NODE", "n2")
    monkeypatch.setenv("GATEHOUSE_DATABASE_URL", "postgresql://u:p@db/gatehouse")
    monkeypatch.setenv("GATEHOUSE_LIMITS_WAITING", "12")
    settings = parse("control: {bind: 127.0.0.1:1}\nlimits: {waiting: 5, readers: 7}\nnode: n1\n", FILE)
    assert settings.control.bind == Bind("127.0.0.1", 18080)
    assert settings.join.bind == Bind("::1", 0)
    assert (settings.node, settings.limits.waiting, settings.limits.readers) == ("n2", 12, 7)
    assert settings.database_url == "postgresql://u:p@db/gatehouse"


def test_paths_are_relative_to_the_settings_file_and_the_default_database_to_the_state_folder() -> None:
    text = "events: [{workflow: w, trigger: t, keyFiles: [a.key, /etc/b.key]}]\n"
    settings = parse(text, FILE, Path("/var/lib/gatehouse/gatehouse.db"))
    assert settings.events[0].key_files == (Path("/srv/gatehouse/a.key"), Path("/etc/b.key"))
    assert settings.database_url == "sqlite:////var/lib/gatehouse/gatehouse.db"
    assert parse("databaseUrl: sqlite:///x.db", FILE).database_url == "sqlite:////srv/gatehouse/x.db"
    assert parse("databaseUrl: sqlite:////x.db", FILE).database_url == "sqlite:////x.db"


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("nod: a\n", ":1:1: nod is not a setting (did you mean node?)"),
        ("databaseURL: x\n", ":1:1: databaseURL is not a setting (did you mean databaseUrl?)"),
        ("database_url: x\n", ":1:1: database_url is not a setting (did you mean databaseUrl?)"),
        ("_env_file: x\n", ":1:1: _env_file is not a setting"),
        ("control:\n  bind: 127.0.0.1:1\n  port: 5\n", ":3:3: control.port is not a setting"),
        ("control:\n", ":1:1: control must be a mapping"),
        ("control: {}\n", ":1:1: control.bind is missing"),
        ("node: 5\n", ":1:1: node must be text"),
        ("node: A b\n", ":1:1: node must match pattern"),
        ("limits:\n  waiting: 0\n", ":2:3: limits.waiting must be greater than or equal to 1"),
        ("limits:\n  waiting: true\n", ":2:3: limits.waiting must be a whole number"),
        ("limits:\n  waitin: 3\n", ":2:3: limits.waitin is not a setting (did you mean waiting?)"),
        ("events: {}\n", ":1:1: events must be a list"),
        ("events:\n  - workflow: w\n    trigger: t\n", ":2:5: events[0].keyFiles is missing"),
        (
            "events:\n  - {workflow: w, trigger: t, keyFiles: [a, b, c]}\n",
            ":2:31: events[0].keyFiles must be one file or two",
        ),
        (
            "events:\n  - {workflow: w, trigger: t, keyFiles: [a]}\n  - {workflow: w, trigger: t, keyFiles: [b]}\n",
            ":1:1: events must name each pair of workflow and trigger once",
        ),
        ("connections: {a: {baseUrl: ftp://x}}\n", ":1:19: connections.a.baseUrl must be http"),
        ("connections: {a: {baseUrl: http://u:p@x}}\n", ":1:19: connections.a.baseUrl must be http"),
        (
            "connections: {a: {baseurl: http://x}}\n",
            ":1:19: connections.a.baseurl is not a setting (did you mean baseUrl?)",
        ),
        ("connections: {a: {baseUrl: http://10.0.0.7}}\n", ":1:19: connections.a.baseUrl must be https://HOST"),
        ("connections: {a: {baseUrl: https://x/a/../b}}\n", ":1:19: connections.a.baseUrl must be visible ASCII"),
        ("connections: {a: {baseUrl: https://x, methods: POST}}\n", ":1:39: connections.a.methods must be a list"),
        ("connections: {a: {methods: [HEAD]}}\n", ":1:29: connections.a.methods[0] must be 'GET', 'POST', "),
        ("connections: {a: {paths: [/a, b]}}\n", ":1:31: connections.a.paths[1] must begin with a slash"),
        ("connections: {a: {paths: ['/{a b}']}}\n", ":1:27: connections.a.paths[0] must begin with a slash"),
        ("connections: {a: {paths: [/a/..]}}\n", ":1:27: connections.a.paths[0] must begin with a slash"),
        ("connections: {a: {recovery: again}}\n", ":1:19: connections.a.recovery must be 'read-again', 'same-com"),
        (
            "connections: {a: {methods: [GET, PUT], recovery: read-again}}\n",
            ":1:40: connections.a.recovery must be another than read-again, unless methods has GET alone",
        ),
        (
            "connections: {a: {baseUrl: https://x, recovery: same-command-and-receipt}}\n",
            ":1:15: connections.a must have receiptPath, where same-command-and-receipt asks",
        ),
        (
            "connections: {a: {recovery: same-command, receiptPath: '/{key}'}}\n",
            ":1:43: connections.a.receiptPath must be absent, unless recovery is same-command-and-receipt",
        ),
        (
            "connections: {a: {baseUrl: 'http://localhost', caFile: ca.pem}}\n",
            ":1:48: connections.a.caFile must be absent, unless baseUrl begins with https",
        ),
        ("connections: {a: {receiptPath: '/{key}/{key}'}}\n", "connections.a.receiptPath must have {key} once, and no"),
        ("connections: {a: {receiptPath: '/{key}/{id}'}}\n", "connections.a.receiptPath must have {key} once, and no"),
        ("connections: {a: {timeoutSeconds: 0.05}}\n", "connections.a.timeoutSeconds must be greater than or equal"),
        ("connections: {a: {timeoutSeconds: 301}}\n", "connections.a.timeoutSeconds must be less than or equal to 300"),
        ("connections: {a: {maxResponseBytes: 0}}\n", "connections.a.maxResponseBytes must be greater than or equal"),
        ("connections: {a: {maxResponseBytes: 1048577}}\n", "connections.a.maxResponseBytes must be less than or"),
        ("connections: {a: {responseSchema: true}}\n", ":1:19: connections.a.responseSchema must be a mapping"),
        (
            "connections:\n  a:\n    responseSchema:\n      properties: {x: {typ: object}}\n",
            ":4:24: connections.a.responseSchema.properties.x.typ no such keyword is known here",
        ),
        ("execution: {enabled: 1}\n", ":1:13: execution.enabled must be true or false"),
        ("execution: {concurrency: 0}\n", ":1:13: execution.concurrency must be greater than or equal to 1"),
        ("execution: {concurrency: 65}\n", ":1:13: execution.concurrency must be less than or equal to 64"),
        ("execution: {workers: 2}\n", ":1:13: execution.workers is not a setting"),
        ("join:\n  tls: false\n", ":2:3: join.tls must be true, unless trustedProxies names who ends TLS before it"),
        ("join: {tls: 1, trustedProxies: [10.0.0.7]}\n", ":1:8: join.tls must be true or false"),
        ("join: {trustedProxies: 10.0.0.7}\n", ":1:8: join.trustedProxies must be a list"),
        (
            "join:\n  trustedProxies: [10.0.0.7, 10.0.0.7/8]\n",
            ":2:30: join.trustedProxies[1] must be an address or a network",
        ),
        ("join: {turnTimeoutSeconds: 0}\n", ":1:8: join.turnTimeoutSeconds must be greater than or equal to 1"),
        ("join: {turnTimeoutSeconds: 86401}\n", ":1:8: join.turnTimeoutSeconds must be less than or equal to 86400"),
        ("join: {turnTimeout: 5}\n", "join.turnTimeout is not a setting (did you mean turnTimeoutSeconds?)"),
        ("rafts: {}\n", ":1:1: rafts must be a list"),
        ("rafts: [{kind: ledger}]\n", ":1:9: rafts[0].name is missing"),
        ("rafts: [{name: A, kind: ledger}]\n", ":1:10: rafts[0].name must match pattern"),
        ("rafts: [{name: a, kind: zookeeper}]\n", ":1:19: rafts[0].kind must be 'ledger' or 'etcd'"),
        ("rafts: [{name: a, kind: ledger, peerPort: 0}]\n", ":1:33: rafts[0].peerPort must be greater than"),
        ("rafts: [{name: a, kind: ledger, peerScheme: tcp}]\n", "rafts[0].peerScheme must be 'http' or 'https'"),
        ("rafts: [{name: a, kind: ledger, endpoint: x}]\n", "rafts[0].endpoint is not a setting (did you mean endp"),
        ("rafts: [{name: a, kind: ledger, endpoints: ['http://x']}]\n", "rafts[0].endpoints must be absent"),
        ("rafts: [{name: a, kind: ledger, caFile: x}]\n", "rafts[0].caFile must be absent"),
        ("rafts: [{name: a, kind: etcd}]\n", "rafts[0].endpoints must name at least one http://HOST:PORT"),
        ("rafts: [{name: a, kind: etcd, endpoints: ['x:1']}]\n", "rafts[0].endpoints[0] must be http://HOST"),
        (
            "rafts: [{name: a, kind: etcd, endpoints: ['http://x'], certFile: c}]\n",
            ":1:9: rafts[0] must have certFile and keyFile, or neither",
        ),
        ("rafts: [{name: a, kind: ledger}, {name: a, kind: ledger}]\n", ":1:1: rafts must have different names"),
    ],
)
def test_a_bad_setting_is_refused_by_its_name_and_place(text: str, finding: str) -> None:
    assert any(each.startswith(str(FILE)) and finding in each for each in findings(text))


@pytest.mark.parametrize(
    "bind",
    [
        "8080",
        ":8080",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:65536",
        "127.0.0.1:080",
        "127.0.0.1:٣",
        "::1:80",
        "a b:1",
        "a:1 ",
    ],
)
def test_an_address_is_a_host_and_a_port(bind: str) -> None:
    assert findings(f'control: {{bind: "{bind}"}}') == [
        f"{FILE}:1:11: control.bind must be HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080"
    ]


@pytest.mark.parametrize("text", ["127.0.0.1:0", "localhost:65535", "[::1]:8080", "0.0.0.0:80"])
def test_an_address_is_written_as_it_was_read(text: str) -> None:
    assert str(Bind.parse(text)) == text


def test_join_and_its_raft_have_defaults_that_the_file_and_the_environment_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = parse("", FILE)
    assert (settings.join.tls, settings.join.trusted_proxies, settings.join.turn_timeout_seconds) == (True, (), 600)
    (raft,) = settings.rafts
    assert (raft.name, raft.kind, raft.peer_port, raft.peer_scheme) == ("control", "ledger", 2380, "https")
    monkeypatch.setenv("GATEHOUSE_JOIN_TURN_TIMEOUT_SECONDS", "5")
    monkeypatch.setenv("GATEHOUSE_JOIN_TLS", "false")
    settings = parse("join: {trustedProxies: [10.0.0.7, '2001:db8::/32']}\nrafts: []\n", FILE)
    assert (settings.join.bind, settings.join.turn_timeout_seconds, settings.rafts) == (Bind("127.0.0.1", 8443), 5, ())
    assert list(map(str, settings.join.trusted_proxies)) == ["10.0.0.7/32", "2001:db8::/32"]
    assert not settings.join.tls


@pytest.mark.parametrize(("value", "seconds"), [("0.1", 0.1), ("20", 20.0), ("3600", 3600.0)])
def test_how_long_a_stream_is_silent_is_a_number_of_seconds(
    value: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert parse(f"installer: {{commentSeconds: {value}}}", FILE).installer.comment_seconds == seconds
    monkeypatch.setenv("GATEHOUSE_INSTALLER_COMMENT_SECONDS", value)
    assert parse("", FILE).installer.comment_seconds == seconds


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("0.05", "must be greater than or equal to 0.1"),
        ("3601", "must be less than or equal to 3600"),
        ("true", "must be a number of seconds"),
        ("'1e1'", "must be a number of seconds"),
        ("[1]", "must be a number of seconds"),
    ],
)
def test_how_long_a_stream_is_silent_has_bounds(value: str, message: str) -> None:
    (finding,) = findings(f"installer: {{commentSeconds: {value}}}")
    assert finding.endswith(f"installer.commentSeconds {message}")


def test_a_list_is_no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEHOUSE_JOIN_TRUSTED_PROXIES", "10.0.0.7")
    (finding,) = findings("")
    assert finding.startswith("environment: GATEHOUSE_JOIN_TRUSTED_PROXIES is not a setting")


def test_the_files_of_an_etcd_cluster_are_relative_to_the_settings_file() -> None:
    etcd = "kind: etcd, endpoints: ['http://127.0.0.1:2379'], peerScheme: http"
    settings = parse(f"rafts: [{{name: store, {etcd}, caFile: etcd/ca.pem, certFile: /c, keyFile: k}}]\n", FILE)
    (raft,) = settings.rafts
    files = (raft.ca_file, raft.cert_file, raft.key_file)
    assert files == (Path("/srv/gatehouse/etcd/ca.pem"), Path("/c"), Path("/srv/gatehouse/k"))
    assert (raft.endpoints, raft.peer_scheme) == (("http://127.0.0.1:2379",), "http")


CONNECTION = """
connections:
  registry:
    baseUrl: https://registry.example/v2
    methods: [GET, POST]
    paths: [/cases, "/cases/{id}"]
    recovery: same-command-and-receipt
    receiptPath: "/receipts/{key}"
    tokenFile: secrets/registry.token
    caFile: secrets/registry.pem
    timeoutSeconds: 2.5
    maxResponseBytes: 1000
    responseSchema: {type: object, required: [id]}
"""


def test_a_connection_says_what_may_be_called_and_how_a_call_recovers() -> None:
    settings = parse(CONNECTION, FILE)
    registry = settings.connections["registry"]
    assert registry.token_file == Path("/srv/gatehouse/secrets/registry.token")
    assert registry.ca_file == Path("/srv/gatehouse/secrets/registry.pem")
    assert (registry.timeout_seconds, registry.max_response_bytes) == (2.5, 1000)
    assert settings.called()["registry"] == {
        "baseUrl": "https://registry.example/v2",
        "methods": ["GET", "POST"],
        "paths": ["/cases", "/cases/{id}"],
        "recovery": "same-command-and-receipt",
        "receiptPath": "/receipts/{key}",
        "tokenFile": "/srv/gatehouse/secrets/registry.token",
        "caFile": "/srv/gatehouse/secrets/registry.pem",
        "timeoutSeconds": 2.5,
        "maxResponseBytes": 1000,
        "responseSchema": {"type": "object", "required": ["id"]},
    }


@pytest.mark.parametrize("more", ["", ", timeoutSeconds: 10, recovery: hold-after-dispatch, methods: []"])
def test_what_a_connection_has_by_default_is_left_out_of_its_json(more: str) -> None:
    settings = parse(f"connections: {{crm: {{baseUrl: https://crm.example{more}}}}}", FILE)
    assert settings.called() == {"crm": {"baseUrl": "https://crm.example"}}
    crm = settings.connections["crm"]
    assert (crm.methods, crm.paths, crm.recovery, crm.receipt_path) == ((), (), "hold-after-dispatch", None)
    assert (crm.timeout_seconds, crm.max_response_bytes, crm.response_schema) == (10, 262_144, None)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8099", "127.8.0.1", "[::1]:80"])
def test_a_service_of_the_machine_itself_may_be_called_without_tls(host: str) -> None:
    settings = parse(f'connections: {{a: {{baseUrl: "http://{host}"}}}}', FILE)
    assert settings.connections["a"].base_url == f"http://{host}"


def test_execution_has_defaults_that_the_file_and_the_environment_change(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (parse("", FILE).execution.enabled, parse("", FILE).execution.concurrency) == (True, 8)
    assert parse("execution: {concurrency: 2}", FILE).execution.concurrency == 2
    monkeypatch.setenv("GATEHOUSE_EXECUTION_ENABLED", "false")
    monkeypatch.setenv("GATEHOUSE_EXECUTION_CONCURRENCY", "64")
    execution = parse("execution: {concurrency: 2}", FILE).execution
    assert (execution.enabled, execution.concurrency) == (False, 64)


def test_only_control_and_a_join_behind_a_proxy_are_without_tls() -> None:
    settings = parse("join: {tls: false, trustedProxies: [10.0.0.7]}", FILE)
    assert [settings.tls(name) for name in ("control", "installer", "join")] == [False, True, False]
    assert parse("", FILE).tls("join")


def test_every_fault_is_told_at_once() -> None:
    assert len(findings("nod: a\ncontrol: {bind: x}\njoin: {bind: y}\n")) == 3


def test_a_bad_variable_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEHOUSE_JOIN_BIND", "nowhere")
    assert findings("") == ["environment: GATEHOUSE_JOIN_BIND must be HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080"]


def test_an_unknown_variable_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEHOUSE_JION_BIND", "127.0.0.1:1")
    assert findings("") == [
        "environment: GATEHOUSE_JION_BIND is not a setting (did you mean GATEHOUSE_JOIN_BIND?)",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "GATEHOUSE_ATTEMPT",
        "GATEHOUSE_NODE_YAML",
        "GATEHOUSE_JOIN_TOKEN",
        "GATEHOUSE_JOIN_NAME",
        "GATEHOUSE_RAFT_PEERS",
        "GATEHOUSE_SERVICE_HOST",
        "GATEHOUSE_PORT",
        "GATEHOUSE_PORT_8080_TCP_ADDR",
    ],
)
def test_variables_that_others_set_are_not_settings(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "anything")
    assert parse("", FILE).node == "local"


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:hush@h/db",
        "postgres://u:hush@h/db",
        "sqlite://hush",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///hush?mode=ro",
        "postgresql://u:hush@[::1/db",
        "postgresql://u:hush@h:port/db",
        "postgresql://u:p@h/db?hush=1",
    ],
)
def test_a_database_url_that_is_refused_is_not_shown(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    in_file = findings(f'databaseUrl: "{url}"')
    monkeypatch.setenv("GATEHOUSE_DATABASE_URL", url)
    assert in_file == [f"{FILE}:1:1: databaseUrl must be sqlite:///PATH or postgresql://…"]
    assert findings("") == ["environment: GATEHOUSE_DATABASE_URL must be sqlite:///PATH or postgresql://…"]


def test_settings_do_not_show_the_password_of_the_database() -> None:
    settings = parse("databaseUrl: postgresql://u:hush@h/db", FILE)
    assert "hush" in settings.database_url
    assert "hush" not in f"{settings!r} {settings}"


def test_a_file_that_is_missing_or_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "gatehouse.yaml"
    with pytest.raises(SettingsError, match="No such file"):
        load(file)
    file.write_bytes(b"node: \xff\n")
    with pytest.raises(SettingsError, match=":1:7: not UTF-8"):
        load(file)


def test_settings_cannot_be_changed() -> None:
    settings: Settings = parse("", FILE)
    with pytest.raises(ValueError, match="frozen"):
        settings.node = "other"

"""The settings of a server: gatehouse.yaml, then the environment; what is wrong is told by its name and place.

Secrets themselves (tokens, source keys) stand in files of the state folder, never here; the one exception is the
password in a database URL, which no message and no repr shows.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, TypeVar, get_origin
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, PydanticCustomError
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from handlers.coordinator.workflows.path_template import MAX_TEMPLATE, PARAMETER, PATH_TEMPLATE, has_dot_segments
from tools import settingsfile
from tools.settingsfile import SettingsError, SettingsText

ListenerName = Literal["control", "installer", "join"]
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

# The commands of an install's or a join's plan find these in their environment, and such a command may be gatehouse
# itself; a join's token is there for `gatehouse join`, and an install code for `gatehouse install`.
_FOREIGN: Final = frozenset(
    f"GATEHOUSE_{name}"
    for name in (
        *("ATTEMPT", "NODE_YAML", "INSTALL_CODE", "JOIN_TOKEN", "JOIN_ID", "JOIN_NAME", "JOIN_ADDRESS"),
        *("RAFT_NAME", "RAFT_PEERS", "RAFT_PEER_URLS"),
    )
)
# Kubernetes sets these for a Service whose name begins with gatehouse.
_SERVICE_LINK: Final = re.compile(r"_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT(_[0-9]+_(TCP|UDP|SCTP)(_\w+)?)?$")
_SQLITE: Final = "sqlite:///"
# A connection to the machine itself meets no network.
LOOPBACK: Final = re.compile(r"localhost|127(\.[0-9]{1,3}){3}|::1")
_VISIBLE: Final = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class Bind:
    """Where a listener listens; port 0 takes a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: object) -> Bind:
        """Read HOST:PORT, an IPv6 address in brackets; raises PydanticCustomError."""
        found = _BIND.fullmatch(text) if isinstance(text, str) else None
        if found is None or int(found["port"]) > 65535:
            raise PydanticCustomError("bind", "must be HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080")
        return cls(found["v6"] or found["host"], int(found["port"]))


_BIND: Final = re.compile(
    r"(\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)):(?P<port>0|[1-9][0-9]{0,4})"
)


_NO_DATABASE: Final = PydanticCustomError("database", "must be sqlite:///PATH or postgresql://…")


def _database_url(url: str) -> str:
    if url.startswith("postgresql://"):
        return _postgresql_url(url)
    path = url.removeprefix(_SQLITE)
    if path == url or path in ("", ":memory:") or "?" in path:
        raise _NO_DATABASE
    return url


def _postgresql_url(url: str) -> str:
    # Imported here, since most commands and most servers never meet such a URL.
    from psycopg import ProgrammingError, conninfo  # noqa: PLC0415
    from sqlalchemy import make_url  # noqa: PLC0415
    from sqlalchemy.exc import ArgumentError  # noqa: PLC0415

    try:
        conninfo.make_conninfo(**{name: str(value) for name, value in make_url(url).query.items()})
    except (ValueError, ArgumentError, ProgrammingError):
        raise _NO_DATABASE from None
    return url


def _base_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable or "@" in url or "?" in url or "#" in url:
        raise PydanticCustomError("base_url", "must be http://HOST[:PORT][/PATH] or https://…, without user or query")
    return url


def _service_url(url: str) -> str:
    parts = urlsplit(_base_url(url))
    if parts.scheme == "http" and not LOOPBACK.fullmatch(str(parts.hostname)):
        raise PydanticCustomError("service_url", "must be https://HOST[:PORT][/PATH]; http goes to loopback alone")
    if not _VISIBLE.fullmatch(url) or has_dot_segments(parts.path):
        raise PydanticCustomError("service_url", "must be visible ASCII, without the segments '.' and '..'")
    return url


def _template(path: str) -> str:
    if len(path) > MAX_TEMPLATE or not re.fullmatch(PATH_TEMPLATE, path) or has_dot_segments(path):
        raise PydanticCustomError(
            "template",
            "must begin with a slash and have only characters of a path, %XX and {names}, no segments '.' and '..'",
        )
    return path


def _receipt_template(path: str) -> str:
    if PARAMETER.findall(_template(path)) != ["key"]:
        raise PydanticCustomError("receipt", "must have {key} once, and no other name in braces")
    return path


def _schema(schema: dict[str, Any]) -> dict[str, Any]:
    # Imported here, since most commands meet no schema.
    from handlers.coordinator.workflows.schema import check_schema  # noqa: PLC0415

    for fault in check_schema(schema):
        raise PydanticCustomError("schema", "{told}", {"told": fault.message, "below": fault.path})
    return schema


def _count(value: object) -> int:
    if isinstance(value, str) and re.fullmatch("0|[1-9][0-9]{0,9}", value):
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise PydanticCustomError("count", "must be a whole number")
    return value


Count = Annotated[int, BeforeValidator(_count)]


def _seconds(value: object) -> float:
    if isinstance(value, str) and re.fullmatch(r"(0|[1-9][0-9]{0,9})(\.[0-9]{1,9})?", value):
        return float(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise PydanticCustomError("seconds", "must be a number of seconds")
    return value


Seconds = Annotated[float, BeforeValidator(_seconds)]


def _switch(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value not in ("true", "false"):
        raise PydanticCustomError("switch", "must be true or false")
    return value == "true"


def _network(value: object) -> Network:
    try:
        return ipaddress.ip_network(value if isinstance(value, str) else "")
    except ValueError:
        raise PydanticCustomError("network", "must be an address or a network, such as 10.0.0.0/24") from None


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, hide_input_in_errors=True)


class Listener(_Part):
    """One of the three listeners."""

    bind: Annotated[Bind, PlainValidator(Bind.parse)]


class Installer(Listener):
    """The installer listener, and after how many seconds without an event a stream shows that it lives."""

    bind: Annotated[Bind, PlainValidator(Bind.parse)] = Bind("127.0.0.1", 9443)
    comment_seconds: Seconds = Field(default=15.0, ge=0.1, le=3600)


class Join(Listener):
    """The join listener: how nodes reach it, and how long the one whose turn it is may be silent.

    `trusted_proxies` are those whose Client-Cert header counts (RFC 9440).
    """

    bind: Annotated[Bind, PlainValidator(Bind.parse)] = Bind("127.0.0.1", 8443)
    trusted_proxies: tuple[Annotated[Network, PlainValidator(_network)], ...] = ()
    tls: Annotated[bool, PlainValidator(_switch)] = True
    turn_timeout_seconds: Count = Field(default=600, ge=1, le=86_400)

    @field_validator("tls")
    @classmethod
    def _told_by_whom(cls, tls: bool, info: ValidationInfo) -> bool:
        if not tls and info.data.get("trusted_proxies") == ():
            raise PydanticCustomError("tls", "must be true, unless trustedProxies names who ends TLS before it")
        return tls


class Raft(_Part):
    """A raft that each node joins; `endpoints` and the files are an etcd cluster's, `ledger` is our own database."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")
    kind: Literal["ledger", "etcd"]
    endpoints: tuple[Annotated[str, AfterValidator(_base_url)], ...] = Field(default=(), validate_default=True)
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    peer_port: Count = Field(default=2380, ge=1, le=65_535)
    peer_scheme: Literal["http", "https"] = "https"

    @field_validator("endpoints")
    @classmethod
    def _some_for_etcd(cls, endpoints: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if info.data.get("kind") == "etcd" and not endpoints:
            raise PydanticCustomError("endpoints", "must name at least one http://HOST:PORT of the etcd cluster")
        return endpoints

    @field_validator("endpoints", "ca_file", "cert_file", "key_file")
    @classmethod
    def _none_for_ledger(cls, value: Any, info: ValidationInfo) -> Any:
        if value and info.data.get("kind") == "ledger":
            raise PydanticCustomError("ledger", "must be absent: a ledger is kept in the server's own database")
        return value

    @model_validator(mode="after")
    def _certificate_with_its_key(self) -> Self:
        if (self.cert_file is None) != (self.key_file is None):
            raise PydanticCustomError("pair", "must have certFile and keyFile, or neither")
        return self


def _distinct_names(rafts: tuple[Raft, ...]) -> tuple[Raft, ...]:
    if len({raft.name for raft in rafts}) < len(rafts):
        raise PydanticCustomError("names", "must have different names")
    return rafts


class EventSource(_Part):
    """The keys that may sign the events of one workflow's trigger; two of them while a key is being rotated."""

    workflow: str = Field(min_length=1, max_length=64)
    trigger: str = Field(min_length=1, max_length=64)
    key_files: tuple[Path, ...] = Field(min_length=1, max_length=2)


def _distinct(sources: tuple[EventSource, ...]) -> tuple[EventSource, ...]:
    if len({(source.workflow, source.trigger) for source in sources}) < len(sources):
        raise PydanticCustomError("pair", "must name each pair of workflow and trigger once")
    return sources


Template = Annotated[str, AfterValidator(_template)]


class Connection(_Part):
    """A service that workflows may call, under the name they know it by: with which methods and path templates.

    `recovery` says what becomes of a command that was sent and whose effect is not known; a receipt is what the service
    tells at `receipt_path` of the command with a key. `ca_file` has, in PEM, the authorities that vouch for the
    service, in place of the public ones. `response_schema` describes the body of every success.
    """

    base_url: Annotated[str, AfterValidator(_service_url)]
    methods: tuple[Literal["GET", "POST", "PUT", "PATCH", "DELETE"], ...] = ()
    paths: tuple[Template, ...] = ()
    recovery: Literal["read-again", "same-command", "same-command-and-receipt", "hold-after-dispatch"] = (
        "hold-after-dispatch"
    )
    receipt_path: Annotated[str, AfterValidator(_receipt_template)] | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    timeout_seconds: Seconds = Field(default=10.0, ge=0.1, le=300)
    max_response_bytes: Count = Field(default=262_144, ge=1, le=1_048_576)
    response_schema: Annotated[dict[str, Any], AfterValidator(_schema)] | None = None

    @field_validator("recovery")
    @classmethod
    def _reads_alone_are_read_again(cls, recovery: str, info: ValidationInfo) -> str:
        if recovery == "read-again" and set(info.data.get("methods", ())) - {"GET"}:
            raise PydanticCustomError("recovery", "must be another than read-again, unless methods has GET alone")
        return recovery

    @field_validator("receipt_path")
    @classmethod
    def _with_its_recovery_alone(cls, receipt_path: str | None, info: ValidationInfo) -> str | None:
        if info.data.get("recovery", "same-command-and-receipt") != "same-command-and-receipt":
            raise PydanticCustomError("receipt", "must be absent, unless recovery is same-command-and-receipt")
        return receipt_path

    @field_validator("ca_file")
    @classmethod
    def _over_tls_alone(cls, ca_file: Path | None, info: ValidationInfo) -> Path | None:
        if ca_file is not None and not info.data.get("base_url", "https:").lower().startswith("https:"):
            raise PydanticCustomError("authority", "must be absent, unless baseUrl begins with https")
        return ca_file

    @model_validator(mode="after")
    def _recovery_with_its_receipt(self) -> Self:
        if self.recovery == "same-command-and-receipt" and self.receipt_path is None:
            raise PydanticCustomError("receipt", "must have receiptPath, where same-command-and-receipt asks")
        return self


class Execution(_Part):
    """Whether a server of the control listener carries runs out, and how many at a time."""

    enabled: Annotated[bool, PlainValidator(_switch)] = True
    concurrency: Count = Field(default=8, ge=1, le=64)


class Limits(_Part):
    """What storage may use: work and reads that wait, reading connections, milliseconds to wait for a lock."""

    waiting: Count = Field(default=2048, ge=1, le=1_000_000)
    reads_waiting: Count = Field(default=256, ge=1, le=1_000_000)
    readers: Count = Field(default=4, ge=1, le=64)
    busy_milliseconds: Count = Field(default=2000, ge=0, le=60_000)


class Settings(BaseSettings):
    """Everything that gatehouse.yaml may say; made by `load` and `parse`, which also make its paths absolute."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, hide_input_in_errors=True)

    control: Listener = Listener.model_validate({"bind": "127.0.0.1:8080"})
    installer: Installer = Installer()
    join: Join = Join()
    rafts: Annotated[tuple[Raft, ...], AfterValidator(_distinct_names)] = (Raft(name="control", kind="ledger"),)
    database_url: Annotated[str, AfterValidator(_database_url)] = Field(default="sqlite:///gatehouse.db", repr=False)
    node: str = Field(default="local", pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")
    events: Annotated[tuple[EventSource, ...], AfterValidator(_distinct)] = ()
    connections: dict[str, Connection] = {}
    execution: Execution = Execution()
    limits: Limits = Limits()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - it would pass over a misspelt name in silence
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - no .env file is read
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - no folder of secrets is read
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment wins over what the caller gives, which is what the file said."""
        return InitSettingsSource(settings_cls, _environment()), init_settings

    def bind(self, listener: ListenerName) -> Bind:
        """Where that listener is to listen."""
        parts: dict[ListenerName, Listener] = {"control": self.control, "installer": self.installer, "join": self.join}
        return parts[listener].bind

    def tls(self, listener: ListenerName) -> bool:
        """Whether that listener speaks TLS itself."""
        return {"control": False, "installer": True, "join": self.join.tls}[listener]

    def called(self) -> dict[str, dict[str, Any]]:
        """The connections by name, as JSON under the names of the file; what is as by default is left out."""
        return {
            name: each.model_dump(mode="json", by_alias=True, exclude_defaults=True)
            for name, each in self.connections.items()
        }

    def rooted(self, folder: Path, database: Path) -> Settings:
        """The same settings, with paths absolute: those of the file are relative to `folder`.

        `database` is the SQLite file that is meant where no database URL is set.
        """
        url = self.database_url
        if "database_url" not in self.model_fields_set:
            url = f"{_SQLITE}{database.absolute()}"
        elif url.startswith(_SQLITE):
            url = f"{_SQLITE}{(folder / url.removeprefix(_SQLITE)).absolute()}"
        events = tuple(
            source.model_copy(update={"key_files": tuple((folder / file).absolute() for file in source.key_files)})
            for source in self.events
        )
        rafts = tuple(_with_absolute_files(raft, folder) for raft in self.rafts)
        connections = {name: _with_absolute_files(each, folder) for name, each in self.connections.items()}
        return self.model_copy(
            update={"database_url": url, "events": events, "rafts": rafts, "connections": connections}
        )


_WithFiles = TypeVar("_WithFiles", Raft, Connection)


def _with_absolute_files(part: _WithFiles, folder: Path) -> _WithFiles:
    files = {name: value for name in type(part).model_fields if isinstance(value := getattr(part, name), Path)}
    return part.model_copy(update={name: (folder / file).absolute() for name, file in files.items()})


def load(file: Path, database: Path | None = None) -> Settings:
    """Read the settings file, then the environment; SettingsError tells everything that is wrong with both.

    `database` is the SQLite file that is meant where no database URL is set; by default gatehouse.db beside `file`.
    """
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise SettingsError([f"{file}: {error.strerror}"]) from None
    return parse(raw, file, database)


def parse(raw: bytes, file: Path, database: Path | None = None) -> Settings:
    """Do what `load` does with the bytes of `file`, which need not exist yet."""
    document = settingsfile.read(raw, str(file))
    unknown = _unknown_settings(document) + _unknown_variables()
    try:
        settings = Settings(**{name: document.value[name] for name in document.value.keys() & _SETTINGS})
    except ValidationError as error:
        raise SettingsError(unknown + [_finding(each, document) for each in error.errors()]) from None
    if unknown:
        raise SettingsError(unknown)
    return settings.rooted(file.parent, database or file.parent / "gatehouse.db")


def _variables() -> dict[str, tuple[str, ...]]:
    """The environment's names, each with the setting it stands for; lists and mappings stand in the file alone."""
    names: dict[str, tuple[str, ...]] = {}
    for name, field in Settings.model_fields.items():
        part = field.annotation
        if isinstance(part, type) and issubclass(part, BaseModel):
            names |= {
                _variable(name, inner): (to_camel(name), to_camel(inner))
                for inner, value in part.model_fields.items()
                if get_origin(value.annotation) is not tuple
            }
        elif part is str:
            names[_variable(name)] = (to_camel(name),)
    return names


def _variable(*names: str) -> str:
    return "_".join(("GATEHOUSE", *names)).upper()


VARIABLES: Final = _variables()
_PARTS: Final[dict[str, type[BaseModel]]] = {
    "control": Listener,
    "installer": Installer,
    "join": Join,
    "rafts": Raft,
    "events": EventSource,
    "connections": Connection,
    "execution": Execution,
    "limits": Limits,
}
# Pydantic's own words for these name Python's types.
_MESSAGES: Final = {
    "missing": "is missing",
    "model_type": "must be a mapping",
    "dict_type": "must be a mapping",
    "tuple_type": "must be a list",
    "path_type": "must be a path",
    "string_type": "must be text",
}
_SETTINGS: Final = frozenset(map(to_camel, Settings.model_fields))


def _environment() -> dict[str, Any]:
    values: dict[str, Any] = {}
    for variable, path in VARIABLES.items():
        if variable in os.environ:
            part = values if len(path) == 1 else values.setdefault(path[0], {})
            part[path[-1]] = os.environ[variable]
    return values


def _unknown_settings(text: SettingsText) -> list[str]:
    # Asked apart from the model: pydantic-settings keeps some names, such as _env_file, for itself.
    names = [name for name in text.value if name not in _SETTINGS]
    return [f"{text.place((name,))}: {name} is not a setting{_like(name, _SETTINGS)}" for name in names]


def _unknown_variables() -> list[str]:
    known = VARIABLES.keys() | _FOREIGN
    names = sorted(name for name in os.environ.keys() - known if name.startswith("GATEHOUSE_"))
    strays = [name for name in names if not _SERVICE_LINK.search(name)]
    return [f"environment: {name} is not a setting{_like(name, VARIABLES)}" for name in strays]


def _finding(error: ErrorDetails, text: SettingsText) -> str:
    path = (*error["loc"], *error.get("ctx", {}).get("below", ()))
    variable = next((name for name, it in VARIABLES.items() if it == path and name in os.environ), None)
    subject = f"environment: {variable}" if variable else f"{text.place(path)}: {settingsfile.dotted(path)}"
    return f"{subject.removesuffix(' ')} {_message(error)}"


def _message(error: ErrorDetails) -> str:
    match error:
        case {"type": "extra_forbidden", "loc": (*around, str(name))}:
            return f"is not a setting{_like(name, map(to_camel, _PARTS[str(around[0])].model_fields))}"
        case {"type": "too_short" | "too_long", "loc": (*_, "keyFiles")}:
            return "must be one file or two"
    return _MESSAGES.get(error["type"], re.sub("^(Input|String) should", "must", error["msg"]))


def _like(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    return f" (did you mean {near[0]}?)" if near else ""

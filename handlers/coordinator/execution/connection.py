"""The connections of a process, as its settings name them: where calls go, what they may ask, how they recover."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jsonschema_rs import Draft202012Validator

from handlers.coordinator.workflows.digest import digest_of
from handlers.coordinator.workflows.path_template import PARAMETER
from handlers.coordinator.workflows.schema import compile_schema
from storage.execution.records import Recovery

TIMEOUT_SECONDS: Final = 10.0
MAX_RESPONSE_BYTES: Final = 262_144

# How a call is sent, not what it is: these may change while runs wait.
_UNBOUND: Final = frozenset({"caFile", "maxResponseBytes", "timeoutSeconds", "tokenFile"})
_SETS: Final = frozenset({"methods", "paths"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """One connection. `base_url` has no slash at its end, `paths` are templates, `receipt_path` has `{key}` in it.

    `binding` are the members that a run is bound to.
    """

    name: str
    base_url: str
    methods: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    recovery: Recovery = "hold-after-dispatch"
    receipt_path: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    timeout_seconds: float = TIMEOUT_SECONDS
    max_response_bytes: int = MAX_RESPONSE_BYTES
    response_schema: Draft202012Validator | None = None
    binding: Mapping[str, Any]

    def permits(self, method: str, template: str) -> bool:
        """Tell whether such a call may be made; what the parameters of a template are called makes no difference."""
        return method in self.methods and _nameless(template) in map(_nameless, self.paths)


def connections(settings: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Connection]:
    """Return the connections by name; `settings` are the entries of the settings' file, which have been checked."""
    return {name: _connection(name, members) for name, members in settings.items()}


def binding(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run is bound to of one entry of the settings, which has no member that is as by default."""
    return {name: sorted(value) if name in _SETS else value for name, value in members.items() if name not in _UNBOUND}


def binding_digest(names: Iterable[str], known: Mapping[str, Connection]) -> str:
    """Return the `sha256:` digest that stands for those of the named connections that are known."""
    return digest_of({name: known[name].binding for name in names if name in known})


def _connection(name: str, members: Mapping[str, Any]) -> Connection:
    schema = members.get("responseSchema")
    return Connection(
        name=name,
        base_url=members["baseUrl"].rstrip("/"),
        methods=tuple(members.get("methods", ())),
        paths=tuple(members.get("paths", ())),
        recovery=members.get("recovery", "hold-after-dispatch"),
        receipt_path=members.get("receiptPath"),
        token_file=_file(members.get("tokenFile")),
        ca_file=_file(members.get("caFile")),
        timeout_seconds=members.get("timeoutSeconds", TIMEOUT_SECONDS),
        max_response_bytes=members.get("maxResponseBytes", MAX_RESPONSE_BYTES),
        response_schema=None if schema is None else compile_schema(schema),
        binding=binding(members),
    )


def _file(name: str | None) -> Path | None:
    return None if name is None else Path(name)


def _nameless(template: str) -> str:
    return PARAMETER.sub("{}", template)

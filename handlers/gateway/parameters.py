"""Path, query and header parameters: from the wire to the fields of a Request, by the document's schemas."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias
from urllib.parse import unquote_to_bytes

import msgspec

from generated.runtime import Parameter
from handlers.gateway.schemas import validator

_INTEGER: Final = re.compile("0|[1-9][0-9]{0,19}")
_BOOLEANS: Final = {"true": True, "false": False}

Values: TypeAlias = dict[str, Any]


class ParameterFault(Exception):
    """One parameter does not satisfy the document; `parameter` says which, never what was received."""

    def __init__(self, parameter: Parameter) -> None:
        super().__init__(parameter.name)
        self.parameter = parameter


class Parameters:
    """The parameters of one operation, compiled once."""

    def __init__(self, contract: Mapping[str, Any], parameters: Sequence[Parameter]) -> None:
        self._headers = {p.name.lower().encode(): p for p in parameters if p.location == "header"}
        self._query = {p.name: p for p in parameters if p.location == "query"}
        self._path = [p for p in parameters if p.location == "path"]
        self._required = [p for p in parameters if p.required and p.location != "path"]
        self._absent = {
            p.field: msgspec.UNSET if p.default is None else p.default for p in parameters if not p.required
        }
        self._parameters = {p.field: p for p in parameters}
        self._validator = validator(contract, {p.field: p.pointer for p in parameters}) if parameters else None

    def read(self, path: Mapping[str, str], query: bytes, headers: Iterable[tuple[bytes, bytes]]) -> Values:
        """Return the fields of a Request; raises ParameterFault for one absent, repeated or not as documented."""
        values: Values = {}
        for parameter in self._path:
            _take(values, parameter, path[parameter.name])
        if self._query and query:
            self._read_query(values, query)
        if self._headers:
            self._read_headers(values, headers)
        for parameter in self._required:
            if parameter.field not in values:
                raise ParameterFault(parameter)
        self._validate(values)
        return self._absent | values if self._absent else values

    def _read_headers(self, values: Values, headers: Iterable[tuple[bytes, bytes]]) -> None:
        wanted = self._headers
        for name, value in headers:
            if name in wanted:
                parameter = wanted[name]
                if not value.isascii():
                    raise ParameterFault(parameter)
                _take(values, parameter, value.decode("ascii"))

    def _read_query(self, values: Values, query: bytes) -> None:
        for pair in query.split(b"&"):
            name, _, value = pair.partition(b"=")
            parameter = self._query.get(_decode(name) or "")
            if parameter is not None:
                _take(values, parameter, _decode(value))

    def _validate(self, values: Values) -> None:
        if self._validator is None or self._validator.is_valid(values):
            return
        error = next(iter(self._validator.iter_errors(values)))
        raise ParameterFault(self._parameters[str(error.instance_path[0])])


def _take(values: Values, parameter: Parameter, text: str | None) -> None:
    if text is None or parameter.field in values:
        raise ParameterFault(parameter)
    value = text if parameter.kind == "string" else _PARSERS[parameter.kind](text)
    if value is None:
        raise ParameterFault(parameter)
    values[parameter.field] = value


def _integer(text: str) -> int | None:
    return int(text) if _INTEGER.fullmatch(text) else None


_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {"integer": _integer, "boolean": _BOOLEANS.get}


def _decode(value: bytes) -> str | None:
    """Decode one name or value of a query (application/x-www-form-urlencoded); None where it is not UTF-8."""
    try:
        return unquote_to_bytes(value.replace(b"+", b" ")).decode()
    except UnicodeDecodeError:
        return None

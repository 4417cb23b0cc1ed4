"""An OpenAPI document as what was said over a socket is held to it: its operations, and what they promise."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

import jsonschema_rs
import yaml
from openapi_core import Config, OpenAPI
from openapi_core.exceptions import OpenAPIError
from openapi_core.testing import MockRequest, MockResponse
from openapi_core.validation.request import V31RequestBodyValidator, V31RequestParametersValidator
from openapi_core.validation.response import V31ResponseHeadersValidator
from openapi_spec_validator.schemas import schema_v31
from openapi_spec_validator.validation.exceptions import OpenAPIValidationError
from referencing.exceptions import Unresolvable

from tools.lint.grammar import METHODS

PROBLEM: Final = "application/problem+json"
EVENT_STREAM: Final = "text/event-stream"
APIS: Final = ("coordinator", "join", "installer")
_HOST: Final = "http://document"
# What a refused value may be told by: the part of the document that it breaks, which is nobody's secret.
_MOST_TOLD: Final = 120
_MOST_VALUES: Final = 1_000_000


class UnusableDocumentError(Exception):
    """A file is no document that requests and answers could be held to."""


class Cell(NamedTuple):
    """One thing that a document promises: an answer, by its code and media type, or a header of an answer.

    `status` is as the document spells it, also `4XX` or `default`; `code` is "" where no problem is documented, `media`
    where there is no body; an answer has no `header`, and a header neither of those.
    """

    document: str
    operation: str
    status: str
    code: str = ""
    media: str = ""
    header: str = ""


class Place(NamedTuple):
    """Where an operation is, and its part of the document; `method` is in upper case."""

    path: str
    method: str
    content: Mapping[str, Any]
    name: str


class Request(NamedTuple):
    """A request as it was sent, with its field names in lower case; `body` is None where it was not kept."""

    method: str
    target: str
    fields: Sequence[tuple[str, str]]
    body: bytes | None

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]


class Reply(NamedTuple):
    """An answer as it came, with its field names in lower case; `body` is None where it was not kept."""

    status: int
    fields: Sequence[tuple[str, str]]
    body: bytes | None

    def header(self, name: str) -> str | None:
        """Return the first value of a field, by its name in lower case."""
        return next((value for field, value in self.fields if field == name), None)

    @property
    def media_type(self) -> str:
        """The media type in lower case, without parameters; "" for none."""
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    @property
    def code(self) -> str:
        """The code of a problem, "" for any other answer."""
        if self.media_type != PROBLEM or self.body is None:
            return ""
        try:
            problem = _json(self.body)
        except ValueError:
            return ""
        return str(problem.get("code", "")) if isinstance(problem, dict) else ""


class Document:
    """One document of OpenAPI 3.1 without references to other files.

    Raises UnusableDocumentError for anything else.
    """

    def __init__(self, name: str, content: Any) -> None:
        if not isinstance(content, dict) or not str(content.get("openapi", "")).startswith("3.1"):
            raise UnusableDocumentError(f"{name} is no OpenAPI 3.1 document")
        if not isinstance(content.get("paths"), dict):
            raise UnusableDocumentError(f"{name} has no paths")
        self.name = name
        self.content: Mapping[str, Any] = content
        self.places = tuple(self._places())
        self.templates = tuple(dict.fromkeys(place.path for place in self.places))
        # A path without parameters is meant where one with parameters would do, too.
        self._patterns = [(each, _pattern(each)) for each in sorted(self.templates, key=lambda path: path.count("{"))]
        self._items: dict[str, jsonschema_rs.Draft202012Validator | None] = {}

    def check(self) -> None:
        """Raise UnusableDocumentError where the document breaks the rules of OpenAPI."""
        list(self.cells())
        _ = self._openapi

    def resolved(self, part: Mapping[str, Any]) -> Mapping[str, Any]:
        """Follow references within the document to what they mean."""
        if "$ref" not in part:
            return part
        reference = str(part["$ref"])
        found: Any = self.content
        if not reference.startswith("#/"):
            raise UnusableDocumentError(f"{self.name} refers to another file, {reference}: bundle it first")
        try:
            for name in reference[2:].split("/"):
                found = found[unquote(name).replace("~1", "/").replace("~0", "~")]
        except (KeyError, TypeError):
            raise UnusableDocumentError(f"{self.name} refers to {reference}, which is not there") from None
        return self.resolved(found)

    def template(self, path: str) -> str | None:
        """Return the path of the document that a request's path is one of."""
        return self._located(path)[0]

    def at(self, template: str) -> Mapping[str, Place]:
        """Return the operations of a path by their methods."""
        return {place.method: place for place in self.places if place.path == template}

    def response(self, place: Place, status: int) -> tuple[str, Mapping[str, Any]] | None:
        """Return the answer with this status, by the key under which it is documented."""
        responses = place.content.get("responses", {})
        for key in (str(status), f"{status // 100}XX", "default"):
            if key in responses:
                return key, self.resolved(responses[key])
        return None

    def cells(self) -> Iterator[Cell]:
        """Give all that the document promises, in its order."""
        for place in self.places:
            for status, response in place.content.get("responses", {}).items():
                meant = self.resolved(response)
                for media, content in meant.get("content", {"": {}}).items():
                    for code in self._codes(media, content):
                        yield Cell(self.name, place.name, str(status), code, media)
                for header in _headers(meant):
                    yield Cell(self.name, place.name, str(status), header=header)

    def met(self, place: Place, reply: Reply) -> Iterator[Cell]:
        """Give what an answer has shown of what its operation promises."""
        found = self.response(place, reply.status)
        if found is None:
            return
        status, response = found
        contents = response.get("content", {"": {}})
        media = _matching(contents, reply.media_type)
        if media is not None and reply.code in self._codes(media, contents[media]):
            yield Cell(self.name, place.name, status, reply.code, media)
        elif media is not None and reply.body is None:
            yield Cell(self.name, place.name, status, "", media)
        for header in _headers(response):
            if reply.header(header.lower()) is not None:
                yield Cell(self.name, place.name, status, header=header)

    def faults_of_reply(self, place: Place, reply: Reply) -> list[str]:
        """Tell what of an answer its operation does not document; no value that came is repeated."""
        found = self.response(place, reply.status)
        if found is None:
            return [f"the status {reply.status} is not documented"]
        if "content" not in found[1]:
            # What openapi-core leaves open.
            faults = ["there is a body, and none is documented"] if reply.body or reply.media_type else []
            return faults + self._openapi_faults(place, reply)
        return self._openapi_faults(place, reply)

    def faults_of_request(self, request: Request) -> list[str]:
        """Tell what of a request its operation does not document, credentials aside; no value is repeated."""
        headers = dict(request.fields)
        query: dict[str, list[str]] = {}
        for pair in request.target.partition("?")[2].split("&"):
            if pair:
                name, _, value = pair.replace("+", " ").partition("=")
                query.setdefault(unquote(name), []).append(unquote(value))
        asked = MockRequest(
            _HOST,
            request.method,
            self._located(request.path)[1],
            args=query,
            headers=headers,
            cookies=_cookies(headers.get("cookie", "")),
            data=request.body,
            content_type=headers.get("content-type", "").lower(),
        )
        validators: list[Any] = [self._parameters]
        if request.body is not None:
            validators.append(self._bodies)
        return [text for each in validators for error in each.iter_errors(asked) for text in _told(error)]

    def fault_of_event(self, place: Place, data: str) -> str | None:
        """Tell what is wrong with the data of a server-sent event, where the document says what it is."""
        if place.name not in self._items:
            self._items[place.name] = self._item_validator(place)
        validator = self._items[place.name]
        if validator is None:
            return None
        try:
            value = _json(data)
        except ValueError:
            return "the data of an event is no JSON"
        error = next(validator.iter_errors(value), None)
        if error is None:
            return None
        where = "/".join(map(str, error.instance_path))
        return f"the data of an event, at /{where}, breaks {'/'.join(map(str, error.schema_path))}"

    def _located(self, path: str) -> tuple[str | None, str]:
        """Return the path of the document that a path is one of, and what of it comes after a server's own."""
        for prefix in self._prefixes:
            rest = path.removeprefix(prefix)
            for template, pattern in self._patterns:
                if path.startswith(prefix) and pattern.fullmatch(rest):
                    return template, rest
        return None, path

    def _places(self) -> Iterator[Place]:
        for path, item in self.content["paths"].items():
            for method in METHODS:
                if method in item:
                    operation = item[method]
                    name = operation.get("operationId", f"{method.upper()} {path}")
                    yield Place(path, method.upper(), operation, name)

    @cached_property
    def _prefixes(self) -> tuple[str, ...]:
        """The paths of the servers' URLs, before which those of the document stand; the longest first."""
        servers = [*self.content.get("servers", ())]
        for place in self.places:
            servers += (*self.content["paths"][place.path].get("servers", ()), *place.content.get("servers", ()))
        paths = {urlsplit(str(server.get("url", ""))).path.rstrip("/") for server in servers}
        return tuple(sorted({each for each in paths if "{" not in each} | {""}, key=len, reverse=True))

    def _media_types(self) -> Iterator[str]:
        for place in self.places:
            for part in (place.content.get("requestBody", {}), *place.content.get("responses", {}).values()):
                yield from self.resolved(part).get("content", ())

    @cached_property
    def _openapi(self) -> OpenAPI:
        # Where a server is reached has no part in what it says.
        paths = {
            path: {
                name: {key: value for key, value in part.items() if key != "servers"} if name in METHODS else part
                for name, part in item.items()
                if name != "servers"
            }
            for path, item in self.content["paths"].items()
        }
        content = {**self.content, "servers": [{"url": _HOST}], "paths": paths}
        # Without a deserializer for it openapi-core refuses every problem, also those that are right.
        readers = {media.partition(";")[0].strip().lower(): _reader(media) for media in self._media_types()}
        deserializers = {media: reader for media, reader in readers.items() if reader is not None}
        try:
            return OpenAPI.from_dict(content, config=Config(extra_media_type_deserializers=deserializers))
        except OpenAPIValidationError as error:
            raise UnusableDocumentError(
                f"{self.name} is not valid at {error.json_path}: {error.message.splitlines()[0]}"
            ) from None
        except (OpenAPIError, Unresolvable) as error:
            raise UnusableDocumentError(f"{self.name} cannot be read: {error}") from None

    @cached_property
    def _parameters(self) -> Any:
        return V31RequestParametersValidator(self._openapi.spec)

    @cached_property
    def _bodies(self) -> Any:
        return V31RequestBodyValidator(
            self._openapi.spec, extra_media_type_deserializers=self._openapi.config.extra_media_type_deserializers
        )

    @cached_property
    def _heads(self) -> Any:
        return V31ResponseHeadersValidator(self._openapi.spec)

    def _openapi_faults(self, place: Place, reply: Reply) -> list[str]:
        asked = MockRequest(_HOST, place.method, re.sub(r"\{[^}]*\}", "x", place.path))
        headers = dict(reply.fields)
        given = MockResponse(reply.body or b"", reply.status, headers, (reply.header("content-type") or "").lower())
        if reply.body is not None:
            return [text for error in self._openapi.iter_response_errors(asked, given) for text in _told(error)]
        contents = (self.response(place, reply.status) or ("", {}))[1].get("content", {})
        faults = [text for error in self._heads.iter_errors(asked, given) for text in _told(error)]
        if contents and place.method != "HEAD" and _matching(contents, reply.media_type) is None:
            faults.append("the media type is not documented")
        return faults

    def _item_validator(self, place: Place) -> jsonschema_rs.Draft202012Validator | None:
        found = self.response(place, 200)
        media = {} if found is None else found[1].get("content", {}).get(EVENT_STREAM, {})
        item = media.get("x-item-schema")
        if item is None:
            return None
        schema = {"components": self.content.get("components", {}), **item}
        return jsonschema_rs.Draft202012Validator(schema, validate_formats=True)

    def _codes(self, media: str, content: Mapping[str, Any]) -> list[str]:
        if media != PROBLEM:
            return [""]
        return self._enumerated(content.get("schema", {})) or [""]

    def _enumerated(self, schema: Any) -> list[str] | None:
        """Return the codes that a schema of problems has, None where it leaves them open."""
        if not isinstance(schema, dict):
            return None
        schema = self.resolved(schema)
        code = self.resolved(schema.get("properties", {}).get("code", {}))
        lists = [code["enum"]] if "enum" in code else [[code["const"]]] if "const" in code else []
        lists += [codes for part in schema.get("allOf", ()) if (codes := self._enumerated(part)) is not None]
        for name in ("anyOf", "oneOf"):
            parts = [self._enumerated(part) for part in schema.get(name, ())]
            if parts and None not in parts:
                lists.append([code for codes in parts for code in codes or ()])
        if not lists:
            return None
        return [code for code in min(lists, key=len) if all(code in each for each in lists)]


def own(api: str) -> Document:
    """Return one of Gatehouse's own documents, as it is served."""
    return Document(api, json.loads(files(f"generated.{api}").joinpath("contract.json").read_bytes()))


def read(file: Path) -> Document:
    """Read a document, in YAML or JSON, that bears the name of its file; raises UnusableDocumentError."""
    try:
        content = _plain(yaml.load(file.read_bytes(), _Loader), itertools.count())  # noqa: S506 - it is a safe one
        if isinstance(content, dict) and str(content.get("openapi", "")).startswith("3.1"):
            fault = next(_shape().iter_errors(content), None)
            if fault is not None:
                where = ".".join(map(str, fault.instance_path)) or "its root"
                raise UnusableDocumentError(f"{file.stem} is not valid at {where}")
        document = Document(file.stem, content)
        document.check()
    except yaml.YAMLError:
        raise UnusableDocumentError(f"{file} is neither YAML nor JSON") from None
    except RecursionError:
        raise UnusableDocumentError(f"{file} goes in a circle, or is nested too deeply") from None
    return document


class _Loader(yaml.SafeLoader):
    """Reads what JSON has: a date is text."""


_Loader.yaml_implicit_resolvers = {
    first: [each for each in resolvers if each[0] != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _plain(value: Any, counted: Iterator[int]) -> Any:
    """Return a value with anchors written out and names that are text, as a status may be a number in YAML."""
    if next(counted) > _MOST_VALUES:
        raise UnusableDocumentError("a document is too large, with what its anchors stand for")
    if isinstance(value, dict):
        return {
            name if isinstance(name, str) else json.dumps(name, default=str): _plain(each, counted)
            for name, each in value.items()
        }
    return [_plain(each, counted) for each in value] if isinstance(value, list) else value


@lru_cache(maxsize=1)
def _shape() -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(dict(schema_v31))


def _reader(media: str) -> Callable[[bytes], Any] | None:
    """Return what makes a value of a body; of some there is none but its bytes."""
    named = media.partition(";")[0].strip().lower()
    if named.endswith(("/json", "+json")):
        return _json
    if named.endswith(("/yaml", "+yaml")):
        return _yaml
    return bytes.decode if named.startswith("text/") else None


def _json(body: bytes | str) -> Any:
    """Read JSON; raises ValueError, also where it is too deep."""
    try:
        return json.loads(body)
    except RecursionError:
        raise ValueError("too deep") from None


def _yaml(body: bytes) -> Any:
    try:
        return yaml.safe_load(body)
    except (yaml.YAMLError, RecursionError):
        raise ValueError("no YAML") from None


def _headers(response: Mapping[str, Any]) -> list[str]:
    return [name for name in response.get("headers", {}) if name.lower() != "content-type"]


def _matching(contents: Iterable[str], media_type: str) -> str | None:
    kind = media_type.partition("/")[0]
    bare = {media.partition(";")[0].strip().lower(): media for media in contents}
    return next((bare[each] for each in (media_type, f"{kind}/*", "*/*") if each in bare), None)


def _pattern(template: str) -> re.Pattern[str]:
    return re.compile("[^/]+".join(re.escape(part) for part in re.split(r"\{[^}]*\}", template)))


def _cookies(text: str) -> dict[str, str]:
    return dict(pair.strip().partition("=")[::2] for pair in text.split(";") if pair.strip())


def _told(error: BaseException) -> list[str]:
    """Say what is wrong in words that repeat nothing of what was sent: it may be a secret, or as long as one likes."""
    name = getattr(error, "name", None)
    where = f"{type(error).__name__}{f' {name}' if name else ''}"
    cause: BaseException | None = error
    while cause is not None:
        broken = getattr(cause, "schema_errors", None)
        if broken:
            return [f"{where}: {_broken(each)}" for each in broken]
        cause = cause.__cause__
    deeper = error.__cause__
    if isinstance(deeper, OpenAPIError):
        return [f"{where}: {type(deeper).__name__}"]
    return [where]


def _broken(error: Any) -> str:
    told = error.message if error.validator == "required" else f"{error.validator}: {json.dumps(error.validator_value)}"
    return f"{error.json_path}: {told}"[:_MOST_TOLD]

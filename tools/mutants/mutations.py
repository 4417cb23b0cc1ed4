"""Which changes are made: of an operation with all that it is made of, and of the catalogue of problems."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tools.mutants.document import GONE, Change, Place, at, operations, pointer, resolved
from tools.mutants.schemas import schema_changes

# The operations that the three contracts began with, each with its API.
SEEDS: Final = {"admitEvent": "coordinator", "reportJoinEvents": "join", "streamInstallEvents": "installer"}
PROBLEM: Final = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A document that differs in one constraint; `hints` are words of the tests that are likely to notice."""

    api: str
    operation: str
    change: Change
    hints: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What the mutant is called in a report and in the list of the equivalent ones."""
        return f"{self.api}#{pointer(self.change.place)}: {self.change.what}"


def mutants(documents: Mapping[str, Mapping[str, Any]], operation: str | None = None) -> list[Mutant]:
    """Give the mutants of the seed operations, or of one, each once; `documents` by the names of their APIs.

    KeyError where `operation` is none of SEEDS.
    """
    chosen = SEEDS if operation is None else {operation: SEEDS[operation]}
    made: dict[str, Mutant] = {}
    for name, api in chosen.items():
        for mutant in (*_of_operation(api, name, documents[api]), *_of_catalogue(api, name, documents[api])):
            made.setdefault(mutant.name, mutant)
    return list(made.values())


def sample(every: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """Draw so many of them, which the seed decides, in their order."""
    chance = random.Random(seed)  # noqa: S311 - nothing secret hangs on it.
    drawn = sorted(chance.sample(range(len(every)), min(count, len(every))))
    return [every[place] for place in drawn]


def _of_operation(api: str, name: str, document: Mapping[str, Any]) -> Iterator[Mutant]:
    place = dict(operations(document))[name]
    parts = (
        *_own(document, place),
        *_parameters(document, place),
        *_body(document, place),
    )
    for change in parts:
        yield Mutant(api, name, change)
    for status in at(document, place)["responses"]:
        for change in _response(document, (*place, "responses", status)):
            yield Mutant(api, name, change, (f"{name}-{status}", *_codes(change)))


def _codes(change: Change) -> tuple[str, ...]:
    return tuple(change.what.rpartition(" ")[0].split()[-1:]) if change.place[-1] == "enum" else ()


def _own(document: Mapping[str, Any], place: Place) -> Iterator[Change]:
    operation = at(document, place)
    for number, requirement in enumerate(operation["security"]):
        left = [each for each in operation["security"] if each != requirement]
        yield Change((*place, "security"), left, f"requirement {number} dropped")
        for scheme in requirement:
            yield from _scheme(document, ("components", "securitySchemes", scheme), operation)
    for listener in operation["x-listeners"]:
        other = "control" if listener != "control" else "join"
        yield Change((*place, "x-listeners"), [other], f"{listener} made {other}")


def _scheme(document: Mapping[str, Any], place: Place, operation: Mapping[str, Any]) -> Iterator[Change]:
    scheme = at(document, place)
    for other in _other_codes(document, operation, scheme["x-problem"]):
        yield Change((*place, "x-problem"), other, f"made {other}")
    if scheme["type"] == "apiKey":
        yield Change((*place, "name"), f"X-{scheme['name']}", "made another")


def _other_codes(document: Mapping[str, Any], operation: Mapping[str, Any], code: str | None) -> list[str]:
    """One code of the operation that is not this one: of the same status where there is one, else the first."""
    catalogue = document["x-problems"]
    codes = [each for response in operation["responses"].values() for each in _documented(document, response)]
    others = [each for each in codes if each != code]
    near = [each for each in others if code is not None and catalogue[each]["status"] == catalogue[code]["status"]]
    return (near or others)[:1]


def _documented(document: Mapping[str, Any], response: Mapping[str, Any]) -> list[str]:
    response = at(document, resolved({"r": response, **document}, ("r",))) if "$ref" in response else response
    parts = response.get("content", {}).get(PROBLEM, {}).get("schema", {}).get("allOf", [])
    return [code for part in parts for code in part.get("properties", {}).get("code", {}).get("enum", [])]


def _parameters(document: Mapping[str, Any], place: Place) -> Iterator[Change]:
    operation = at(document, place)
    for number in range(len(operation.get("parameters", ()))):
        yield Change((*place, "parameters", str(number)), GONE, "dropped")
        there = resolved(document, (*place, "parameters", str(number)))
        parameter = at(document, there)
        if parameter.get("required"):
            yield Change((*there, "required"), GONE, "made optional")
        else:
            yield Change((*there, "required"), True, "made mandatory")
        for other in _other_codes(document, operation, parameter.get("x-problem")):
            yield Change((*there, "x-problem"), other, f"made {other}")
        if "x-problem" in parameter:
            yield Change((*there, "x-problem"), GONE, "dropped")
        yield from schema_changes(document, (*there, "schema"))


def _body(document: Mapping[str, Any], place: Place) -> Iterator[Change]:
    operation = at(document, place)
    if "requestBody" not in operation:
        return
    there = resolved(document, (*place, "requestBody"))
    body = at(document, there)
    if body.get("required"):
        yield Change((*there, "required"), GONE, "made optional")
    limit = body["x-body-limit"]
    for moved in (limit - 1, limit + 1):
        yield Change((*there, "x-body-limit"), moved, f"{limit} made {moved}")
    if body.get("x-canonical-json"):
        yield Change((*there, "x-canonical-json"), GONE, "dropped")
    if "x-problem" in body:
        yield Change((*there, "x-problem"), GONE, "dropped")
    for other in _other_codes(document, operation, body.get("x-problem")):
        yield Change((*there, "x-problem"), other, f"made {other}")
    yield from _content(document, there)


def _content(document: Mapping[str, Any], place: Place) -> Iterator[Change]:
    for kind in at(document, place).get("content", {}):
        media = (*place, "content", kind)
        yield Change(media, GONE, "dropped")
        for name in ("schema", "x-item-schema"):
            if name in at(document, media):
                yield from schema_changes(document, (*media, name))


def _response(document: Mapping[str, Any], place: Place) -> Iterator[Change]:
    yield Change(place, GONE, "dropped")
    there = resolved(document, place)
    response = at(document, there)
    for name in response.get("headers", ()):
        yield Change((*there, "headers", name), GONE, "dropped")
        header = resolved(document, (*there, "headers", name))
        if at(document, header).get("required"):
            yield Change((*header, "required"), GONE, "made optional")
        yield from schema_changes(document, (*header, "schema"))
    yield from _content(document, there)
    yield from _codes_added(document, there, int(place[-1]))


def _codes_added(document: Mapping[str, Any], place: Place, status: int) -> Iterator[Change]:
    """Add a code that the catalogue has for this status and the response has not, to each list of codes."""
    response = at(document, place)
    known = _documented(document, response)
    others = [code for code, each in document["x-problems"].items() if each["status"] == status and code not in known]
    parts = response.get("content", {}).get(PROBLEM, {}).get("schema", {}).get("allOf", [])
    for number, part in enumerate(parts):
        if other := others[:1] if "properties" in part else []:
            where = (*place, "content", PROBLEM, "schema", "allOf", str(number), "properties", "code", "enum")
            yield Change(where, [*known, *other], f"{other[0]} added")


def _of_catalogue(api: str, name: str, document: Mapping[str, Any]) -> Iterator[Mutant]:
    for code in document["x-problems"]:
        for change in _entry(document, ("x-problems", code)):
            yield Mutant(api, name, change, (code,))


def _entry(document: Mapping[str, Any], place: Place) -> Iterator[Change]:
    entry = at(document, place)
    moved = entry["status"] + 1
    yield Change((*place, "status"), moved, f"{entry['status']} made {moved}")
    yield Change((*place, "title"), f"{entry['title']} now", "made another")
    yield Change((*place, "type"), f"{entry['type']}-x", "made another")
    for name, value in entry.get("headers", {}).items():
        yield Change((*place, "headers", name), GONE, "dropped")
        yield Change((*place, "headers", name), _other_value(value), "made another")
    for member in entry.get("members", ()):
        left = [each for each in entry["members"] if each != member]
        yield Change((*place, "members"), left or GONE, f"{member} dropped")


def _other_value(value: Any) -> Any:
    if value is None:
        return "x"
    return value + 1 if isinstance(value, int) else f"{value}x"

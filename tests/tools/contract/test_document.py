from __future__ import annotations

import copy
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tools.contract.library import CONTENT, answered, asked, library
from tools.contract.document import PROBLEM, Cell, Document, Place, UnusableDocumentError, own, read

LIBRARY = library()


def place(name: str) -> Place:
    return next(each for each in LIBRARY.places if each.name == name)


def changed(path: str, method: str, **members: Any) -> dict[str, Any]:
    content = copy.deepcopy(CONTENT)
    content["paths"][path][method] |= members
    return content


def test_a_document_promises_each_answer_by_code_and_media_type_and_each_header() -> None:
    assert [cell for cell in LIBRARY.cells() if cell.operation == "listBooks"] == [
        Cell("library", "listBooks", "200", "", "application/json"),
        Cell("library", "listBooks", "200", header="X-Total"),
        Cell("library", "listBooks", "400", "limit.wrong", PROBLEM),
        Cell("library", "listBooks", "400", "limit.missing", PROBLEM),
    ]
    assert [cell for cell in LIBRARY.cells() if cell.operation == "addBook"] == [Cell("library", "addBook", "204")]


@pytest.mark.parametrize(
    ("target", "template"),
    [
        ("/v2/books", "/books"),
        ("/books", "/books"),
        ("/v2/books/7", "/books/{id}"),
        ("/v2/books/news", "/books/news"),
        ("/v2/books/7/pages", None),
        ("/v3/books", None),
    ],
)
def test_a_path_is_found_behind_the_path_of_a_server_and_the_plainest_first(target: str, template: str | None) -> None:
    assert LIBRARY.template(target) == template


def test_an_answer_that_is_documented_has_no_fault_and_shows_what_it_is() -> None:
    reply = answered(200, ["Emma"], x_total="1")
    assert LIBRARY.faults_of_reply(place("listBooks"), reply) == []
    assert set(LIBRARY.met(place("listBooks"), reply)) == {
        Cell("library", "listBooks", "200", "", "application/json"),
        Cell("library", "listBooks", "200", header="X-Total"),
    }
    refused = answered(404, b"none", "text/plain")
    assert LIBRARY.faults_of_reply(place("getBook"), refused) == []
    assert list(LIBRARY.met(place("getBook"), refused)) == [Cell("library", "getBook", "4XX", "", "text/*")]


@pytest.mark.parametrize(
    ("name", "status", "value", "media_type", "fields", "told"),
    [
        ("listBooks", 202, [], "application/json", {"x_total": "0"}, "202"),
        ("listBooks", 200, [], "application/json", {}, "X-Total"),
        ("listBooks", 200, [], "application/json", {"x_total": "some"}, "X-Total"),
        ("listBooks", 200, [], "text/html", {"x_total": "0"}, "MediaTypeNotFound"),
        ("listBooks", 200, [7], "application/json", {"x_total": "1"}, "$[0]: type"),
        ("listBooks", 200, b"{", "application/json", {"x_total": "1"}, "Deserialize"),
        ("listBooks", 400, {"code": "limit.odd"}, PROBLEM, {}, "$.code: enum"),
        ("addBook", 204, b"more", "text/plain", {}, "body"),
    ],
)
def test_an_answer_that_is_not_documented_is_told_why(
    name: str, status: int, value: Any, media_type: str, fields: dict[str, str], told: str
) -> None:
    (fault,) = LIBRARY.faults_of_reply(place(name), answered(status, value, media_type, **fields))
    assert told in fault


def test_of_an_answer_without_its_body_the_head_is_judged() -> None:
    head = answered(200, [], x_total="0")._replace(body=None)
    assert LIBRARY.faults_of_reply(place("listBooks"), head) == []
    assert LIBRARY.faults_of_reply(place("listBooks"), head._replace(fields=head.fields[:1])) != []
    assert LIBRARY.faults_of_reply(place("listBooks"), head._replace(fields=head.fields[1:])) != []


def test_a_request_is_judged_by_its_parameters_and_its_body() -> None:
    body = b'{"title": "Emma"}'
    assert LIBRARY.faults_of_request(asked("GET", "/v2/books?limit=2")) == []
    assert LIBRARY.faults_of_request(asked("POST", "/books", body, content_type="application/json")) == []
    for wrong in (
        asked("GET", "/books?limit=0"),
        asked("GET", "/books?limit=many"),
        asked("POST", "/books", b"{}", content_type="application/json"),
        asked("POST", "/books", b"", content_type="application/json"),
        asked("POST", "/books", body, content_type="text/plain"),
    ):
        assert LIBRARY.faults_of_request(wrong) != [], wrong


def test_no_value_that_was_sent_is_repeated() -> None:
    faults = [
        *LIBRARY.faults_of_reply(place("listBooks"), answered(200, [{"a": "s3cret"}, "s3cret"], x_total="s3cret")),
        *LIBRARY.faults_of_request(asked("GET", "/books?limit=s3cret")),
        *LIBRARY.faults_of_request(asked("POST", "/books", b'{"title": ["s3cret"]}', content_type="application/json")),
    ]
    assert len(faults) >= 4
    assert "s3cret" not in " ".join(faults)


def test_the_data_of_an_event_is_judged_where_the_document_says_what_it_is() -> None:
    assert LIBRARY.fault_of_event(place("followNews"), '{"number": 1}') is None
    assert "required" in str(LIBRARY.fault_of_event(place("followNews"), "{}"))
    assert LIBRARY.fault_of_event(place("followNews"), "{") is not None
    assert LIBRARY.fault_of_event(place("listBooks"), "{") is None


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ([], "no OpenAPI 3.1"),
        (CONTENT | {"openapi": "3.0.3"}, "no OpenAPI 3.1"),
        ({"openapi": "3.1.0", "info": {"title": "x", "version": "1"}}, "not valid"),
        ({name: part for name, part in CONTENT.items() if name != "info"}, "not valid"),
        (changed("/books", "get", responses={"200": {"$ref": "other.yaml#/a"}}), "another file"),
        (changed("/books", "get", responses={"200": {"$ref": "#/components/a"}}), "not there"),
        (CONTENT | {"components": {"schemas": {"Problem": {"$ref": "#/nowhere"}}}}, "not there"),
        (CONTENT | {"components": {"schemas": {"Other": {"$ref": "#/nowhere"}, "Problem": {}}}}, "cannot be read"),
    ],
)
def test_a_file_that_is_no_usable_document_is_refused(content: Any, told: str, tmp_path: Path) -> None:
    file = tmp_path / "library.yaml"
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(UnusableDocumentError, match=told):
        read(file)


def test_a_file_that_is_no_yaml_is_refused_and_a_good_one_bears_its_name(tmp_path: Path) -> None:
    file = tmp_path / "library.yaml"
    file.write_text("{")
    with pytest.raises(UnusableDocumentError, match="neither YAML nor JSON"):
        read(file)
    file.write_text(yaml.safe_dump(CONTENT, sort_keys=False))
    assert read(file).name == "library"
    assert list(read(file).cells()) == list(LIBRARY.cells())


HEAD = "openapi: 3.1.0\ninfo: {title: t, version: 1.0.0}\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{HEAD}paths: {{/a: 5}}", "paths./a"),
        (f"{HEAD}paths: {{/a: {{get: null}}}}", "paths./a.get"),
        (f"{HEAD}paths: {{/a: {{$ref: '#/paths/~1a'}}}}", "circle"),
        (f"{HEAD}paths: {{}}\nx-a: &a [*a]", "circle"),
        (f"{HEAD}paths: {{}}\nx-a: {'[' * 5_000}{']' * 5_000}", "too deeply"),
        (
            "\n".join(["a: &a [1]", *(f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]" for a, b in pairwise("abcdefghi"))]),
            "too large",
        ),
    ],
)
def test_a_hostile_file_is_refused(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text(text)
    with pytest.raises(UnusableDocumentError, match=told):
        read(tmp_path / "odd.yaml")


def test_a_status_may_be_a_number_in_yaml_and_a_date_is_text(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(f'{HEAD}x-day: 2026-01-01\npaths: {{/a: {{get: {{responses: {{200: {{description: ""}}}}}}}}}}')
    document = read(file)
    assert document.content["x-day"] == "2026-01-01"
    assert [cell.status for cell in document.cells()] == ["200"]


def test_gatehouse_s_own_documents_are_read() -> None:
    assert {place.name for place in own("installer").places} >= {"getConfig", "streamInstallEvents"}


@pytest.mark.parametrize("body", [b"[" * 100_000, b"\xff", b"[1"])
def test_a_body_that_nobody_can_read_is_a_fault_like_any_other(body: bytes) -> None:
    reply = answered(200, body, x_total="1")
    assert LIBRARY.faults_of_reply(place("listBooks"), reply) != []
    assert answered(400, body, PROBLEM).code == ""


def test_a_document_that_is_not_checked_tells_of_a_reference_when_it_is_followed() -> None:
    with pytest.raises(UnusableDocumentError, match="not there"):
        Document("library", CONTENT).resolved({"$ref": "#/components/schemas/None"})

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.generator import DocumentError, generate
from tools.generator.documents import Document
from tools.generator.reading.api import understand
from tools.generator.writing.models import write_models

PROBLEM = {"type": "object", "properties": {"code": {"type": "string"}, "traceId": {"type": "string"}}}
GET = "/paths/~1things~1{thing}/get"
GONE = object()


def refusal(*codes: str) -> dict[str, Any]:
    narrowed = {"allOf": [{"$ref": "#/components/schemas/Problem"}, {"properties": {"code": {"enum": list(codes)}}}]}
    return {"description": "Refused.", "content": {"application/problem+json": {"schema": narrowed}}}


def document() -> dict[str, Any]:
    operation = {
        "operationId": "getThing",
        "summary": "Show a thing",
        "tags": ["things"],
        "x-listeners": ["control"],
        "security": [{"token": []}],
        "parameters": [
            {"name": "thing", "in": "path", "required": True, "schema": {"type": "string"}},
            {"name": "limit", "in": "query", "x-problem": "failure", "schema": {"type": "integer", "default": 3}},
        ],
        "requestBody": {
            "x-body-limit": 9,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}},
        },
        "responses": {
            "200": {
                "description": "The thing.",
                "headers": {"X-Size": {"schema": {"type": "integer"}}},
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}},
            },
            "500": refusal("failure"),
        },
    }
    token = {"type": "http", "scheme": "bearer", "x-problem": "failure", "x-principal": {"id": {"type": "string"}}}
    thing = {"type": "object", "properties": {"name": {"type": "string"}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Things", "version": "1.0.0"},
        "paths": {"/things/{thing}": {"get": operation}},
        "components": {"schemas": {"Thing": thing, "Problem": PROBLEM}, "securitySchemes": {"token": token}},
        "x-problems": {"failure": {"status": 500, "title": "Failed", "type": "urn:failure"}},
    }


def changed(pointer: str, value: object) -> dict[str, Any]:
    root: Any = json.loads(json.dumps(document()))
    *way, last = [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]
    place = root
    for token in way:
        place = place[int(token)] if isinstance(place, list) else place[token]
    if value is GONE:
        del place[last]
    elif isinstance(place, list):
        place.insert(int(last), value)
    else:
        place[last] = value
    assert isinstance(root, dict)
    return root


def generate_from(tmp_path: Path, text: str, name: str = "things.yaml") -> None:
    (tmp_path / "spec").mkdir(exist_ok=True)
    (tmp_path / "spec" / name).write_text(text, "utf-8")
    generate(tmp_path / "spec", tmp_path / "generated")


def test_the_unchanged_document_is_not_refused(tmp_path: Path) -> None:
    generate_from(tmp_path, json.dumps(document()))
    assert (tmp_path / "generated" / "things" / "operations" / "get_thing.py").exists()


@pytest.mark.parametrize(
    ("pointer", "value", "message"),
    [
        ("/openapi", "3.0.3", "#/openapi: must be 3.1"),
        ("/info/title", GONE, "#/info: title is missing"),
        ("/paths", {}, "#/paths: has no operation"),
        ("/components/schemas/Problem", GONE, "leads nowhere"),
        ("/components/schemas/Problem/properties/traceId", GONE, "has neither traceId nor requestId"),
        ("/components/schemas/thing", {}, "#/components/schemas/thing: the name of a schema is that of its class"),
        ("/components/schemas/Other", {"type": "text"}, "#/components/schemas/Other/type: is no JSON Schema"),
        ("/components/schemas/Request", {}, "generated code uses the name Request otherwise"),
        ("/components/schemas/Other", {"$ref": "#/components/schemas/Nobody"}, "Nobody leads nowhere"),
        ("/components/schemas/Other", {"$ref": "#/components/schemas/Other"}, "is a reference to itself"),
        ("/components/schemas/Other", {"$ref": "common.yaml#/Other"}, "leaves the document"),
        (f"{GET}/operationId", GONE, f"#{GET}: operationId is missing"),
        (f"{GET}/operationId", "get-thing", "must be in camel case"),
        (f"{GET}/summary", GONE, "summary is missing"),
        (f"{GET}/tags", ["a", "b"], "exactly one tag"),
        (f"{GET}/x-listeners", GONE, "x-listeners is missing"),
        (f"{GET}/x-listeners", ["public"], "lists one or more of control, installer, join"),
        (f"{GET}/x-listeners", [], "lists one or more of control, installer, join"),
        (f"{GET}/security", GONE, "security is missing"),
        (f"{GET}/security", [{"nobody": []}], "nobody is not under /components/securitySchemes"),
        (f"{GET}/security", [{"token": [], "other": []}], "an alternative is exactly one scheme"),
        (f"{GET}/security", [{}], "an alternative is exactly one scheme"),
        ("/components/securitySchemes/token/x-problem", GONE, "x-problem is missing"),
        (
            "/components/securitySchemes/token/x-problem",
            "nothing",
            "asks for nothing, which is",
        ),
        ("/components/securitySchemes/token/x-principal", GONE, "x-principal is missing"),
        ("/components/securitySchemes/token/x-principal/id/type", "object", "is an integer or a string"),
        ("/components/securitySchemes/token/type", "oauth2", "only http, apiKey in a header and mutualTLS"),
        ("/components/securitySchemes/--", {"type": "mutualTLS"}, "has no letter or digit to name a field after"),
        (f"{GET}/parameters/0", {"name": "c", "in": "cookie", "schema": {}}, "a parameter in cookie"),
        (f"{GET}/parameters/0/required", False, "a path parameter is required"),
        (f"{GET}/parameters/0/name", "other", "the path and the path parameters differ in other, thing"),
        (
            f"{GET}/parameters/0",
            {"name": "Accept", "in": "header", "schema": {}},
            "no meaning as a parameter",
        ),
        (f"{GET}/parameters/1/schema", {"type": "array"}, "must be of type string, integer or boolean"),
        (f"{GET}/parameters/1/schema", {"type": ["integer", "null"]}, "must be of type string, integer or boolean"),
        (f"{GET}/parameters/1/schema/default", "3", "the default is not a value of the schema"),
        (f"{GET}/parameters/1/schema/default", True, "the default is not a value of the schema"),
        (f"{GET}/parameters/1/schema/enum", [1, 2], "the default is not a value of the schema"),
        (f"{GET}/parameters/1/x-problem", "nothing", "asks for nothing, which is"),
        (f"{GET}/parameters/1/name", "--", "has no letter or digit to name a field after"),
        (f"{GET}/requestBody/x-body-limit", GONE, f"#{GET}/requestBody: x-body-limit is missing"),
        (f"{GET}/requestBody/x-body-limit", True, "must be an integer"),
        (f"{GET}/requestBody/content", {}, "has no media type"),
        (f"{GET}/requestBody/content/text~1plain", {"schema": {"type": "object"}}, "must be of type string"),
        (f"{GET}/requestBody/content/application~1json/schema", {"type": "object", "properties": {}}, "needs a name"),
        (f"{GET}/responses/200", GONE, f"#{GET}/responses: has no success"),
        (f"{GET}/responses/default", {"description": ""}, "no default, no range, no other"),
        (f"{GET}/responses/4XX", {"description": ""}, "no default, no range, no other"),
        (f"{GET}/responses/299", {"description": ""}, "no default, no range, no other"),
        (f"{GET}/responses/304", {"description": ""}, "no default, no range, no other"),
        (f"{GET}/responses/200/content/text~1event-stream", {}, "x-item-schema is missing"),
        (f"{GET}/responses/200/headers/x-size", {"schema": {"type": "integer"}}, None),
        (f"{GET}/responses/500", {"description": ""}, f"#{GET}/responses/500: content is missing"),
        (f"{GET}/responses/500", refusal("nothing"), "nothing is not a code of status 500 in /x-problems"),
        (f"{GET}/responses/503", refusal("failure"), "failure is not a code of status 503 in /x-problems"),
        ("/x-problems", GONE, "x-problems is missing"),
        ("/x-problems/--", {"status": 500, "title": "", "type": ""}, "has no letter or digit to name a class after"),
        ("/x-problems/failure/title", GONE, "#/x-problems/failure: title is missing"),
        ("/x-problems/failure/headers", {"Retry-After": 1.5}, "must be an integer"),
        ("/x-problems/failure/members", ["errors"], "errors is not a member of the Problem schema"),
        ("/x-problems/FAILURE", {"status": 500, "title": "", "type": ""}, None),
        ("/x-problems/ok.json", {"status": 500, "title": "", "type": ""}, None),
    ],
)
def test_a_document_is_refused_where_the_generated_code_could_not_stand_for_it(
    tmp_path: Path, pointer: str, value: object, message: str | None
) -> None:
    text = json.dumps(changed(pointer, value))
    if message is None:
        generate_from(tmp_path, text)
        return
    with pytest.raises(DocumentError) as caught:
        generate_from(tmp_path, text)
    assert message in str(caught.value)
    assert str(caught.value).startswith("spec/things.yaml#")
    assert not (tmp_path / "generated").exists()


def test_two_operations_of_one_name_are_refused(tmp_path: Path) -> None:
    twice = document()
    other = {**twice["paths"]["/things/{thing}"]["get"], "operationId": "getTHING"}
    twice["paths"]["/things/{thing}"]["put"] = other
    with pytest.raises(DocumentError, match="getTHING and getThing would both be get_thing"):
        generate_from(tmp_path, json.dumps(twice))


def test_media_types_that_give_one_class_are_refused(tmp_path: Path) -> None:
    content = {name: {"schema": {"type": "string"}} for name in ("application/yaml", "text/x-yaml")}
    with pytest.raises(DocumentError, match="would have a second class OkYaml"):
        generate_from(tmp_path, json.dumps(changed(f"{GET}/responses/200/content", content)))


def test_a_success_that_would_hide_a_problem_is_refused(tmp_path: Path) -> None:
    root = changed("/x-problems/ok.json", {"status": 500, "title": "", "type": ""})
    content = root["paths"]["/things/{thing}"]["get"]["responses"]["200"]["content"]
    content["application/yaml"] = {"schema": {"type": "string"}}
    with pytest.raises(DocumentError, match="the class OkJson would hide another of this name"):
        generate_from(tmp_path, json.dumps(root))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1\n", "is not a mapping"),
        ("openapi: [3.1", "line 1"),
        ("openapi: 3.1.0\nopenapi: 3.1.0\n", "line 2, column 1: the key openapi stands here twice"),
        ("responses:\n  200: {}\n", "line 2, column 3: a key that is not text"),
        ("at: 2026-04-15\n", "quote it"),
    ],
)
def test_what_is_not_plain_yaml_is_refused_by_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        generate_from(tmp_path, text)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["runtime.yaml", "operations.yaml", "--.yaml"])
def test_a_document_whose_file_name_names_no_package_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DocumentError, match="rename the document"):
        generate_from(tmp_path, json.dumps(document()), name)


def test_two_documents_of_one_package_are_refused(tmp_path: Path) -> None:
    generate_from(tmp_path, json.dumps(document()), "my-things.yaml")
    with pytest.raises(DocumentError, match="gives the package my_things a second time"):
        generate_from(tmp_path, json.dumps(document()), "myThings.yaml")


def pointers(value: object, pointer: str = "") -> Iterator[str]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        child = f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"
        yield child
        yield from pointers(member, child)


@pytest.mark.parametrize("odd", [None, [], {}, 7, "odd", True, [{}], {"$ref": 7}], ids=repr)
def test_no_odd_value_anywhere_in_a_document_is_a_crash(odd: object) -> None:
    for pointer in pointers(document()):
        with contextlib.suppress(DocumentError):
            api = understand(Document("things.yaml", changed(pointer, odd)), "things")
            if pointer.startswith("/components/schemas"):
                write_models(api)

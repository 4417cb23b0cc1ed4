"""Writes models.py by datamodel-code-generator, from the shape of the schemas; validating is the gateway's."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from datamodel_code_generator import Error, GenerateConfig, InputFileType, LiteralType, generate
from datamodel_code_generator.enums import DataModelType
from datamodel_code_generator.format import Formatter, PythonVersion

from tools.generator.contracts import ApiContract
from tools.generator.documents import DocumentError
from tools.generator.writing.layout import WIDTH, docstring, header, wrap

# Bounds, patterns and formats are left out: msgspec reads patterns as Python's `re`, the validator as ECMA 262, and
# what the validator has passed must not fail a second time.
_SHAPE: Final = frozenset({"$ref", "type", "enum", "const", "required", "default"})
_ALTERNATIVES: Final = ("anyOf", "oneOf", "allOf")
_CONFIG: Final[dict[str, Any]] = {
    "input_file_type": InputFileType.OpenAPI,
    "output_model_type": DataModelType.MsgspecStruct,
    "target_python_version": PythonVersion.PY_311,
    "formatters": [Formatter.BUILTIN],
    "builtin_format_line_length": WIDTH,
    "use_double_quotes": True,
    "enum_field_as_literal": LiteralType.All,
    "keyword_only": True,
    "snake_case_field": True,
    "strict_nullable": True,
    "strict_refs": True,
    "apply_default_values_for_required_fields": True,
    "use_annotated": False,
    "use_schema_description": True,
    "use_field_description": True,
    "use_single_line_docstring": True,
    "disable_timestamp": True,
}


def write_models(api: ApiContract) -> str:
    """Return models.py: a frozen msgspec.Struct for each schema that is an object, an alias for any other."""
    shapes = {name: _shape(node.value) for name, node in api.document.root["components"]["schemas"].items()}
    needed = _needed(api, shapes)
    schemas = {name: shape for name, shape in shapes.items() if name in needed}
    top = header(api.document.source, with_models=True) + docstring(f"The schemas of {api.title}.")
    if not schemas:
        return top
    document = {"openapi": "3.1.0", "info": {"title": api.title, "version": "0"}, "paths": {}}
    config = GenerateConfig(
        **_CONFIG,
        custom_file_header=top,
        extra_template_data=defaultdict(dict, {"#all#": {"base_class_kwargs": {"frozen": True}}}),
    )
    try:
        text = generate({**document, "components": {"schemas": schemas}}, config=config)
    except Error as error:
        raise DocumentError(api.document.source, "/components/schemas", str(error)) from error
    return _checked(api, schemas, str(text))


def _shape(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return {}
    shape = {key: value for key, value in schema.items() if key in _SHAPE}
    if "description" in schema:
        shape["description"] = wrap(schema["description"], WIDTH - 10)
    if "properties" in schema:
        shape["properties"] = {name: _shape(member) for name, member in schema["properties"].items()}
        # A member with a default is always there: msgspec fills it in.
        filled = [name for name, member in shape["properties"].items() if "default" in member]
        shape["required"] = list(dict.fromkeys([*schema.get("required", []), *filled]))
    if "items" in schema:
        shape["items"] = _shape(schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        shape["additionalProperties"] = _shape(schema["additionalProperties"])
    return shape | _shaped_alternatives(schema)


def _shaped_alternatives(schema: dict[str, Any]) -> dict[str, Any]:
    """Keep the alternatives that say what a value is; `{required: [a]}` or `{format: uuid}` only narrow it."""
    kept = {}
    for keyword in _ALTERNATIVES:
        parts = [_shape(part) for part in schema.get(keyword, [])]
        telling = [part for part in parts if part.keys() - {"required", "description"}]
        if telling and (keyword == "allOf" or len(telling) == len(parts)):
            kept[keyword] = telling
    return kept


def _needed(api: ApiContract, shapes: dict[str, Any]) -> set[str]:
    """Return the schemas that requests, answers and members of problems are made of, directly or through others."""
    waiting = {name for annotation in _annotations(api) for name in _names(annotation)} & shapes.keys()
    needed: set[str] = set()
    while waiting:
        needed |= waiting
        waiting = {name for known in waiting for name in _references(shapes[known])} - needed
    return needed


def _annotations(api: ApiContract) -> Iterator[str]:
    for operation in api.operations:
        yield from (parameter.field.annotation for parameter in operation.parameters)
        yield from () if operation.body is None else (operation.body.annotation,)
        for answer in operation.answers:
            yield from (header.annotation for header in answer.headers)
            yield answer.annotation or "None"
    for problem in api.problems:
        yield from (member.annotation for member in problem.members)


def _names(annotation: str) -> Iterator[str]:
    return (node.id for node in ast.walk(ast.parse(annotation)) if isinstance(node, ast.Name))


def _references(shape: Any) -> Iterator[str]:
    if isinstance(shape, list):
        for part in shape:
            yield from _references(part)
    if isinstance(shape, dict):
        if isinstance(shape.get("$ref"), str):
            yield shape["$ref"].rpartition("/")[2]
        for part in shape.values():
            yield from _references(part)


def _checked(api: ApiContract, schemas: dict[str, Any], text: str) -> str:
    tree = ast.parse(text).body
    found = {node.name for node in tree if isinstance(node, ast.ClassDef)}
    found |= {node.target.id for node in tree if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    for name in schemas:
        if name not in found:
            raise DocumentError(api.document.source, f"/components/schemas/{name}", "became no model of this name")
    return text if text.endswith("\n") else text + "\n"

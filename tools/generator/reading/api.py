"""Reads a whole document; what single operations take and give is read in the modules beside this one."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jsonschema_rs

from tools.generator.contracts import ApiContract, OperationContract, ProblemContract, SchemeContract
from tools.generator.documents import Document, Node, check_references
from tools.generator.names import is_taken_class, problem_base, snake
from tools.generator.reading.inputs import read_body, read_parameters, read_schemes, read_security
from tools.generator.reading.outputs import read_answers, read_problems, read_refusals, read_trace_member

_METHODS: Final = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace"})
_LISTENERS: Final = frozenset({"control", "installer", "join"})
# `runtime` is generated/runtime.py, `operations` would hide the package from the fields of Service.
_TAKEN_NAMES: Final = frozenset({"runtime", "operations"})


def read_api(path: Path) -> ApiContract:
    """Read the document at `path`; raises DocumentError, with the JSON pointer, where it cannot be stood for."""
    return understand(Document.load(path), path.stem)


def understand(document: Document, stem: str) -> ApiContract:
    """Read a document whose file is called `stem`; raises DocumentError like `read_api`."""
    root = document.root
    if not re.fullmatch(r"3\.1\.[0-9]+", root.text("openapi")):
        raise root["openapi"].refuse("must be 3.1")
    check_references(root)
    models = tuple(_read_models(root))
    schemes = read_schemes(root, models)
    name = _api_name(stem, root)
    base = problem_base(name)
    problems = read_problems(root, {base, *models, *(scheme.class_name for scheme in schemes.values())})
    shared = _Shared(models=models, schemes=schemes, problems=problems)
    return ApiContract(
        document=document,
        name=name,
        title=root["info"].text("title"),
        summary=root["info"].optional_text("summary") or root["info"].text("title"),
        models=models,
        trace_member=read_trace_member(root),
        schemes=tuple(schemes.values()),
        problems=tuple(problems.values()),
        operations=_read_operations(root, shared),
    )


def _api_name(stem: str, root: Node) -> str:
    name = snake(stem)
    if not name or name in _TAKEN_NAMES:
        raise root.refuse(f"the file name {stem} gives no name to a package: rename the document")
    return name


def _read_models(root: Node) -> Iterator[str]:
    for name, node in root["components"]["schemas"].items():
        if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name):
            raise node.refuse("the name of a schema is that of its class: letters and digits, a capital first")
        if name != "Problem" and is_taken_class(name):
            raise node.refuse(f"generated code uses the name {name} otherwise: rename the schema")
        _check_schema(node)
        yield name


def _check_schema(node: Node) -> None:
    try:
        jsonschema_rs.meta.validate(node.value)
    except jsonschema_rs.ValidationError as error:
        raise node.at(error.instance_path).refuse(f"is no JSON Schema: {error.message}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """What the operations of a document have in common."""

    models: tuple[str, ...]
    schemes: dict[str, SchemeContract]
    problems: dict[str, ProblemContract]


def _read_operations(root: Node, shared: _Shared) -> tuple[OperationContract, ...]:
    operations: dict[str, OperationContract] = {}
    for path, item in root["paths"].items():
        for method, node in item.items():
            if method not in _METHODS:
                continue
            operation = _read_operation(path, method, item, node, shared)
            if operation.name in operations:
                other = operations[operation.name]
                raise node.refuse(f"{operation.id} and {other.id} would both be {operation.name}: rename one of them")
            operations[operation.name] = operation
    if not operations:
        raise root["paths"].refuse("has no operation")
    return tuple(operations.values())


def _read_operation(path: str, method: str, item: Node, node: Node, shared: _Shared) -> OperationContract:
    operation_id, name = _read_id(node)
    operation = OperationContract(
        id=operation_id,
        name=name,
        tag=_read_tag(node),
        summary=node.text("summary"),
        description=node.optional_text("description") or "",
        method=method.upper(),
        path=path,
        listeners=_read_listeners(node),
        schemes=read_security(node, shared.schemes),
        parameters=read_parameters(path, item, node),
        body=read_body(node),
        answers=read_answers(node),
        problems=read_refusals(node, shared.problems),
    )
    _check_faults(node, operation)
    _check_classes(node, operation, shared)
    return operation


def _read_id(node: Node) -> tuple[str, str]:
    operation_id = node.text("operationId")
    if not re.fullmatch(r"[a-z][A-Za-z0-9]*", operation_id):
        raise node["operationId"].refuse("must be in camel case: it names a module and a function")
    name = snake(operation_id)
    # The name is that of a module here and of a function in handlers, where it must not hide a builtin.
    return operation_id, f"{name}_" if name in _TAKEN_NAMES or hasattr(builtins, name) else name


def _read_tag(node: Node) -> str:
    tags = [snake(tag.of(str)) for tag in node["tags"].elements()]
    if len(tags) != 1 or not tags[0]:
        raise node["tags"].refuse("an operation has exactly one tag: it names the module of the handler")
    return tags[0]


def _read_listeners(node: Node) -> tuple[str, ...]:
    listeners = tuple(listener.of(str) for listener in node["x-listeners"].elements())
    if not listeners or not _LISTENERS.issuperset(listeners):
        raise node["x-listeners"].refuse(f"lists one or more of {', '.join(sorted(_LISTENERS))}")
    return listeners


def _check_faults(node: Node, operation: OperationContract) -> None:
    """Refuse an x-problem that the operation does not document: raising it would be a fault of the server."""
    own = {problem.code for problem in operation.problems}
    asked = [scheme.problem for scheme in operation.schemes]
    asked += [parameter.problem for parameter in operation.parameters if parameter.problem is not None]
    asked += [operation.body.problem] if operation.body is not None and operation.body.problem is not None else []
    for code in asked:
        if code not in own:
            raise node.refuse(f"x-problem asks for {code}, which is not among the responses")


def _check_classes(node: Node, operation: OperationContract, shared: _Shared) -> None:
    """Refuse a success whose class would hide another class of the operation's module."""
    named = {problem.class_name for problem in shared.problems.values()}
    named |= {scheme.class_name for scheme in shared.schemes.values()} | set(shared.models)
    for answer in operation.answers:
        if answer.class_name in named:
            raise node["responses"].refuse(f"the class {answer.class_name} would hide another of this name")

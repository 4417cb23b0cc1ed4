"""Writes operations/: one module for each operation, which holds its whole contract, and the list of them all."""

from __future__ import annotations

from tools.generator.annotations import literal, union
from tools.generator.contracts import (
    AnswerContract,
    ApiContract,
    BodyContract,
    Field,
    OperationContract,
    ParameterContract,
    SchemeContract,
)
from tools.generator.writing.layout import (
    Block,
    Group,
    alias,
    call,
    docstring,
    fields,
    frozen,
    lay_out,
    mapping,
    module,
    sequence,
)

_RUNTIME = dict.fromkeys(("Answer", "Body", "Operation", "Parameter", "Scheme", "Stream"), "...runtime")


def write_operation(api: ApiContract, operation: OperationContract) -> str:
    """Return operations/<name>.py."""
    answers = [answer.class_name for answer in operation.answers]
    problems = [problem.class_name for problem in operation.problems]
    exported = sorted({"Request", "Response", "Problems", "Handler", "OPERATION", *answers, *problems})
    body = [
        lay_out(Group("[", tuple(("", literal(name)) for name in exported), "]"), lead="__all__ = ") + "\n",
        _request(operation),
        *(_answer(answer) for answer in operation.answers),
        alias("Response", answers)
        + alias("Problems", problems)
        + "Handler: TypeAlias = Callable[[Request], Awaitable[Response]]\n",
        lay_out(_operation(operation), lead="OPERATION: Final = ") + "\n",
    ]
    text = f"{operation.summary}: `{operation.method} {operation.path}`.\n\n{operation.description}"
    return module(api.document.source, text, "\n\n".join(body), _symbols(api))


def _symbols(api: ApiContract) -> dict[str, str]:
    return (
        dict.fromkeys(api.models, "..models")
        | {problem.class_name: "..problems" for problem in api.problems}
        | {scheme.class_name: "..security" for scheme in api.schemes}
        | _RUNTIME
    )


def _request(operation: OperationContract) -> str:
    doc = docstring(f"One call of {operation.id}, authenticated and valid.", "    ")
    own = [parameter.field for parameter in operation.parameters]
    accept = [_field("accept", "str | None")] if operation.has_choice else []
    members = [*_principal(operation.schemes), *own, *_body_fields(operation.body), *accept, _field("trace_id", "str")]
    # One is made for each request: a dataclass that is frozen takes ten times as long to make.
    return f"class Request(Struct, frozen=True, kw_only=True):\n{doc}\n{fields(members)}"


def _field(name: str, annotation: str, default: str | None = None) -> Field:
    return Field(wire=name, name=name, annotation=annotation, default=default)


def _principal(schemes: tuple[SchemeContract, ...]) -> list[Field]:
    return [_field("principal", union([scheme.class_name for scheme in schemes]))] if schemes else []


def _body_fields(body: BodyContract | None) -> list[Field]:
    if body is None:
        return []
    optional, default = ("", None) if body.required else (" | UnsetType", "UNSET")
    types = ", ".join(literal(media_type) for media_type in body.media_types)
    content_type = _field("content_type", f"Literal[{types}]{optional}", default)
    return [
        _field("body", f"{body.annotation}{optional}", default),
        _field("raw_body", "bytes", None if body.required else 'b""'),
        *([content_type] if len(body.media_types) > 1 else []),
    ]


def _answer(answer: AnswerContract) -> str:
    content = {
        "none": [],
        "body": [_field("body", str(answer.annotation))],
        "events": [_field("events", f"Stream[{answer.annotation}]")],
    }[answer.content]
    status = f"    status: ClassVar[Literal[{answer.status}]] = {answer.status}\n"
    members = fields([*content, *answer.headers])
    return f"{frozen(answer.class_name)}{docstring(answer.description, '    ')}\n{status}{members}"


def _operation(operation: OperationContract) -> Block:
    return call(
        "Operation",
        id=literal(operation.id),
        name=literal(operation.name),
        method=literal(operation.method),
        path=literal(operation.path),
        listeners=sequence(literal(listener) for listener in operation.listeners),
        schemes=sequence(_scheme(scheme) for scheme in operation.schemes),
        parameters=sequence(_parameter(parameter) for parameter in operation.parameters),
        body="None" if operation.body is None else _body(operation.body),
        request="Request",
        answers=sequence(_answer_entry(answer) for answer in operation.answers),
        problems=sequence(problem.class_name for problem in operation.problems),
        **({"accept": literal(True)} if operation.has_choice else {}),
    )


def _scheme(scheme: SchemeContract) -> Block:
    return call(
        "Scheme",
        name=literal(scheme.name),
        field=literal(scheme.field),
        problem=literal(scheme.problem),
        **({} if scheme.header is None else {"header": literal(scheme.header)}),
    )


def _parameter(parameter: ParameterContract) -> Block:
    return call(
        "Parameter",
        name=literal(parameter.field.wire),
        location=literal(parameter.location),
        field=literal(parameter.field.name),
        kind=literal(parameter.kind),
        required=literal(parameter.required),
        pointer=literal(parameter.pointer),
        problem=literal(parameter.problem),
        **({} if parameter.default is None else {"default": parameter.default}),
    )


def _body(body: BodyContract) -> Block:
    return call(
        "Body",
        required=literal(body.required),
        limit=literal(body.limit),
        canonical=literal(body.canonical),
        problem=literal(body.problem),
        media_types=mapping({literal(name): literal(pointer) for name, pointer in body.media_types.items()}),
        model=body.annotation,
    )


def _answer_entry(answer: AnswerContract) -> Block:
    return call(
        "Answer",
        response=answer.class_name,
        status=literal(answer.status),
        media_type=literal(answer.media_type),
        headers=sequence(sequence([literal(header.wire), literal(header.name)]) for header in answer.headers),
        content=literal(answer.content),
    )


def write_operations(api: ApiContract) -> str:
    """Return operations/__init__.py, which lists the operations in the order of the document."""
    names = [operation.name for operation in api.operations]
    exported = Group("[", tuple(("", literal(name)) for name in ["OPERATIONS", *sorted(names)]), "]")
    listed = lay_out(
        sequence(f"{name}.OPERATION" for name in names), lead="OPERATIONS: Final[tuple[Operation, ...]] = "
    )
    body = f"{lay_out(exported, lead='__all__ = ')}\n\n{listed}\n"
    symbols = {"Operation": "...runtime"} | dict.fromkeys(names, ".")
    return module(api.document.source, f"The operations of {api.title}, one module each.", body, symbols)

"""Writes problems.py: one exception class for each code of the catalogue."""

from __future__ import annotations

from tools.generator.annotations import literal
from tools.generator.contracts import ApiContract, Field, ProblemContract
from tools.generator.names import problem_base
from tools.generator.writing.layout import Block, call, docstring, lay_out, mapping, module


def write_problems(api: ApiContract) -> str:
    """Return problems.py."""
    base = problem_base(api.name)
    classes = [_base_class(api, base), *(_problem_class(problem, base) for problem in api.problems)]
    text = f"The problems of {api.title}: raise them through an operation's module, which has its own and no other."
    symbols = dict.fromkeys(api.models, ".models") | {"Problem": "..runtime"}
    return module(api.document.source, text, "\n" + "\n\n".join(classes), symbols)


def _base_class(api: ApiContract, name: str) -> str:
    doc = docstring(f"A refusal of {api.title}.", "    ")
    return f'class {name}(Problem):\n{doc}\n    trace_member: ClassVar[str] = "{api.trace_member}"\n'


def _problem_class(problem: ProblemContract, base: str) -> str:
    lines = [f"class {problem.class_name}({base}):\n", docstring(f"{problem.status}: {problem.title}.", "    "), "\n"]
    for name, kind, value in (
        ("code", "str", problem.code),
        ("status", "int", problem.status),
        ("type", "str", problem.type),
        ("title", "str", problem.title),
    ):
        lines.append(f"    {name}: ClassVar[{kind}] = {literal(value)}\n")
    return "".join(lines) + _initializer(problem)


def _initializer(problem: ProblemContract) -> str:
    keywords = (*problem.given, *problem.members)
    if not keywords and not problem.fixed:
        return ""
    head = call("def __init__", "self", "detail: str", *(["*", *map(_keyword, keywords)] if keywords else []))
    body = lay_out(call("super().__init__", "detail", **_arguments(problem)), indent="        ")
    return f"\n    {lay_out(head, tail=' -> None:', indent='    ')}\n        {body}\n"


def _arguments(problem: ProblemContract) -> dict[str, Block]:
    headers: dict[str, Block] = {literal(wire): literal(text) for wire, text in problem.fixed.items()}
    for field in problem.given:
        headers[literal(field.wire)] = field.name if field.annotation == "str" else f"str({field.name})"
    members: dict[str, Block] = {literal(field.wire): field.name for field in problem.members}
    return {name: mapping(items) for name, items in (("headers", headers), ("members", members)) if items}


def _keyword(field: Field) -> str:
    return f"{field.name}: {field.annotation}" + ("" if field.default is None else f" = {field.default}")

"""The rules for documents, each one function from the objects of a document to its faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from tools.lint.document import Fault
from tools.lint.grammar import Tree
from tools.lint.rules import clients, examples, form, operations, problems, schemas

Rule: TypeAlias = Callable[[Tree], Iterator[Fault]]


def _named(*rules: Rule) -> Mapping[str, Rule]:
    return {rule.__name__.replace("_", "-"): rule for rule in rules}


# A rule may rely on all rules of the stages before its own.
STAGES: Final[tuple[Mapping[str, Rule], ...]] = (
    _named(form.shape),
    _named(form.reference, form.schema_name, schemas.keyword),
    _named(form.extension, form.required_extension, schemas.schema),
    _named(
        form.openapi,
        operations.version,
        operations.operation_id,
        operations.text,
        operations.tag,
        operations.status,
        operations.server,
        operations.security,
        operations.unused,
        operations.link,
        problems.problem_media_type,
        problems.problem_code,
        problems.problem_unused,
        problems.problem_list,
        problems.problem_type,
        problems.problem_member,
        problems.problem_header,
        problems.response_header,
        problems.challenge,
        problems.problem_example,
        problems.cause,
        examples.example,
        examples.example_valid,
        examples.stream_example,
        schemas.parameter,
        schemas.header,
        schemas.object_name,
        schemas.signed_number,
        schemas.media_schema,
        schemas.item_schema,
        clients.distinct_name,
        clients.derived_name,
        clients.enum_value,
        clients.typed_part,
        clients.client_media,
    ),
)

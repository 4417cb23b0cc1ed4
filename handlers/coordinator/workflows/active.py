"""The active package as admission uses it: everything that no single request decides is decided when it is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from jsonschema_rs import Draft202012Validator

from handlers.coordinator.workflows.digest import digest_of
from handlers.coordinator.workflows.expression import MappingError
from handlers.coordinator.workflows.mapping import Mapping as InputMapping
from handlers.coordinator.workflows.package import Package
from handlers.coordinator.workflows.values import UnfitValueError, canonical_text, plain
from handlers.coordinator.workflows.workflow import Workflow
from storage.workflows import Definition


class Conflict(Enum):
    """Why no run of a workflow can be admitted, although the active package has it."""

    DEFINITION_REFUSED = auto()
    CONNECTION_MISSING = auto()


class InputRefusal(Enum):
    """Why something makes no input of a run."""

    EVENT_INVALID = auto()
    INPUT_INVALID = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowBinding:
    """What a new run of a workflow is made of, beside its input; the digests are `sha256:` and 64 hex digits.

    `binding_digest` stands for the connections that the workflow needs, as they are configured.
    """

    workflow_version: str
    definition_digest: str
    binding_digest: str
    deadline_seconds: int
    first_step: str
    conflict: Conflict | None
    input: Draft202012Validator


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerBinding:
    """A trigger of the active package, and the workflow of which it starts a run."""

    source: str
    type: str
    dataschema: str
    input: InputMapping
    workflow: WorkflowBinding


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivePackage:
    """The package that a process has loaded: workflows by id, triggers by workflow id and trigger name."""

    digest: str
    package: Package
    workflows: Mapping[str, WorkflowBinding]
    triggers: Mapping[tuple[str, str], TriggerBinding]

    @classmethod
    def load(
        cls, snapshot: str, connections: Mapping[str, Mapping[str, Any]], redefined: Iterable[Definition] = ()
    ) -> ActivePackage:
        """Compile a snapshot and bind it to the configured connections, by name.

        `redefined` are its definitions whose id and version are retained with another digest. Raises
        RefusedPackageError where this version does not take the snapshot.
        """
        package = Package.from_snapshot(snapshot)
        refused = {definition.workflow_id for definition in redefined}
        workflows = {
            name: _bind(workflow, connections, refused=name in refused) for name, workflow in package.workflows.items()
        }
        triggers = {
            (workflow.id, name): TriggerBinding(
                source=trigger.source,
                type=trigger.type,
                dataschema=trigger.dataschema,
                input=trigger.input,
                workflow=workflows[workflow.id],
            )
            for workflow in package.workflows.values()
            for name, trigger in workflow.triggers.items()
        }
        return cls(digest=package.digest, package=package, workflows=workflows, triggers=triggers)


def input_of_event(event: Mapping[str, Any], binding: TriggerBinding) -> str | InputRefusal:
    """Return the canonical JSON of the input that an event makes: steps 8 and 9 of admitEvent.

    EVENT_INVALID where the event is not of the trigger's source, type and dataschema; INPUT_INVALID where the mapping
    gives nothing, or no input that the workflow takes, or one of more than 131,072 bytes.
    """
    if event["source"] != binding.source or event["type"] != binding.type or event["dataschema"] != binding.dataschema:
        return InputRefusal.EVENT_INVALID
    try:
        return _accepted(binding.input.evaluate({"event": event}), binding.workflow)
    except MappingError:
        return InputRefusal.INPUT_INVALID


def input_of_start(value: Any, binding: WorkflowBinding) -> str | InputRefusal:
    """Return the canonical JSON of the input that startRun brought, or INPUT_INVALID; `value` is strict JSON."""
    try:
        return _accepted(plain(value), binding)
    except UnfitValueError:
        return InputRefusal.INPUT_INVALID


def _accepted(value: Any, binding: WorkflowBinding) -> str | InputRefusal:
    if not binding.input.is_valid(value):
        return InputRefusal.INPUT_INVALID
    try:
        return canonical_text(value)
    except UnfitValueError:
        return InputRefusal.INPUT_INVALID


def _bind(workflow: Workflow, connections: Mapping[str, Mapping[str, Any]], *, refused: bool) -> WorkflowBinding:
    needed = {name: connections[name] for name in workflow.connections if name in connections}
    missing = Conflict.CONNECTION_MISSING if len(needed) < len(workflow.connections) else None
    return WorkflowBinding(
        workflow_version=workflow.version,
        definition_digest=workflow.digest,
        binding_digest=digest_of(needed),
        deadline_seconds=workflow.deadline_seconds,
        first_step=workflow.start,
        conflict=Conflict.DEFINITION_REFUSED if refused else missing,
        input=workflow.input,
    )

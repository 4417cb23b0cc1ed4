"""The active package as admission uses it: everything that no single request decides is decided when it is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema_rs import Draft202012Validator

from handlers.coordinator.execution.connection import Connection, binding_digest
from handlers.coordinator.workflows.expression import MappingError
from handlers.coordinator.workflows.mapping import Mapping as InputMapping
from handlers.coordinator.workflows.package import Package
from handlers.coordinator.workflows.values import UnfitValueError, canonical_text, plain
from handlers.coordinator.workflows.workflow import Call, Workflow
from storage.admission import NewRun
from storage.refusals import Refusal, Refused
from storage.workflows import Definition


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
    conflict: Refused | None
    input: Draft202012Validator

    def new_run(self, made: str) -> NewRun:
        """Return the run that begins with this input, which is canonical JSON."""
        return NewRun(
            workflow_version=self.workflow_version,
            definition_digest=self.definition_digest,
            binding_digest=self.binding_digest,
            input=made,
            deadline_seconds=self.deadline_seconds,
            first_step=self.first_step,
        )


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
        cls, snapshot: str, connections: Mapping[str, Connection], redefined: Iterable[Definition] = ()
    ) -> ActivePackage:
        """Compile a snapshot and bind it to the configured connections, by name; each has to permit what it is for.

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


def unpermitted(workflow: Workflow, connections: Mapping[str, Connection]) -> list[Call]:
    """Return the calls of a workflow that no configured connection permits; one is enough for it to start no run."""
    calls = [step for step in workflow.steps.values() if isinstance(step, Call)]
    return [
        call
        for call in calls
        if call.connection not in connections or not connections[call.connection].permits(call.method, call.path)
    ]


def input_of_event(event: Mapping[str, Any], binding: TriggerBinding) -> str | Refusal:
    """Return the canonical JSON of the input that an event makes: steps 8 and 9 of admitEvent.

    EVENT_INVALID where the event is not of the trigger's source, type and dataschema; INPUT_INVALID where the mapping
    gives nothing, or no input that the workflow takes, or one of more than 131,072 bytes.
    """
    if event["source"] != binding.source or event["type"] != binding.type or event["dataschema"] != binding.dataschema:
        return Refusal.EVENT_INVALID
    try:
        return _accepted(binding.input.evaluate({"event": event}), binding.workflow)
    except MappingError:
        return Refusal.INPUT_INVALID


def input_of_start(value: Any, binding: WorkflowBinding) -> str | Refusal:
    """Return the canonical JSON of the input that startRun brought, or INPUT_INVALID; `value` is strict JSON."""
    try:
        return _accepted(plain(value), binding)
    except UnfitValueError:
        return Refusal.INPUT_INVALID


def _accepted(value: Any, binding: WorkflowBinding) -> str | Refusal:
    if not binding.input.is_valid(value):
        return Refusal.INPUT_INVALID
    try:
        return canonical_text(value)
    except UnfitValueError:
        return Refusal.INPUT_INVALID


def _bind(workflow: Workflow, connections: Mapping[str, Connection], *, refused: bool) -> WorkflowBinding:
    unbound = Refused(Refusal.BINDING_CONFLICT) if unpermitted(workflow, connections) else None
    return WorkflowBinding(
        workflow_version=workflow.version,
        definition_digest=workflow.digest,
        binding_digest=binding_digest(workflow.connections, connections),
        deadline_seconds=workflow.deadline_seconds,
        first_step=workflow.start,
        conflict=Refused(Refusal.DEFINITION_REFUSED) if refused else unbound,
        input=workflow.input,
    )

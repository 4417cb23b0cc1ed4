"""The definitions that runs are pinned to, compiled once each; a package that is applied later changes none of them."""

from __future__ import annotations

import logging
from typing import Final

import orjson

from handlers.coordinator.workflows.workflow import RefusedWorkflowError, Workflow, compile_workflow
from storage.workflows import Workflows

log = logging.getLogger("gatehouse.coordinator")

# Live runs seldom stand under more definitions at a time; one that was dropped is compiled anew.
_KEPT: Final = 64


class Definitions:
    """Compiled workflows by the digest of their definition."""

    def __init__(self, workflows: Workflows) -> None:
        self._workflows = workflows
        self._compiled: dict[str, Workflow] = {}

    async def workflow(self, digest: str) -> Workflow | None:
        """Return the workflow of a definition's `sha256:` digest.

        None where no stored package has it, or where this version cannot read it, which the log tells. Raises
        Unavailable and Overloaded.
        """
        known = self._compiled.get(digest)
        if known is not None:
            return known
        definition = await self._workflows.definition(digest)
        if definition is None:
            return None
        try:
            workflow = compile_workflow(orjson.loads(definition))
        except RefusedWorkflowError as error:
            log.error("the definition %s cannot be read: %s", digest, error)
            return None
        if len(self._compiled) >= _KEPT:
            del self._compiled[next(iter(self._compiled))]
        self._compiled[digest] = workflow
        return workflow

from __future__ import annotations

import inspect
import json
from functools import partial

import pytest

from generated.installer.operations import OPERATIONS
from handlers.installer.api import installer_document
from handlers.installer.node_yaml import NodeYaml
from handlers.installer.service import service
from tests.handlers.installer.machine import Machine

pytestmark = pytest.mark.anyio


async def test_each_operation_is_served_by_the_function_of_its_name(machine: Machine) -> None:
    reader = NodeYaml(json.loads(installer_document()))
    served = service(machine.app, reader)
    for operation in OPERATIONS:
        handler = getattr(served, operation.name)
        assert isinstance(handler, partial)
        assert handler.args == ((machine.app, reader) if operation.name == "put_config" else (machine.app,))
        assert handler.func.__name__ == operation.name
        assert inspect.iscoroutinefunction(handler.func)

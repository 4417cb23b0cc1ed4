from __future__ import annotations

import inspect
from functools import partial

import pytest

from generated.join.operations import OPERATIONS
from handlers.join.service import service
from tests.handlers.join.house import House

pytestmark = pytest.mark.anyio


async def test_each_operation_is_served_by_the_function_of_its_name(house: House) -> None:
    served = service(house.app)
    for operation in OPERATIONS:
        handler = getattr(served, operation.name)
        assert isinstance(handler, partial)
        assert handler.args == (house.app,)
        assert handler.func.__name__ == operation.name
        assert inspect.iscoroutinefunction(handler.func)

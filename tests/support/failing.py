"""`gatehouse`, but the handler that the first argument names fails: for what no state of the database makes fail."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from handlers.coordinator import service
from tools.cli import main


async def _fail(*_: Any) -> NoReturn:
    raise ArithmeticError("this handler was made to fail")


if __name__ == "__main__":
    setattr(service, sys.argv.pop(1), _fail)
    main()

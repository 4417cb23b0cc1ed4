"""`gatehouse`, but the handlers that the first argument names fail: for what no state of the database makes fail."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from handlers.coordinator import service as coordinator
from handlers.join import service as join
from tools.cli import main


async def _fail(*_: Any) -> NoReturn:
    raise ArithmeticError("this handler was made to fail")


if __name__ == "__main__":
    for name in sys.argv.pop(1).split(","):
        setattr(join if hasattr(join, name) else coordinator, name, _fail)
    main()

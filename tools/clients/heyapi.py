"""A whole SDK in TypeScript, by hey-api: one folder for each document.

Of the SDK generators it is the one that reads server-sent events, and whose clients need no package at run time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tools.clients import typescript
from tools.clients.kit import Kit
from tools.clients.maker import Maker

_EXPECTED: Final = re.compile(
    r"@hey-api/openapi-ts v\S+"
    r"|\[Job 1\]\s+(⏳ Generating from 1 input:|\[1\]\s+.+|✅ Done! Your output is in .+)"
)
_OPERATION: Final = re.compile(r"^export const (\w+) = <", re.MULTILINE)


def _generate(kit: Kit, document: Path, folder: Path) -> list[str]:
    output = folder / document.stem
    command = ("openapi-ts", "--no-log-file", "--input", str(document.absolute()), "--output", str(output))
    return typescript.complaints(kit.node(*command), _EXPECTED)


def _operations(folder: Path, api: str) -> Iterable[str]:
    file = folder / api / "sdk.gen.ts"
    return _OPERATION.findall(file.read_text("utf-8")) if file.exists() else []


MAKER: Final = Maker("hey-api", _generate, _operations, typescript.compile_folder)

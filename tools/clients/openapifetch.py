"""Types in TypeScript, by openapi-typescript, for openapi-fetch: one file for each document."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tools.clients import typescript
from tools.clients.kit import Kit
from tools.clients.maker import Maker

_EXPECTED: Final = re.compile(r"✨ openapi-typescript \S+|🚀 .+ → .+ \[[0-9.]+m?s\]")
_OPERATION: Final = re.compile(r"^    (\w+): \{$", re.MULTILINE)


def _generate(kit: Kit, document: Path, folder: Path) -> list[str]:
    output = folder / f"{document.stem}.ts"
    return typescript.complaints(
        kit.node("openapi-typescript", str(document.absolute()), "--output", str(output)), _EXPECTED
    )


def _operations(folder: Path, api: str) -> Iterable[str]:
    file = folder / f"{api}.ts"
    operations = file.read_text("utf-8").partition("\nexport interface operations {\n")[2] if file.exists() else ""
    return _OPERATION.findall(operations.partition("\n}\n")[0])


MAKER: Final = Maker("openapi-fetch", _generate, _operations, typescript.compile_folder)

"""Clients in Python, by openapi-python-client: one package for each document."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Final

from tools.clients.kit import HERE, Kit, Ran
from tools.clients.maker import Maker

# Bodies of these types are left out beside one of JSON. What the operation takes as JSON it takes as these too, so a
# client can do without; it is told in README.
LEFT_OUT: Final = frozenset({"application/yaml"})

# A warning after which the operation is there all the same, and what follows it in the next paragraph.
_KEPT: Final = re.compile(r"WARNING parsing [A-Z]+ \S+ within \S+\.")
_UNSUPPORTED: Final = re.compile(r"Unsupported content type (\S+)")
# Lines that stand around warnings, and how a paragraph begins that repeats a part of the document.
_AROUND: Final = ("Generating ", "Warning(s) encountered", "Error(s) encountered", "If you believe this was")
_DOCUMENT: Final = ("{", "[")


def complaints(ran: Ran) -> list[str]:
    """Return what the generator had to say, but for media types that are known to be left out."""
    lines = (line for line in ran.text.splitlines() if not line.startswith(_AROUND))
    paragraphs = (" ".join(each.split()) for each in re.split(r"\n\s*\n", "\n".join(lines)))
    said = [each for each in paragraphs if each and not each.startswith(_DOCUMENT)]
    known = {place for place, pair in enumerate(pairwise(said)) if _is_known(*pair)}
    found = [each for place, each in enumerate(said) if not {place, place - 1} & known]
    return found or ([f"it ended with {ran.code}"] if ran.code else [])


def _is_known(heading: str, reason: str) -> bool:
    unsupported = _UNSUPPORTED.fullmatch(reason)
    return bool(_KEPT.fullmatch(heading)) and unsupported is not None and unsupported[1] in LEFT_OUT


def _generate(kit: Kit, document: Path, folder: Path) -> list[str]:
    return complaints(
        kit.python(
            *("openapi-python-client", "generate", "--path", str(document.absolute()), "--meta", "none"),
            *("--config", str(HERE / "python.yaml"), "--output-path", str(_package(folder, document.stem))),
        )
    )


def _operations(folder: Path, api: str) -> Iterable[str]:
    return [file.stem for file in _package(folder, api).glob("api/*/*.py") if file.stem != "__init__"]


def _compile(kit: Kit, folder: Path) -> list[str]:
    ran = kit.python("mypy", "--strict", "--no-error-summary", "--cache-dir", f"{folder}-cache", str(folder))
    return ran.text.splitlines() if ran.code else []


def _package(folder: Path, api: str) -> Path:
    return folder / f"gatehouse_{api}"


MAKER: Final = Maker("python", _generate, _operations, _compile)

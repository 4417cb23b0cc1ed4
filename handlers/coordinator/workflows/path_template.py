"""The form of a path template, as calls and connections have it; settings read it without all else of a workflow."""

from __future__ import annotations

import re
from typing import Final

MAX_TEMPLATE: Final = 512
PATH_TEMPLATE: Final = r"^(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-F]{2}|\{[A-Za-z][A-Za-z0-9_]*\})*)+$"

# A parameter of a template, whose group is its name.
PARAMETER: Final = re.compile(r"\{([^}]*)\}")


def has_dot_segments(path: str) -> bool:
    """Whether a path has the segments '.' or '..', which an address would be resolved by."""
    return not {".", ".."}.isdisjoint(path.split("/"))

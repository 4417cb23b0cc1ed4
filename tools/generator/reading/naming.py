"""Gives fields and classes names that are free, or refuses at the place that asks for one."""

from __future__ import annotations

from tools.generator.documents import Node
from tools.generator.names import is_taken_class, pascal, snake


def free_name(place: Node, wire: str, prefix: str, taken: set[str]) -> str:
    """Return the field name of `wire` and add it to `taken`; a name that is taken gets `prefix`.

    Refuses a name without an ASCII letter or digit, and one that stays taken.
    """
    name = snake(wire)
    if not name:
        raise place.refuse(f"{wire!r} has no letter or digit to name a field after")
    if name in taken:
        name = f"{prefix}_{name}"
    if name in taken:
        raise place.refuse(f"{wire!r} would be a second field {name}: rename one of them")
    taken.add(name)
    return name


def free_class(place: Node, wire: str, kind: str, taken: set[str]) -> str:
    """Return the class name of `wire` and add it to `taken`; one that is taken, or that Python knows, ends in `kind`.

    Refuses a name without an ASCII letter or digit, and one that stays taken.
    """
    name = pascal(wire)
    if not name:
        raise place.refuse(f"{wire!r} has no letter or digit to name a class after")
    if name[0].isdecimal():
        name = kind + name
    if name in taken or is_taken_class(name):
        name += kind
    if name in taken:
        raise place.refuse(f"{wire!r} would be a second class {name}: rename one of them")
    taken.add(name)
    return name

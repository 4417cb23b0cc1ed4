"""What is asked of a server beside another one."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """A ratio of two servers' rates that has to be reached (floor), and one that is hoped for (aim)."""

    of: str
    against: str
    floor: float
    aim: float

"""What is asked of a server beside another one."""

from dataclasses import dataclass
from typing import Literal

Figure = Literal["rate", "p50", "p99"]


@dataclass(frozen=True, slots=True)
class Budget:
    """A ratio of two servers' figures that has to be reached (floor), and one that is hoped for (aim).

    Of rates it says how many times as fast `of` is as `against`, of delays how many times as long `against` takes.
    """

    of: str
    against: str
    floor: float
    aim: float
    figure: Figure = "rate"

    @property
    def name(self) -> str:
        """What is divided by what."""
        if self.figure == "rate":
            return f"{self.of}/{self.against}"
        return f"{self.against}/{self.of}, {self.figure}"

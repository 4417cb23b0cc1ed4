"""Folded stacks, as py-spy writes them: a line for each stack, outermost frame first, and how often it was seen.

Of each thread's stacks what lies outside the loop, or outside the thread's function, is left out: it says nothing.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

# What runs a loop or a thread: from the last of these inwards a stack is of interest.
ROOTS: Final = ("asyncio/runners.py", "threading.py")
# A server's fork runs neither: this is where it commits. Its stacks are told by a name that its thread has not.
COMMITTING: Final = "_serve (storage/process_writer.py"
OURS: Final = ("generated/", "handlers/", "storage/")
THREADS: Final = {
    "storage-writer": "storage, the process that commits",
    "storage-reader": "storage, the readers' threads",
    "log-outlet": "log, its thread",
}
# In the order of a request's way; where a file is named by several, the first has it.
FILES: Final[Mapping[str, Sequence[str]]] = {
    "TLS": ("ssl.py",),
    "protocol: HTTP and sockets": ("uvicorn/", "handlers/gateway/protocol.py"),
    "listener: log line, metrics": tuple(
        f"handlers/gateway/{name}.py" for name in ("listener", "telemetry", "reply", "guard")
    ),
    "routing: connexion": ("connexion/", "starlette/", "handlers/gateway/routing.py"),
    "gateway: checks, binding, answers": ("handlers/gateway/", "generated/"),
    "handlers and their domain": ("handlers/",),
    "storage, called in the loop": ("storage/",),
}
LOOP: Final = "loop: uvloop, wake-ups"
OTHER: Final = "other threads"
PARTS: Final = (LOOP, *FILES, *THREADS.values(), OTHER)

_THREAD: Final = re.compile(r"thread \((\w+)\)(?:: )?(.*)")


@dataclass(frozen=True, slots=True)
class Stack:
    """The frames of a thread, each `function (file:line)`; `weight` is samples, or what they stand for."""

    thread: int
    name: str
    frames: Sequence[str]
    weight: float


def parse(text: str) -> list[Stack]:
    """The stacks of what `py-spy record --format raw --threads` has written; raises ValueError for another text."""
    return [_stack(line) for line in text.splitlines()]


def _stack(line: str) -> Stack:
    path, _, count = line.rpartition(" ")
    thread, *frames = path.split(";")
    match = _THREAD.fullmatch(thread)
    if match is None or not frames:
        raise ValueError(f"no stack of a thread: {line[:100]}")
    for place, frame in enumerate(frames):
        if frame.startswith(COMMITTING):
            return Stack(int(match[1], 0), "storage-writer", frames[place:], int(count))
    roots = [place for place, frame in enumerate(frames) if _file(frame) in ROOTS]
    return Stack(int(match[1], 0), match[2], frames[roots[-1] if roots else 0 :], int(count))


def _file(frame: str) -> str:
    return frame.rpartition(" (")[2].rpartition(":")[0]


def weighed(stacks: Sequence[Stack], seconds: Mapping[int, float]) -> list[Stack]:
    """The stacks with their threads' processor time, in seconds, in place of samples.

    A thread that sleeps is woken by being looked at, and may be found awake the next time: it is seen, but costs
    nothing. Threads of which no time is known are taken for such.
    """
    seen: Counter[int] = Counter()
    for stack in stacks:
        seen[stack.thread] += round(stack.weight)
    return [
        Stack(each.thread, each.name, each.frames, each.weight / seen[each.thread] * seconds.get(each.thread, 0.0))
        for each in stacks
        if seconds.get(each.thread)
    ]


def by_part(stacks: Sequence[Stack]) -> dict[str, float]:
    """The share of each part of the pipeline, in the order of PARTS; those without a share are not there."""
    shares = _shares(((_part(stack), stack.weight) for stack in stacks), _total(stacks))
    return {part: shares[part] for part in PARTS if part in shares}


def _part(stack: Stack) -> str:
    """Where a stack belongs: by its thread, else by the innermost frame whose file belongs to a part."""
    for prefix, part in THREADS.items():
        if stack.name.startswith(prefix):
            return part
    for frame in reversed(stack.frames):
        for part, files in FILES.items():
            if _file(frame).startswith(tuple(files)):
                return part
    return LOOP if stack.name == "MainThread" else OTHER


def own(stacks: Sequence[Stack]) -> dict[str, float]:
    """The share of each function without what it calls, the greatest first; C functions count as their caller."""
    return _shares(((stack.frames[-1], stack.weight) for stack in stacks), _total(stacks))


def inclusive(stacks: Sequence[Stack]) -> dict[str, float]:
    """The share of each of Gatehouse's functions with all that it calls, the greatest first."""
    ours = ((frame, stack.weight) for stack in stacks for frame in set(stack.frames) if _file(frame).startswith(OURS))
    return _shares(ours, _total(stacks))


def _total(stacks: Sequence[Stack]) -> float:
    return sum(stack.weight for stack in stacks)


def _shares(weighted: Iterable[tuple[str, float]], total: float) -> dict[str, float]:
    weights: defaultdict[str, float] = defaultdict(float)
    for what, weight in weighted:
        weights[what] += weight
    return {what: weights[what] / total for what in sorted(weights, key=lambda each: (-weights[each], each))}

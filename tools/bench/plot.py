"""A result as a picture: the figures of each job as ratios to FastAPI's, out of the JSON document of the bench."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from tools.bench.servers import BenchError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BASE: Final = "fastapi"
# The document's name for each figure that a budget may be about.
KEYS: Final = {"rate": "per_second", "p50": "p50_ms", "p99": "p99_ms"}
MEANINGS: Final = {"rate": "", "p50": ": median delay", "p99": ": 99th percentile of the delay"}

NAMES: Final = {"gatehouse": "Gatehouse", "fastapi": "FastAPI", "limit": "the limit"}
COLOURS: Final = {"gatehouse": "#1f6f8b", "fastapi": "#c05746", "limit": "#a3adb5"}
INK: Final = "#24292f"
# GitHub shows a README about 830 pixels wide: at twice as many a point of type is a little more than a pixel there.
WIDTH_INCHES: Final = 9.2
ROW_INCHES: Final = 0.21
MARGIN_INCHES: Final = 0.75
DOTS_PER_INCH: Final = 180
TICKS: Final = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)


@dataclass(frozen=True, slots=True)
class Bar:
    """A server's figure as a ratio to FastAPI's, above 1 where it is better, with its spread, and as it is in words."""

    server: str
    value: float
    least: float
    greatest: float
    told: str


@dataclass(frozen=True, slots=True)
class Group:
    """The bars of a job; `floors` are what Gatehouse's has to reach, on the same scale."""

    title: str
    bars: Sequence[Bar]
    floors: Sequence[float]


def groups(document: Mapping[str, Any]) -> list[Group]:
    """Each job that FastAPI was given too, once for every figure that it is judged by, over the rounds of all runs."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for run in document["runs"]:
        for played in run["played"]:
            if BASE in played["rounds"]:
                found.setdefault(played["name"], []).append(played)
    return [
        _group(same, figure)
        for same in found.values()
        for figure in dict.fromkeys(ratio["figure"] for ratio in same[0]["ratios"])
    ]


def _group(same: Sequence[Mapping[str, Any]], figure: str) -> Group:
    """One group; `same` is a job as every run has played it."""
    first = same[0]
    figures = {
        server: [outcome[KEYS[figure]] for played in same for outcome in played["rounds"][server]]
        for server in first["rounds"]
    }
    base: float = median(figures[BASE])

    def ratio(value: float) -> float:
        return value / base if figure == "rate" else base / value

    def bar(server: str, values: Sequence[float]) -> Bar:
        least, greatest = sorted((ratio(min(values)), ratio(max(values))))
        return Bar(server, ratio(median(values)), least, greatest, _told(median(values), figure, first["unit"]))

    bars = [bar(server, values) for server, values in figures.items()]
    floors = [
        asked["floor"] * ratio(median(figures[asked["against"]]))
        for asked in first["ratios"]
        if asked["figure"] == figure
    ]
    return Group(first["work"] + MEANINGS[figure], bars, floors)


def _told(value: float, figure: str, unit: str) -> str:
    return f"{value:,.0f} {unit}s/s" if figure == "rate" else f"{value:,.1f} ms"


def draw(document: Mapping[str, Any], file: Path) -> None:
    """Make a PNG of a document; raises BenchError where matplotlib is missing or there is nothing to show."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - optional, and slow to import
        from matplotlib.figure import Figure  # noqa: PLC0415 - the same
    except ImportError:
        raise BenchError("no plot: matplotlib is not installed (pip install matplotlib)") from None
    shown = groups(document)
    if not shown:
        raise BenchError(f"no plot: nothing was measured beside {NAMES[BASE]}")
    rows = sum(len(group.bars) + 1.6 for group in shown)
    figure = Figure(figsize=(WIDTH_INCHES, rows * ROW_INCHES + MARGIN_INCHES), layout="constrained")
    figure.set_facecolor("white")
    axes = FigureCanvasAgg(figure).figure.add_subplot()
    _lay_out(axes, shown)
    row = 0.0
    for group in shown:
        row = _draw_group(axes, group, row)
    axes.set_ylim(row, -0.6)
    axes.set_xlabel(_caption(document), fontsize=8.5, color=INK)
    figure.savefig(file, dpi=DOTS_PER_INCH)


def _caption(document: Mapping[str, Any]) -> str:
    return (
        f"times {NAMES[BASE]}, medians; thin lines: least to greatest round; ticks: floors of {NAMES['gatehouse']}"
        f" ({document['date'][:10]}, {document['machine']['cores']} cores)"
    )


def _lay_out(axes: Axes, shown: Sequence[Group]) -> None:
    """The scale, with room for the words at the right of the longest bar."""
    every = [bar for group in shown for bar in group.bars]
    least, greatest = min(bar.least for bar in every), max(bar.greatest for bar in every)
    axes.set_xscale("log")
    axes.set_xlim(min(0.7, least * 0.9), greatest * (greatest / least) ** 0.45)
    ticks = [tick for tick in TICKS if least * 0.9 <= tick <= greatest * 1.1 or tick == 1]
    axes.set_xticks(ticks, [f"{tick:g}×" for tick in ticks], fontsize=8.5, color=INK)
    axes.minorticks_off()
    axes.set_yticks([])
    axes.grid(axis="x", color="#e4e7ea", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.axvline(1, color=COLOURS[BASE], linewidth=0.9)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _draw_group(axes: Axes, group: Group, row: float) -> float:
    """Draw a title and its bars from a row on; returns the row of the next group."""
    left = axes.get_yaxis_transform()
    # The lines of the scale would run through the words.
    clear = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    axes.text(0, row, group.title, transform=left, va="center", fontsize=8.5, fontweight="bold", color=INK, bbox=clear)
    for number, bar in enumerate(group.bars, start=1):
        place = row + number
        colour = COLOURS[bar.server]
        axes.barh(place, bar.value - 1, left=1, height=0.72, color=colour)
        axes.plot([bar.least, bar.greatest], [place, place], color=INK, linewidth=0.9, solid_capstyle="butt")
        if bar.server == BASE:
            axes.plot([bar.value], [place], "o", color=colour, markersize=4)
        axes.text(-0.01, place, NAMES[bar.server], transform=left, va="center", ha="right", fontsize=8.5, color=INK)
        axes.annotate(
            f"{bar.value:.3g}×  {bar.told}",
            (max(bar.greatest, bar.value, *group.floors if bar.server == "gatehouse" else (1,)), place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            color=INK,
        )
        if bar.server == "gatehouse":
            axes.vlines(group.floors, place - 0.5, place + 0.5, color="black", linewidth=1.8)
    return row + len(group.bars) + 1.6

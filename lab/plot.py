"""A picture of the window filling and emptying, drawn from the events a session sends.

What was sent stands as stacked blocks, in order of what it costs to lose them; above it, where something
left, the size before. matplotlib is loaded when something is drawn.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.lab.fonts import families
from headwater.lab.trace import REMEDIES, SENT, HasTrace, Sample, TraceError
from headwater.window.policy import Level, Lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK, _FAINT = "#27313b", "#8a949e"
_BLOCK_COLOURS = {
    "tools": "#5b6770",
    "contract": "#27313b",
    "history": "#8268b0",
    "tail": "#2f7f86",
    "stubs": "#d9a441",
    "observations": "#8fc1d4",
    SENT: "#8fc1d4",
}
# Pale fills need darker words.
_TEXT_COLOURS = {"observations": "#4787a3", SENT: "#4787a3", "stubs": "#a8781c"}
_LEVEL_COLOURS = {
    Level.NORMAL: "#dfe9e4",
    Level.OFFLOAD: "#f0c66b",
    Level.COMPACT: "#e58a4b",
    Level.EXHAUSTED: "#c0392b",
}
_REMEDY_COLOURS = {"offload": "#b98118", "summarize": "#6c4fa3", "reclaim": "#c0392b", "halt": "#111111"}


def plot_window(report: HasTrace, *, title: str = "", size: tuple[float, float] = (11, 6)) -> "Figure":
    """Draw the window over the steps of a session.

    Args:
        report: A `Trace`, or anything with its `samples` and `lines`.
        title: One line above the picture.
        size: Inches.

    Returns:
        A figure of its own: no global state of matplotlib is touched, so nothing has to be closed.

    Raises:
        TraceError: There is no step to draw.
    """
    from matplotlib.figure import Figure

    samples, lines = list(report.samples), report.lines
    if not samples:
        raise TraceError("no step to draw; the session made no request")
    figure = Figure(figsize=size, dpi=110, facecolor="white")
    grid = figure.add_gridspec(
        2, 1, height_ratios=(6, 1), hspace=0.06, left=0.075, right=0.83, top=0.9, bottom=0.09
    )
    above = figure.add_subplot(grid[0])
    below = figure.add_subplot(grid[1], sharex=above)
    _draw_window(above, samples, lines)
    _draw_acts(below, samples)
    if title:
        family = families(title)
        figure.text(0.075, 0.945, title, fontsize=13, color=_INK, weight="bold", family=family)
    return figure


def _draw_window(axes: "Axes", samples: Sequence[Sample], lines: Lines) -> None:
    steps = [sample.step for sample in samples]
    end = steps[-1] + 0.5
    top = 1.03 * max(lines.window, *(sample.peak for sample in samples))
    _draw_levels(axes, lines, top, end)
    labels: list[tuple[float, str, str, str]] = []
    floor = [0.0] * len(samples)
    names = list(dict.fromkeys(name for sample in samples for name in sample.blocks))
    for name in names:
        roof = [low + sample.blocks.get(name, 0) for low, sample in zip(floor, samples, strict=True)]
        colour = _BLOCK_COLOURS.get(name, _FAINT)
        axes.bar(
            steps, [b - a for a, b in zip(floor, roof, strict=True)], 1.0, floor, color=colour, linewidth=0
        )
        labels.append(((floor[-1] + roof[-1]) / 2, name, _TEXT_COLOURS.get(name, colour), "bold"))
        floor = roof
    for sample in samples:
        for move in sample.moves[-1:]:
            axes.plot(
                [sample.step] * 2,
                [sample.sent, sample.peak],
                color=_REMEDY_COLOURS[move],
                linewidth=1.1,
                alpha=0.85,
            )
            axes.plot(
                sample.step, sample.peak, marker="v", markersize=5, color=_REMEDY_COLOURS[move], linewidth=0
            )
    for name in ("offload", "compact", "exhausted", "usable", "window"):
        tokens = getattr(lines, name)
        labels.append(
            (tokens, f"{name} {tokens:,}", _INK if name in ("usable", "window") else "#8a4b1d", "normal")
        )
    _label_right(axes, labels, end, top)
    axes.set_xlim(0.5, end)
    axes.set_ylim(0, top)
    axes.set_ylabel("tokens of input", color=_INK)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value / 1_000:.0f}k" if value else "0")
    axes.tick_params(axis="x", length=0, labelbottom=False)
    _plain(axes)


def _draw_levels(axes: "Axes", lines: Lines, top: float, end: float) -> None:
    """The zones between the lines, each with its level's name where the window is still empty."""
    edges = (0, lines.offload, lines.compact, lines.exhausted, lines.usable)
    for level, low, high in zip(Level, edges, edges[1:], strict=False):
        tint = 0.0 if level is Level.NORMAL else 0.16
        axes.axhspan(low, high, color=_LEVEL_COLOURS[level], alpha=tint, linewidth=0)
        if low:
            axes.axhline(low, color=_LEVEL_COLOURS[level], linewidth=1.2)
        small = 6.5 if high - low < 0.05 * top else 8.5
        # Above the first steps, where the window is still empty.
        axes.text(
            1 + end * 0.004,
            low + (high - low) * (0.5 if low else 0.85),
            level.name,
            fontsize=small,
            color=_INK,
            va="center",
            alpha=0.75,
        )
    axes.axhline(lines.usable, color=_INK, linewidth=1.2, linestyle=(0, (4, 2)))
    axes.axhline(lines.window, color=_INK, linewidth=1.2)
    axes.axhspan(lines.usable, lines.window, facecolor="none", edgecolor="#d5dade", hatch="////", linewidth=0)
    middle = (lines.usable + lines.window) / 2
    axes.text(
        1 + end * 0.004, middle, "kept free for the answer", fontsize=8.5, color=_INK, va="center",
        alpha=0.75, bbox={"facecolor": "white", "edgecolor": "none", "pad": 2},
    )  # fmt: skip


def _draw_acts(axes: "Axes", samples: Sequence[Sample]) -> None:
    """A strip of the level of every step, and a mark for every remedy below it."""
    end = samples[-1].step + 0.5
    acts = [name for name in REMEDIES if name != "halt" or any("halt" in s.moves for s in samples)]
    for sample in samples:
        axes.bar(sample.step, 0.8, 1.0, -0.4, color=_LEVEL_COLOURS[sample.level], linewidth=0)
    for row, name in enumerate(acts, 1):
        at = [sample.step for sample in samples if name in sample.moves]
        axes.axhline(row, color="#e6eaed", linewidth=0.8, zorder=0)
        axes.plot(at, [row] * len(at), marker="v", markersize=5, linewidth=0, color=_REMEDY_COLOURS[name])
        times = sum(sample.moves.count(name) for sample in samples)
        axes.annotate(
            f"{times} ×", (end, row), (8, 0), textcoords="offset points", va="center", fontsize=8.5,
            color=_REMEDY_COLOURS[name], annotation_clip=False,
        )  # fmt: skip
    axes.set_yticks(range(len(acts) + 1), ["level", *acts], fontsize=8.5)
    for text, name in zip(axes.get_yticklabels(), ["", *acts], strict=True):
        text.set_color(_REMEDY_COLOURS.get(name, _INK))
    axes.set_ylim(len(acts) + 0.6, -0.6)
    axes.set_xlabel("step (one call of the model)", color=_INK)
    axes.tick_params(axis="y", length=0)
    _plain(axes)
    axes.spines["left"].set_visible(False)


def _label_right(axes: "Axes", labels: Sequence[tuple[float, str, str, str]], end: float, top: float) -> None:
    """Labels beside the right edge at their heights, pushed apart where they would overlap."""
    ordered = sorted(labels)
    places = spread([height for height, *_ in ordered], 0.042 * top, top)
    for (height, text, colour, weight), place in zip(ordered, places, strict=True):
        axes.annotate(
            text, (end, height), (1.03, place), xycoords="data", textcoords=("axes fraction", "data"),
            fontsize=9, color=colour, weight=weight, va="center", annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.8, "shrinkA": 1, "shrinkB": 0},
        )  # fmt: skip


def spread(heights: Sequence[float], gap: float, top: float) -> list[float]:
    """Ascending heights moved as little as needs be so that neighbours stand `gap` apart below `top`."""
    places: list[float] = []
    for height in heights:
        places.append(max(height, places[-1] + gap) if places else max(height, 0.0))
    limit = top
    for index in range(len(places) - 1, -1, -1):
        places[index] = min(places[index], limit)
        limit = places[index] - gap
    return places


def _plain(axes: "Axes") -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#c3cad0")
    axes.tick_params(colors=_INK, labelsize=8.5)

"""What a demo shows while it runs: bar, window meter and events on a terminal; plain lines elsewhere."""

from collections import deque
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from headwater.demo_words import Words
from headwater.lab.redrawn import LEVEL_COLOURS, Redrawn

METER_WIDTH = 56
PLAIN_EVERY = 20
_SHOWN = 10
_LOUD = {"overflow", "reclaim", "halt", "offload_failed", "fact_refused"}


def meter(estimate: int, lines: Mapping[str, int], width: int = METER_WIDTH) -> str:
    """The window as a row of cells: filled up to the estimate, `│` at offload, compact and exhausted.

    >>> meter(8, {"window": 16, "offload": 9, "compact": 11, "exhausted": 13}, 16)
    '████████·│·│·│··'
    """
    window = max(1, lines["window"])
    filled = min(width, round(estimate / window * width))
    cells = ["█"] * filled + ["·"] * (width - filled)
    for name in ("offload", "compact", "exhausted"):
        at = min(width - 1, int(lines[name] / window * width))
        cells[at] = "│" if cells[at] == "·" else "┃"
    return "".join(cells)


class Screen(Redrawn):
    """Shows a run. On a terminal it redraws in place; in a pipe or a file it prints lines.

    Args:
        console: Where to.
        words: In which language.
        total: Steps of the main agent that are planned.
    """

    def __init__(self, console: Console, words: Words, total: int) -> None:
        super().__init__(console)
        self.words = words
        self.total = total
        self.step = 0
        self._events: deque[Text] = deque(maxlen=_SHOWN)
        self._water: dict[str, Any] | None = None
        self._briefs: dict[str, str] = {}
        self._progress = Progress(
            BarColumn(40),
            MofNCompleteColumn(),
            TextColumn(words("steps")),
            TimeElapsedColumn(),
            console=console,
        )
        self._task = self._progress.add_task("", total=total)

    def event(self, event: Mapping[str, Any]) -> None:
        """Take in one event of the run."""
        kind = str(event.get("type", "")).removeprefix("headwater.")
        if kind == "delegate":
            self._briefs[event["session"]] = event["brief"]
        elif kind == "conclusion":
            event = {**event, "brief": self._briefs.get(event["session"], "")}
        if kind == "watermark":
            self._water = dict(event)
        elif kind == "request":
            self._advance()
        elif told := self.words.event(dict(event)):
            style = "bold red" if kind in _LOUD else "cyan"
            self._say(Text.assemble((f"{told[0]:<9} ", style), told[1]))
        self.redraw()

    def note(self, text: str) -> None:
        """Say something beside the events."""
        self._say(Text(text, "bold"))
        self.redraw()

    def _advance(self) -> None:
        self.step += 1
        self._progress.update(self._task, completed=min(self.step, self.total))
        if not self.is_drawn and (self.step % PLAIN_EVERY == 0 or self.step == self.total) and self._water:
            state = f"[{meter(self._water['estimate'], self._water['lines'])}] {self._state()}"
            self._print(Text(self.words("line", step=self.step, total=self.total, meter=state)))

    def _say(self, text: Text) -> None:
        self._events.append(text)
        if not self.is_drawn:
            self._print(text)

    def _print(self, text: Text) -> None:
        self.console.print(text, soft_wrap=True, highlight=False)

    def _state(self) -> str:
        water = self._water or {}
        level = self.words(str(water["level"]))
        return self.words("meter", estimate=water["estimate"], window=water["lines"]["window"], level=level)

    def picture(self) -> Group:
        """Progress, the window, and the last events."""
        parts: list[Any] = [self._progress]
        if self._water:
            style = LEVEL_COLOURS[str(self._water["level"])]
            parts.append(Text.assemble((meter(self._water["estimate"], self._water["lines"]), style)))
            lines = {
                k: v for k, v in self._water["lines"].items() if k in ("offload", "compact", "exhausted")
            }
            parts.append(Text.assemble((self._state(), style), "   ", (self.words("lines", **lines), "dim")))
        shown = Table.grid()
        for text in self._events:
            row = text.copy()
            row.no_wrap, row.overflow = True, "ellipsis"
            shown.add_row(row)
        return Group(*parts, shown)

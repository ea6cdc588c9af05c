"""A picture that is redrawn in place on a terminal, for as long as its `with` lasts."""

from abc import ABC, abstractmethod
from types import MappingProxyType, TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live

LEVEL_COLOURS = MappingProxyType(
    {"NORMAL": "green", "OFFLOAD": "yellow", "COMPACT": "dark_orange", "EXHAUSTED": "red"}
)
"""Of the levels, lowest first."""


class Redrawn(ABC):
    """What shows itself as a picture; in a pipe or a file nothing is drawn.

    Args:
        console: Where to.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live: Live | None = None

    @abstractmethod
    def picture(self) -> RenderableType:
        """How things stand now."""

    @property
    def is_drawn(self) -> bool:
        """Whether there is a terminal, and the `with` has begun."""
        return self._live is not None

    def redraw(self) -> None:
        """Show how things stand."""
        if self._live:
            self._live.update(self.picture())

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live = Live(self.picture(), console=self.console, refresh_per_second=8)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self.redraw()
            self._live.stop()
            self._live = None

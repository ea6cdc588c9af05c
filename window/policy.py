"""The lines of the window, and which level an estimate has reached (M2-M5, E1)."""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Literal, NamedTuple

from headwater.window.sizes_table import DEFAULT_WINDOW

# M4: headroom in tokens below the usable window, by window size. Absolute, so that one more round fits.
_HEADROOM = ((128_000, 40_000), (64_000, 20_000), (32_000, 10_000))


class PolicyError(ValueError):
    """A window policy that cannot be kept; the message says which value to change."""


class Level(IntEnum):
    """How full the window is; the highest line that is reached wins (M2)."""

    NORMAL = 0
    OFFLOAD = 1
    COMPACT = 2
    EXHAUSTED = 3


class Lines(NamedTuple):
    """The lines of one window, all in tokens of input."""

    window: int
    usable: int
    offload: int
    compact: int
    exhausted: int

    def level(self, estimate: int) -> Level:
        """The level of an estimate; a line counts as reached when the estimate equals it."""
        if estimate >= self.exhausted:
            return Level.EXHAUSTED
        if estimate >= self.compact:
            return Level.COMPACT
        if estimate >= self.offload:
            return Level.OFFLOAD
        return Level.NORMAL


@dataclass(frozen=True)
class WindowPolicy:
    """When to act on the window, and on what. Pure and immutable; checked at construction.

    Attributes:
        window: Input window in tokens; None asks `window_of(model)`.
        output_reserve: Tokens kept free for the answer; None takes the request's output cap, else
            the smaller of the model's maximum and a quarter of the window.
        offload, compact, exhausted: Lines as fractions of the usable window; each also keeps the
            headroom of M4 below it.
        keep_messages, keep_tags, keep_tokens: The protected zone at the end of the tail: its last
            messages (E5) and tags (G4), never more tokens than `keep_tokens` or a quarter of the window.
        min_result, min_arguments: Tool results and tool-call arguments from this size on (tokens)
            become stubs once they have left the zone.
        arrival: Results of search, shell and web over this size (tokens) never enter the window.
        history: Share of the window that told history may fill (G4).
        facts: Tokens of long-term facts chosen into the baseline (G27).
        summarise: "line" summarises only at COMPACT, "cold" also when the cache is cold anyway and
            the tail is long, "never" leaves it to `reclaim`.
        background: Whether a summarizer works ahead beside the steps, which then never wait for it (G1);
            False has it called in line at COMPACT and nowhere else: every run gives the same calls, in the
            same order, and the step waits. Without a summarizer there is nothing to wait for either way.
        governance: Tokens that governance may spend on models of its own in a session; None is no cap.
        remind: Messages after which the next one of the user's asks the model whether there is anything to
            remember (C17); 0 never asks.
        provider: The row of `window/providers.py` that holds, such as "vllm" for a server whose templates
            alternate roles; None finds it from the model.
    """

    window: int | None = None
    output_reserve: int | None = None
    offload: float = 0.65
    compact: float = 0.85
    exhausted: float = 0.95
    keep_messages: int = 6
    keep_tags: int = 20
    keep_tokens: int = 20_000
    min_result: int = 200
    min_arguments: int = 200
    arrival: int = 8_000
    history: float = 0.15
    facts: int = 4_000
    summarise: Literal["line", "cold", "never"] = "line"
    background: bool = True
    governance: int | None = 2_000_000
    remind: int = 0
    provider: str | None = None

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1_024:
            raise PolicyError(
                f"window={self.window!r} is below 1,024 tokens; no agent step fits, set a larger one"
            )
        if not 0 < self.offload < self.compact < self.exhausted <= 1:
            raise PolicyError(
                "lines are fractions with 0 < offload < compact < exhausted <= 1, got "
                f"{self.offload!r}, {self.compact!r}, {self.exhausted!r}"
            )
        if self.output_reserve is not None and self.output_reserve < 0:
            raise PolicyError(f"output_reserve={self.output_reserve!r} cannot be negative")
        if self.window is not None and self.output_reserve is not None and self.output_reserve >= self.window:
            raise PolicyError(
                f"output_reserve={self.output_reserve!r} leaves nothing of window={self.window!r}; lower it"
            )
        for name in ("keep_messages", "keep_tags", "keep_tokens", "min_result", "min_arguments", "arrival"):
            if getattr(self, name) < 1:
                raise PolicyError(f"{name}={getattr(self, name)!r} must be at least 1")
        if self.remind < 0:
            raise PolicyError(f"remind={self.remind!r} cannot be negative; 0 never reminds")
        if not 0 < self.history < 0.5:
            raise PolicyError(f"history={self.history!r} is a share of the window between 0 and 0.5")
        if self.summarise not in ("line", "cold", "never"):
            raise PolicyError(f"summarise={self.summarise!r} is not one of 'line', 'cold', 'never'")

    def lines(self, window: int | None = None, max_output: int | None = None) -> Lines:
        """The lines for a window of `window` tokens (default: the policy's, else 128k).

        `max_output` is the model's maximum, where known. The reserve never takes more than seven eighths of
        the window, so that the lines stay positive.
        """
        size = self.window or window or DEFAULT_WINDOW
        reserve = self.output_reserve
        if reserve is None:
            quarter = size // 4
            reserve = min(max_output, quarter) if max_output else quarter
        usable = size - min(reserve, size - size // 8)
        headroom = min(_headroom(size), usable // 2)
        # Fractions may lie closer than one token apart; the order of M3 holds all the same.
        exhausted = max(3, min(int(self.exhausted * usable), size - 1))
        compact = max(2, min(int(self.compact * usable), usable - headroom // 2, exhausted - 1))
        offload = max(1, min(int(self.offload * usable), usable - headroom, compact - 1))
        return Lines(window=size, usable=usable, offload=offload, compact=compact, exhausted=exhausted)

    def level(self, estimate: int, window: int | None = None) -> Level:
        """The level of an estimate of input tokens (M2); pure."""
        return self.lines(window).level(estimate)

    def zone(self, window: int) -> int:
        """Tokens that the protected zone may hold at the most."""
        return min(self.keep_tokens, window // 4)

    def with_window(self, window: int) -> "WindowPolicy":
        """The same policy for a window of another size."""
        return replace(self, window=window)


def _headroom(window: int) -> int:
    for floor, headroom in _HEADROOM:
        if window >= floor:
            return headroom
    return window * 10_000 // 32_000

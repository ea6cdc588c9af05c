"""Every mechanism of the chain with the way to switch it off, so that a replay shows what it is worth.

Where a setting switches it off, the setting does. Where none does, because no user should, the one function
that is the mechanism is replaced for the time of the replay by one that does nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal
from unittest.mock import patch

from benchmarks.optimum import Never
from headwater.window import Prices, WindowPolicy

_MANY = 10**9
_ROOM = "headwater."


@dataclass(frozen=True)
class _Awake(Prices):
    """Prices by which no cache ever cools: a pause is no occasion to move."""

    def is_cold(self, asked: float | None, now: float) -> bool:
        """Before the first request only."""
        return asked is None


@dataclass(frozen=True)
class Switch:
    """How a mechanism is switched off.

    Attributes:
        what: What is off, in words.
        policy: Settings of `WindowPolicy`.
        assumed: The prices that the agent decides by; None for the provider's.
        context_tools: Whether the agent has its own tools.
        replaced: Functions by where they are looked up, and what stands there instead.
        wire: The provider's format.
        against: The run that it is compared with.
        kept: Why it is on where it buys nothing.
    """

    what: str
    policy: Mapping[str, Any] = field(default_factory=dict)
    assumed: Prices | None = None
    context_tools: bool = True
    replaced: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    wire: Literal["openai", "anthropic"] = "openai"
    against: str = "all on"
    kept: str = ""

    def of(self, window: int) -> WindowPolicy:
        """The policy for a window."""
        return WindowPolicy(window=window, **self.policy)

    @contextmanager
    def off(self) -> Iterator[None]:
        """For as long as this lasts the functions are replaced."""
        with ExitStack() as stack:
            for place, stand_in in self.replaced.items():
                stack.enter_context(patch(_ROOM + place, stand_in))
            yield


def _no(*_: Any, **__: Any) -> bool:
    return False


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _full(*_: Any, **__: Any) -> int:
    return 1


def _same(text: str, *_: Any, **__: Any) -> str:
    return text


def _no_pins(*_: Any, **__: Any) -> list[Any]:
    return []


SWITCHES: Mapping[str, Switch] = MappingProxyType(
    {
        "all on": Switch("nothing"),
        "result stubs": Switch("old tool results stay in the window", {"min_result": _MANY}),
        "argument stubs": Switch("old tool-call arguments stay", {"min_arguments": _MANY}),
        "arrival": Switch(
            "large results come in whole, up to a quarter of the window",
            {"arrival": _MANY},
            kept="a result may take a quarter of the window in any case, which at 32k is the same 8,000 "
            "tokens; in a larger window one result would fill much of it",
        ),
        "superseded results": Switch(
            "a result stays when the same call was made again",
            replaced={"window.view.View._note_repeat": _nothing},
            kept="of a call that was made again the older result leaves whole, without a stub; the newer one "
            "says how things stand",
        ),
        "cleaning": Switch(
            "tool output comes in as it is",
            replaced={"nodes.intake.clean": _same},
            kept="terminal codes and progress lines say nothing to a model, whatever they cost",
        ),
        "rent or buy: never": Switch("nothing moves below the lines", assumed=Never()),
        "rent or buy: always": Switch("what may move moves at once", assumed=Prices.uncached()),
        "cold gaps": Switch(
            "a pause is no occasion to move",
            assumed=_Awake(),
            kept="what it moves is free at that moment",
        ),
        "summary": Switch("history is never told, only reclaimed", {"summarise": "never"}),
        "decay": Switch("told history stays in full", replaced={"window.compartments.decay_tier": _full}),
        "pins": Switch(
            "no task note",
            replaced={"nodes.intake.pins_of": _no_pins},
            kept="it is the promise that a user's rules stay in sight verbatim, whoever tells history; the "
            "digest used here happens to keep them",
        ),
        "context tools": Switch(
            "no tools of its own, and no guide to them",
            context_tools=False,
            kept="without them nothing that left the window can be read back; `context_tools=False` leaves "
            "them out",
        ),
        "all on, Anthropic": Switch("nothing; the wire carries the recorded reasoning", wire="anthropic"),
        "reasoning drop": Switch(
            "old reasoning stays",
            replaced={"window.view.may_strip": _no},
            kept="models that reason at length send it again at each step",
            wire="anthropic",
            against="all on, Anthropic",
        ),
    }
)

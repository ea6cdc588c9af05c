"""One child at work: what runs, for which delegation, how far it is, and how it ended."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphRecursionError

from headwater.nodes.delegation import Delegation, SubAgent, digest_of
from headwater.nodes.purse import BRIEFS, CHAIN, DEPTH

NODES_A_STEP = 8
MOST_STEPS = 100_000
Write = Callable[[Any], None]


@dataclass
class Run:
    """One child at work.

    Attributes:
        spec, graph: What runs.
        order: Its delegation.
        write: Where its events go.
        state: The newest state it has shown.
        value: What a runnable returned that holds no messages.
        paid: Messages of a runnable of the user's that are booked.
    """

    spec: SubAgent
    graph: Runnable[Any, Any]
    order: Delegation
    write: Write
    state: dict[str, Any] = field(default_factory=dict)
    value: Any = None
    paid: int = 0

    @property
    def session(self) -> str:
        """The child's session."""
        return self.order["session"]

    @property
    def chain(self) -> list[str]:
        """The accounts that pay."""
        return [self.session, *self.order["chain"]]

    @property
    def governed(self) -> bool:
        """Whether it is a graph of ours, which pays step by step and keeps its own archive."""
        return self.spec.runnable is None and self.spec.remote is None

    @property
    def messages(self) -> list[BaseMessage]:
        """What it has said so far."""
        found = self.state.get("messages") or []
        return [m for m in found if isinstance(m, BaseMessage) and not isinstance(m, RemoveMessage)]


class PurseSpent(Exception):
    """A runnable of the user's has used up what it may spend."""


def how(messages: Sequence[BaseMessage], error: BaseException | None) -> tuple[Any, str]:
    """Status of a child that has ended, and why it is not "done"."""
    if isinstance(error, asyncio.CancelledError):
        return "cancelled", "it was cancelled"
    if isinstance(error, GraphRecursionError):
        return "partial", "its budget of steps is spent"
    if isinstance(error, (TimeoutError, PurseSpent)):
        named = f"{type(error).__name__}: " if isinstance(error, TimeoutError) else ""
        return "partial", f"{named}{error}"
    if error is not None:
        return "failed", f"{type(error).__name__}: {error}"
    last = messages[-1] if messages else None
    marker = last.response_metadata.get("headwater") if isinstance(last, AIMessage) else None
    return ("partial", str(marker)) if marker else ("done", "")


def child_config(order: Delegation, spec: SubAgent, config: RunnableConfig) -> RunnableConfig:
    """The child's own thread and purse; nothing of the parent's checkpoint, but its callbacks and tags."""
    given = config.get("configurable") or {}
    own = {k: v for k, v in given.items() if not k.startswith(("__pregel", "checkpoint"))}
    steps = int(min(spec.budget.steps, MOST_STEPS))
    return {
        "configurable": {
            **own,
            "thread_id": order["session"],
            CHAIN: [order["session"], *order["chain"]],
            DEPTH: min(order["depth"] - 1, spec.budget.depth),
            BRIEFS: [*order["briefs"], digest_of(order["call"]["args"])],
        },
        "recursion_limit": steps * NODES_A_STEP + 16,
        "callbacks": config.get("callbacks"),
        "tags": config.get("tags") or [],
    }

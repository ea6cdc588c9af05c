"""The four promises as functions over any way to run an agent, so that each way is held to the same.

A runner makes an agent from the same parts; what it gives back is streamed like any LangGraph graph.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hypothesis import strategies as st
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver

from headwater.lab.provider import Reply, Request, ToolCall
from headwater.memory import Memory
from headwater.window import Prices, WindowPolicy
from headwater.window.stubs import is_only_stub
from tests.graph.world import Agent, Event, body, of, shown

RULE = "Never restart the database."
SYSTEM = "You inspect plants."


class Setup(NamedTuple):
    """What every runner makes its agent from."""

    model: BaseChatModel
    tools: Sequence[BaseTool]
    memory: Memory
    policy: WindowPolicy
    prices: Prices
    saver: BaseCheckpointSaver[Any] | None = None
    lead: BaseChatModel | None = None
    """For what stands above the agents and cannot be governed; its window is large."""


Runner = Callable[[Setup], Agent]

rounds = st.lists(
    st.lists(st.sampled_from([20, 60, 200, 500, 900, 2_600]), max_size=6), min_size=1, max_size=5
)


@dataclass
class Work:
    """A model that calls `inspect` as planned, round after round; `each` calls in one message."""

    plan: Sequence[Sequence[int]]
    each: int = 1
    requests: list[Request] = field(default_factory=list)
    made: list[tuple[int, int]] = field(default_factory=list)
    _left: list[int] = field(default_factory=list)

    def begin(self, number: int) -> str:
        """What the user says in a round."""
        self._left = list(self.plan[number])
        return f"Round {number}: inspect {len(self._left)} units. {RULE if number == 0 else ''}"

    def __call__(self, request: Request) -> Reply:
        self.requests.append(request)
        batch: list[ToolCall] = []
        while self._left and len(batch) < self.each:
            words, number = self._left.pop(0), len(self.made)
            self.made.append((number, words))
            batch.append(ToolCall("inspect", {"number": number, "words": words}))
        return Reply("" if batch else "This round is done.", tuple(batch))

    def results(self) -> list[str]:
        """What the tool returned, in order."""
        return [body(number, words) for number, words in self.made]


@dataclass
class Shared(Work):
    """The same work done by two agents that hand over to one another: a swarm, or under a supervisor.

    In each request the agent has the tools that are its own; the supervisor has nothing but handoffs.
    """

    every: int = 2
    """Batches that an agent does before it hands over."""
    turns: int = 0
    done: int = 0

    def __call__(self, request: Request) -> Reply:
        handoffs = sorted(name for name in request.tools if name.startswith("transfer_to_"))
        if "inspect" not in request.tools:
            return self._supervise(request, handoffs)
        if handoffs and self._left and self.done >= self.every:
            # A swarm: the other one goes on.
            self.requests.append(request)
            self.done = 0
            return Reply("", (ToolCall(handoffs[0], {}),))
        if not handoffs and self.done >= self.every:
            self.requests.append(request)
            self.done = 0
            return Reply("My part is done.")
        self.done += 1
        return super().__call__(request)

    def _supervise(self, request: Request, handoffs: Sequence[str]) -> Reply:
        """The agents by turns, as long as there is work and in each round at least one."""
        newest = max(i for i, row in enumerate(request.messages) if row["role"] == "user")
        if not self._left and len(request.messages) > newest + 1:
            return Reply("This round is done.")
        self.turns += 1
        self.done = 0
        return Reply("", (ToolCall(handoffs[self.turns % 2], {}),))


def speaker(request: Request) -> str:
    """Which agent asks, where several share a session: each has a prompt of its own."""
    return request.system.partition("\n")[0]


def nothing_is_lost(memory: Memory, work: Work, session: str) -> None:
    """Promise 1: every result is in the archive byte for byte, and every stub shown names its own bytes."""
    log = memory.archive.read(session, 1, memory.archive.last(session))
    kept = [str(m.content) for _, m in log if m.type == "tool" and m.name == "inspect"]
    assert kept == work.results()
    for row in work.requests[-1].messages if work.requests else ():
        text = str(row.get("text", "")).split(" ", 1)[-1]
        if row["role"] == "tool" and is_only_stub(text):
            assert memory.artifacts.read_text(text.split()[1]) in work.results()


def nothing_moves_while_warm(events: Sequence[Event], work: Work) -> None:
    """Promise 2: on a DEFER pass the previous request is a prefix of the new one."""
    asked = of(events, "request")
    assert len(asked) == len(work.requests), "the model is called exactly once a step"
    last: dict[str, Request] = {}
    for event, now in zip(asked, work.requests, strict=True):
        before = last.get(speaker(now))
        if event["kind"] == "defer" and before is not None:
            assert now.system == before.system
            assert list(now.messages[: len(before.messages)]) == list(before.messages)
        last[speaker(now)] = now


def pins_stay_in_sight(work: Work) -> None:
    """Promise 3: what the user laid down is verbatim in every request."""
    assert all(RULE in shown(request) for request in work.requests)


def numbered_once(messages: Sequence[BaseMessage]) -> None:
    """What the agent's state holds carries its number, each another, in order."""
    tags = [m.additional_kwargs.get("headwater", 0) for m in messages]
    assert all(tags), [(m.type, m.text[:40]) for m, tag in zip(messages, tags, strict=True) if not tag]
    assert tags == sorted(set(tags))

"""The account of one run: every figure per step, and their sums.

It listens in four places: the provider (what was sent), the graph's event stream (what governance did), the
model's callbacks (how long governance took) and the checkpointer (what was saved).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from headwater.lab.sent_requests import SentRequests, Spent
from headwater.lab.trace import Sample, remedy_of
from headwater.window.policy import Level, Lines
from headwater.window.prices import Prices


@dataclass(frozen=True)
class Step:
    """One model call.

    Attributes:
        number: From 1.
        at: Seconds of the recording's clock; `gap` since the step before (0 for the first).
        kind: The pass: defer, execute or fold.
        level: The highest that the estimate reached; `estimate` is that estimate in tokens.
        blocks: Tokens sent by block of the window, bottom first; they add up to `spent`'s input.
        spent: Tokens by what became of them.
        cost: In uncached input tokens.
        moves: The remedies carried out before the request, in order.
        summary_calls, summary_tokens: Of the model that summarises.
        checkpoint_bytes: Saved since the step before.
        governance_ms: Between two model calls, the graph itself included.
    """

    number: int
    at: float
    gap: float
    kind: str
    level: Level
    estimate: int
    blocks: Mapping[str, int]
    spent: Spent
    cost: float
    moves: tuple[str, ...] = ()
    summary_calls: int = 0
    summary_tokens: int = 0
    checkpoint_bytes: int = 0
    governance_ms: float = 0.0

    @property
    def input(self) -> int:
        """Input tokens."""
        return sum(self.spent)


@dataclass(frozen=True)
class Account:
    """A run's steps with the lines of its window, and what the requests held.

    Attributes:
        steps: In order.
        lines: Of the window; None where no step was governed.
        sent: The requests, part by part.
        prices: By which the costs were counted.
        refused: Requests that the provider refused.
        late: What was spent and saved behind the last step: (calls, tokens, bytes).
    """

    steps: tuple[Step, ...]
    lines: Lines | None
    sent: SentRequests = field(repr=False)
    prices: Prices
    refused: int = 0
    late: tuple[int, int, int] = (0, 0, 0)

    def total(self, name: str) -> float:
        """A figure over all steps: a field of `Step` or `Spent`, or input.

        Raises:
            AttributeError: There is no such figure.
        """
        return float(sum(getattr(s if hasattr(s, name) else s.spent, name) for s in self.steps))

    def governance_ms(self, share: float) -> float:
        """The time of governance below which `share` of the steps stay, in milliseconds."""
        taken = sorted(step.governance_ms for step in self.steps)
        return taken[min(len(taken) - 1, int(share * len(taken)))] if taken else 0.0

    @property
    def summary_calls(self) -> int:
        """Calls of the model that summarises."""
        return int(self.total("summary_calls")) + self.late[0]

    @property
    def summary_tokens(self) -> int:
        """Tokens of the model that summarises."""
        return int(self.total("summary_tokens")) + self.late[1]

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes of checkpoint saved in all."""
        return int(self.total("checkpoint_bytes")) + self.late[2]

    @property
    def samples(self) -> Sequence[Sample]:
        """The steps as `plot_window` draws them."""
        return [
            Sample(s.number, s.level, max(s.estimate, s.input), dict(s.blocks), s.moves) for s in self.steps
        ]


class Accountant(BaseCallbackHandler):
    """Listens to one run and makes its `Account`."""

    run_inline = True

    def __init__(self) -> None:
        self.sent: SentRequests = SentRequests()
        self.events: list[list[Mapping[str, Any]]] = [[]]
        self.saver = _MeteredSaver(self._saved)
        self._bytes: dict[int, int] = {}
        self._waits: list[float] = []
        self._since = time.perf_counter()
        self._made = 0

    def event(self, event: Mapping[str, Any]) -> None:
        """Take in one event of the graph's custom stream."""
        self.events[-1].append(event)
        if event["type"] == "headwater.request":
            self.events.append([])
            self._made += 1

    def began(self) -> None:
        """The graph is started (again): governance's time runs from here."""
        self._since = time.perf_counter()

    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        """A model call begins."""
        self._waits.append(1_000 * (time.perf_counter() - self._since))

    def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
        """A model call has ended."""
        self._since = time.perf_counter()

    def on_llm_error(self, *args: Any, **kwargs: Any) -> None:
        """A model call was refused; its step's time goes on."""
        if self._waits:
            self._since = time.perf_counter() - self._waits.pop() / 1_000

    def close(self, prices: Prices, served: int, refused: int) -> Account:
        """The account of the first `served` steps."""
        steps: list[Step] = []
        lines: Lines | None = None
        for number, spent in enumerate(self.sent.spent()):
            if number >= served:
                break
            events = self.events[number] if number < len(self.events) else []
            lines = _lines(events) or lines
            steps.append(self._step(number, spent, events, prices))
        late = [event for events in self.events[len(steps) :] for event in events]
        saved = sum(count for number, count in self._bytes.items() if number >= len(steps))
        return Account(tuple(steps), lines, self.sent, prices, refused, (*_told(late), saved))

    def _step(self, number: int, spent: Spent, events: Sequence[Mapping[str, Any]], prices: Prices) -> Step:
        sent = self.sent.requests[number]
        marks = [e for e in events if e["type"] == "headwater.watermark"]
        calls, tokens = _told(events)
        return Step(
            number=number + 1,
            at=sent.at,
            gap=sent.at - self.sent.requests[number - 1].at if number else 0.0,
            kind=next((str(e["kind"]) for e in events if e["type"] == "headwater.request"), "defer"),
            level=max((Level[e["level"]] for e in marks), default=Level.NORMAL),
            estimate=max((int(e["estimate"]) for e in marks), default=sent.total),
            blocks=self.sent.blocks(number),
            spent=spent,
            cost=spent.cost(prices),
            moves=tuple(remedy for e in events if (remedy := remedy_of(e))),
            summary_calls=calls,
            summary_tokens=tokens,
            checkpoint_bytes=self._bytes.get(number, 0),
            governance_ms=self._waits[number] if number < len(self._waits) else 0.0,
        )

    def _saved(self, size: int) -> None:
        self._bytes[self._made] = self._bytes.get(self._made, 0) + size


def _lines(events: Sequence[Mapping[str, Any]]) -> Lines | None:
    found = [e["lines"] for e in events if e["type"] == "headwater.watermark"]
    return Lines(**found[-1]) if found else None


def _told(events: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    told = [e for e in events if e["type"] == "headwater.summarize"]
    return sum(int(e["calls"]) for e in told), sum(int(e["spent"]) for e in told)


class _Metered(JsonPlusSerializer):
    """Counts the bytes that a checkpointer is given to keep."""

    def __init__(self, saved: Callable[[int], None]) -> None:
        super().__init__()
        self._count = saved

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """As the serializer it is, with the size reported."""
        kind, data = super().dumps_typed(obj)
        self._count(len(data))
        return kind, data


class _MeteredSaver(InMemorySaver):
    def __init__(self, saved: Callable[[int], None]) -> None:
        super().__init__(serde=_Metered(saved))

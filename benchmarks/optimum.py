"""The offline optimum: the best moments for the same edits, known only when the session is over.

What the agent may edit, when, and what it frees is observed once, with nothing ever moved. A dynamic
program over the steps then finds the cheapest schedule of passes in which each applies all that is pending.
The schedule is given back as prices that an agent can be built with, so that it can be played through the
real graph and paid for like any other.
"""

import tempfile
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from numpy.typing import NDArray

from headwater.lab.player import Player
from headwater.lab.sessions import Session
from headwater.memory import Memory
from headwater.nodes import intake, watermark
from headwater.nodes.engine import Engine
from headwater.nodes.state import State, append_messages
from headwater.nodes.walk import Step
from headwater.window import Prices, WindowPolicy

Row = NDArray[np.float64]


@dataclass(frozen=True)
class Never(Prices):
    """Prices under which no edit ever pays: rent is free and the cache never cools."""

    read: float = 0.0
    write: float = 1.0
    ttl: float = float("inf")

    def is_cold(self, asked: float | None, now: float) -> bool:
        """Never, not even before the first request."""
        return False


@dataclass(frozen=True)
class Scheduled(Never):
    """Prices under which a pass happens at the given moments of the clock (seconds), and at no other."""

    moments: frozenset[float] = field(default_factory=frozenset)

    def is_cold(self, asked: float | None, now: float) -> bool:
        """Whether a pass is due."""
        return now in self.moments


class Item(NamedTuple):
    """An edit: its tag, the step from which it may be applied, tokens before it, and tokens it frees."""

    tag: int
    step: int
    start: int
    gain: int


class Observed(NamedTuple):
    """A session with nothing moved: when each request was made, its tokens, and the edits that appeared."""

    times: list[float]
    totals: list[int]
    items: list[Item]


def observe(session: Session, window: int) -> Observed:
    """Walk a session through intake and watermark; an edit that takes another form appears again."""
    player = Player(session)
    times: list[float] = []
    totals: list[int] = []
    known: dict[int, int] = {}
    items: list[Item] = []
    with tempfile.TemporaryDirectory() as folder, Memory(folder) as memory:
        engine = Engine(
            model=FakeListChatModel(responses=["-"]),
            memory=memory,
            policy=WindowPolicy(window=window * 100, keep_tokens=WindowPolicy().zone(window)),
            prices=Never(),
            clock=player.clock,
        )
        take, mark = intake(engine), watermark(engine)
        config: Any = {"configurable": {"thread_id": session.name}}
        state = State(messages=[])
        fresh: list[Any] = []
        for row, message in enumerate(session.messages):
            if not isinstance(message, AIMessage):
                fresh.append(message.model_copy(update={"id": f"row-{row}"}))
                continue
            state["messages"] = append_messages(state["messages"], [fresh])
            step = Step(state)
            step.take(take(step.state, config))
            step.take(mark(step.state, config))
            state = step.state
            frame = engine.frame(state, config)
            with engine.view(frame, state["messages"]) as view:
                for item in view.items(frame):
                    if known.get(item.tag, 0) < item.gain:
                        known[item.tag] = item.gain
                        items.append(Item(item.tag, len(totals), item.start, item.gain))
                totals.append(view.tokens)
                last = view.last
            times.append(player.clock())
            player.served += 1
            state["frame"] = frame.with_(sent=last, asked=times[-1], warm=frame.warm + 1).to_state()
            fresh = [message.model_copy(update={"id": f"row-{row}"})]
    return Observed(times, totals, items)


def schedule(seen: Observed, prices: Prices) -> tuple[float, frozenset[float]]:
    """The least that a session can cost with passes that apply all, and when they happen.

    An edit that was applied early is counted with what its later form would free, and a later form moves
    nothing: the bound is a little lower than what can be reached.
    """
    steps = len(seen.totals)
    totals = np.array(seen.totals, dtype=float)
    cold = np.array([t == 0 or prices.is_cold(seen.times[t - 1], seen.times[t]) for t in range(steps)])
    best = np.full(steps + 1, np.inf)  # best[s + 1]: cost up to and with step s, the last pass being at s
    came = np.full(steps + 1, -1)
    best[0] = 0.0
    end, last = np.inf, -1
    for cut in range(-1, steps):
        if not np.isfinite(best[cut + 1]):
            continue
        gains = _gains(seen.items, cut)
        sizes = totals - sum(gains.values())
        before = np.concatenate(([0.0], sizes[:-1]))
        run = np.where(cold, prices.write * sizes, prices.read * before + prices.write * (sizes - before))
        paid = best[cut + 1] + np.concatenate((np.zeros(cut + 1), np.cumsum(run[cut + 1 :])))
        if paid[-1] < end or cut == steps - 1:
            total = paid[-1] if cut < steps - 1 else best[cut + 1]
            if total < end:
                end, last = float(total), cut
        first, freed = _moves(seen.items, cut, steps, gains)
        for step in range(cut + 1, steps):
            if not np.isfinite(first[step]):
                continue
            prefix = min(first[step], before[step])
            size = totals[step] - freed[step]
            price = prices.write * size if cold[step] else _bust(prices, prefix, size)
            reached = (paid[step - 1] if step > cut + 1 else best[cut + 1]) + price
            if reached < best[step + 1]:
                best[step + 1], came[step + 1] = reached, cut
    moments = []
    while last >= 0:
        moments.append(seen.times[last])
        last = int(came[last + 1])
    return end, frozenset(moments)


def _bust(prices: Prices, prefix: float, size: float) -> float:
    return prices.read * prefix + prices.write * (size - prefix)


def _gains(items: list[Item], cut: int) -> dict[int, int]:
    """What is freed by tag when everything up to a step is applied."""
    return {item.tag: item.gain for item in items if item.step <= cut}


def _moves(items: list[Item], cut: int, steps: int, gains: dict[int, int]) -> tuple[Row, Row]:
    """By step: where a pass there would move the first byte (inf: nowhere), and what all passes freed."""
    first = np.full(steps, np.inf)
    freed = np.zeros(steps)
    applied = sorted((item.start, item.tag) for item in items if item.tag in gains)
    where, total = np.inf, float(sum(gains.values()))
    now: dict[int, int] = dict(gains)
    by_step: dict[int, list[Item]] = {}
    for item in items:
        by_step.setdefault(item.step, []).append(item)
    for step in range(cut + 1, steps):
        for item in by_step.get(step, ()):
            total += item.gain - now.get(item.tag, 0)
            now[item.tag] = item.gain
            if item.tag not in gains:
                earlier = sum(gains[tag] for start, tag in dict(applied).items() if start < item.start)
                where = min(where, item.start - earlier)
        first[step], freed[step] = where, total
    return first, freed

"""What a step costs, in counts of work: no clock, so that it holds on any machine."""

from collections import Counter
from importlib import import_module
from threading import current_thread
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from headwater import Memory, WindowPolicy, build_agent
from headwater.lab.provider import Reply, Request, StrictProvider
from headwater.memory import codec
from tests.graph.world import WINDOW, config, of, says, watch

POLICY = WindowPolicy(window=WINDOW, offload=0.3, compact=0.42, keep_messages=2, keep_tags=2)


def talk(request: Request) -> Reply:
    """A long answer, so that every few rounds are told."""
    return Reply(" ".join(f"Part {i} of {request.index} is well." for i in range(160)))


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often rows of the archive were decoded, and messages weighed for a request; both still are.

    What the index of told history reads is counted apart: it is filled beside the steps, at its own pace.
    """
    counted: Counter[str] = Counter()

    def count(module: Any, name: str) -> None:
        inner = getattr(module, name)

        def counting(*args: Any, **kw: Any) -> Any:
            counted["indexed" if current_thread().name == "headwater-told" else name] += 1
            return inner(*args, **kw)

        monkeypatch.setattr(module, name, counting)

    count(codec, "decode")
    count(import_module("headwater.window.render"), "count_message")
    return counted


def test_c23_a_step_costs_the_same_after_sixty_compactions_as_after_six(
    memory: Memory, work: Counter[str]
) -> None:
    """C23: neither the told history that is read nor the messages that are weighed grow with it."""
    costs: list[Counter[str]] = []
    indexed = 0
    with StrictProvider(talk, window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(), policy=POLICY, memory=memory, checkpointer=InMemorySaver(), clock=lambda: 0.0
        )
        while len(costs) < 60:
            indexed += work.pop("indexed", 0)
            work.clear()
            events = watch(agent, says("Go on."), config(), durability="exit")
            if of(events, "summarize"):
                costs.append(Counter(work))
    # One compaction in about twenty weighs a message more, so each part holds some of those.
    for name in ("decode", "count_message"):
        early, late = ([cost[name] for cost in part] for part in (costs[3:31], costs[-28:]))
        assert 0 < max(late) <= max(early), name
        assert sum(late) <= sum(early) + 1, name
    assert costs[-1]["decode"] <= 3, "only what was told just now is read"
    assert indexed <= memory.archive.last("t"), "what was told is read once for the index"

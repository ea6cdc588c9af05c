"""The four promises under random work, by every way there is to run governance."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver

from headwater import Prices, WindowPolicy, build_agent
from headwater.graph import GovernanceMiddleware
from headwater.lab.provider import StrictProvider
from tests.graph.hosts import (
    SYSTEM,
    Runner,
    Setup,
    Work,
    nothing_is_lost,
    nothing_moves_while_warm,
    numbered_once,
    pins_stay_in_sight,
    rounds,
)
from tests.graph.world import UNCACHED, Agent, Event, body, clean_run, client, config, memory_in, says


@tool
def inspect(number: int, words: int) -> str:
    """Inspect one unit."""
    return body(number, words)


TOOLS: Sequence[BaseTool] = [inspect]


def governed(setup: Setup, **kw: Any) -> GovernanceMiddleware:
    return GovernanceMiddleware(memory=setup.memory, policy=setup.policy, prices=setup.prices, **kw)


def by_graph(setup: Setup) -> Agent:
    return build_agent(
        setup.model,
        tools=setup.tools,
        system_prompt=SYSTEM,
        memory=setup.memory,
        policy=setup.policy,
        prices=setup.prices,
        checkpointer=setup.saver,
    )


def by_middleware(setup: Setup) -> Agent:
    return create_agent(
        setup.model,
        list(setup.tools),
        system_prompt=SYSTEM,
        checkpointer=setup.saver,
        middleware=[governed(setup)],
    )


def by_deepagents(setup: Setup) -> Agent:
    """Its own summarisation exchanged for governance, by name; its prompt and tools stay."""
    deepagents = pytest.importorskip("deepagents", reason="needs the extra headwater[deepagents]")
    made: Agent = deepagents.create_deep_agent(
        model=setup.model,
        tools=list(setup.tools),
        system_prompt=SYSTEM,
        checkpointer=setup.saver,
        middleware=[governed(setup, name="SummarizationMiddleware")],
    )
    return made


RUNNERS: dict[str, tuple[Runner, int]] = {
    "graph": (by_graph, 8_192),
    "middleware": (by_middleware, 8_192),
    # Its prompt and its own tools take 7,000 tokens by themselves.
    "deepagents": (by_deepagents, 24_000),
}


def streamed(agent: Agent, text: str, way: str) -> list[Event]:
    """The events of one round, sync or async."""
    if way == "sync":
        return list(agent.stream(says(text), config(), stream_mode="custom"))

    async def run() -> list[Event]:
        return [e async for e in agent.astream(says(text), config(), stream_mode="custom")]

    return asyncio.run(run())


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("runner", RUNNERS)
@given(
    plan=rounds,
    each=st.sampled_from([1, 3]),
    wire=st.sampled_from(["openai", "anthropic"]),
    cached=st.booleans(),
)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_m1_m11_m14_the_promises_hold(
    runner: str, way: str, plan: list[list[int]], each: int, wire: str, cached: bool
) -> None:
    make, window = RUNNERS[runner]
    work = Work(plan, each)
    with tempfile.TemporaryDirectory() as folder, memory_in(Path(folder)) as memory:
        with StrictProvider(work, window=window) as provider:
            agent = make(
                Setup(
                    client(provider, wire, max_tokens=1_000),
                    TOOLS,
                    memory,
                    WindowPolicy(window=window),
                    Prices() if cached else UNCACHED,
                    InMemorySaver(),
                )
            )
            events: list[Event] = []
            for number in range(len(plan)):
                events += streamed(agent, work.begin(number), way)
            clean_run(provider)
        nothing_is_lost(memory, work, "t")
        nothing_moves_while_warm(events, work)
        pins_stay_in_sight(work)
        numbered_once(agent.get_state(config()).values["messages"])

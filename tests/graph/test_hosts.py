"""The four promises under random work, by every way there is to run governance."""

import asyncio
import tempfile
import warnings
from collections.abc import Callable, Sequence
from functools import partial
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
from headwater.lab.provider import ModelSpec, StrictProvider
from headwater.window.marks import tag_of
from tests.graph.hosts import (
    SYSTEM,
    Runner,
    Setup,
    Shared,
    Work,
    nothing_is_lost,
    nothing_moves_while_warm,
    numbered_once,
    pins_stay_in_sight,
    rounds,
)
from tests.graph.world import (
    UNCACHED,
    Agent,
    Event,
    body,
    clean_run,
    client,
    config,
    memory_in,
    of,
    says,
    shown,
)


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


def two_agents(setup: Setup, make: Callable[..., Agent], handoff: Any = None) -> list[Agent]:
    """Two agents of one conversation, each with governance of its own."""
    found = []
    for name, other in (("alice", "bob"), ("bob", "alice")):
        tools = [*setup.tools, *([handoff(agent_name=other)] if handoff else [])]
        found.append(make(setup._replace(tools=tools, saver=None), name, f"You are {name}.\n{SYSTEM}"))
    return found


def as_middleware(setup: Setup, name: str, prompt: str) -> Agent:
    return create_agent(
        setup.model, list(setup.tools), system_prompt=prompt, name=name, middleware=[governed(setup)]
    )


def as_graph(setup: Setup, name: str, prompt: str) -> Agent:
    return build_agent(
        setup.model,
        tools=setup.tools,
        system_prompt=prompt,
        memory=setup.memory,
        policy=setup.policy,
        prices=setup.prices,
        name=name,
    )


def by_swarm(setup: Setup, make: Callable[..., Agent] = as_middleware) -> Agent:
    swarm = pytest.importorskip("langgraph_swarm", reason="needs langgraph-swarm")
    agents = two_agents(setup, make, swarm.create_handoff_tool)
    made: Agent = swarm.create_swarm(agents, default_active_agent="alice").compile(checkpointer=setup.saver)
    return made


def by_supervisor(setup: Setup, output_mode: str, make: Callable[..., Agent] = as_middleware) -> Agent:
    supervisor = pytest.importorskip("langgraph_supervisor", reason="needs langgraph-supervisor")
    with warnings.catch_warnings():
        # It is made of what LangGraph calls deprecated.
        warnings.simplefilter("ignore")
        made: Agent = supervisor.create_supervisor(
            two_agents(setup, make), model=setup.lead, prompt="You lead.", output_mode=output_mode
        ).compile(checkpointer=setup.saver)
    return made


RUNNERS: dict[str, tuple[Runner, int, type[Work]]] = {
    "graph": (by_graph, 8_192, Work),
    "middleware": (by_middleware, 8_192, Work),
    # Its prompt and its own tools take 7,000 tokens by themselves.
    "deepagents": (by_deepagents, 24_000, Work),
    "swarm": (by_swarm, 8_192, Shared),
    "swarm of graphs": (partial(by_swarm, make=as_graph), 8_192, Shared),
    "supervisor": (partial(by_supervisor, output_mode="last_message"), 8_192, Shared),
    "supervisor, all told": (partial(by_supervisor, output_mode="full_history"), 8_192, Shared),
}


def streamed(agent: Agent, text: str, way: str, at: Any = None) -> list[Event]:
    """The events of one round, sync or async, of the agents within it too; `at` an earlier checkpoint."""
    more: dict[str, Any] = {"config": at or config(), "stream_mode": "custom", "subgraphs": True}
    if way == "sync":
        return [part[-1] for part in agent.stream(says(text), **more)]

    async def run() -> list[Event]:
        return [part[-1] async for part in agent.astream(says(text), **more)]

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
    make, window, kind = RUNNERS[runner]
    work = kind(plan, each)
    with tempfile.TemporaryDirectory() as folder, memory_in(Path(folder)) as memory:
        lead = {"lead": ModelSpec(200_000)}
        with StrictProvider(work, window=window, models=lead) as provider:
            agent = make(
                Setup(
                    client(provider, wire, max_tokens=1_000),
                    TOOLS,
                    memory,
                    WindowPolicy(window=window),
                    Prices() if cached else UNCACHED,
                    InMemorySaver(),
                    client(provider, wire, model="lead", max_tokens=1_000),
                )
            )
            events: list[Event] = []
            for number in range(len(plan)):
                events += streamed(agent, work.begin(number), way)
            clean_run(provider)
        nothing_is_lost(memory, work, "t")
        nothing_moves_while_warm(events, work)
        pins_stay_in_sight(work)
        messages = agent.get_state(config()).values["messages"]
        # A conversation that several share is not ours: what no agent has given back has no number there.
        numbered_once(messages if kind is Work else [m for m in messages if tag_of(m)])


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("runner", RUNNERS)
def test_m25_every_way_goes_back_to_an_earlier_round_and_on(runner: str, way: str, tmp_path: Path) -> None:
    """Three times back, past told history: what was abandoned is out of sight, and in the archive."""
    make, window, kind = RUNNERS[runner]
    work = kind([[500] * 6] * 9, 2)
    back = {6: 2, 7: 4, 8: 0}
    policy = WindowPolicy(window=window, background=False)
    with memory_in(tmp_path) as memory:
        with StrictProvider(work, window=window, models={"lead": ModelSpec(200_000)}) as provider:
            model, lead = provider.openai(max_tokens=500), provider.openai("lead", max_tokens=500)
            agent = make(Setup(model, TOOLS, memory, policy, UNCACHED, InMemorySaver(), lead))
            ends: list[Any] = []
            events: list[Event] = []
            for number in range(6):
                events += streamed(agent, work.begin(number), way)
                ends.append(agent.get_state(config()).config)
            for number, place in back.items():
                asked = len(work.requests)
                events += streamed(agent, work.begin(number), way, ends[place])
                gone = [f"Round {n}:" for n in range(9) if n > place and n != number]
                for request in work.requests[asked:]:
                    assert f"Round {number}:" in shown(request)
                    assert not [mark for mark in gone if mark in shown(request)]
            clean_run(provider)
        assert of(events, "offload") or of(events, "summarize") or of(events, "arrival")
        nothing_is_lost(memory, work, "t")
        pins_stay_in_sight(work)

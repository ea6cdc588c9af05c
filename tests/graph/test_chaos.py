"""Children that misbehave in every way, in all pairs: one result a call, nothing left alive."""

import asyncio
import itertools
import os
import threading
from collections import Counter
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from headwater import Budget, Memory, SubAgent, build_agent
from headwater.lab.provider import Refuse, Reply, Request, StrictProvider, ToolCall
from headwater.nodes import loop
from headwater.window import count_text
from headwater.window.policy import WindowPolicy
from tests.graph.world import WINDOW, Agent, body, clean_run, config, inspector, last_text, results, says

POLICY = WindowPolicy(window=WINDOW)
KINDS = ("return", "raise", "hang", "nothing", "huge", "loop", "recurse")
PAIRS = list(itertools.combinations_with_replacement(KINDS, 2))
HUGE = "x" * 1_000 + "\n"
PURSE = Budget(steps=40, tokens=200_000, seconds=60, children=16)


def lead(*calls: ToolCall) -> Any:
    """A lead that delegates once, then answers; its children do what their brief says."""
    left = [Reply("", calls), Reply("All concluded.")]

    def script(request: Request) -> Reply:
        return child(request) if "You scout" in request.system else left.pop(0)

    return script


def child(request: Request) -> Reply:
    """A model that does what the brief says."""
    said = " ".join(row["text"] for row in request.messages if row["role"] == "user")
    if "raise" in said:
        raise Refuse(500, {"error": {"message": "out of order", "type": "server_error"}})
    if "hang" in said:
        return Reply("late", delay=60)
    if "nothing" in said:
        return Reply("")
    if "loop" in said:
        number = sum(row["role"] == "tool" for row in request.messages)
        return Reply(f"So far {number}.", (ToolCall("inspect", {"number": number % 5}),))
    if "recurse" in said:
        brief = f"recurse deeper {len(said)}"
        return Reply(
            "Going deeper.", tuple(ToolCall("delegate", {"agent": "scout", "brief": brief + s}) for s in "ab")
        )
    return Reply("Seen: all is well.")


def huge() -> Any:
    """A graph of the user's own that returns 2 MB."""
    graph = StateGraph(MessagesState)
    graph.add_node("say", lambda state: {"messages": [AIMessage(HUGE * 2_000)]})
    graph.add_edge(START, "say")
    graph.add_edge("say", END)
    return graph.compile()


def agent_of(provider: StrictProvider, memory: Memory, saved: bool) -> Agent:
    mine = Budget(steps=6, seconds=30, depth=3)
    scout = SubAgent(
        "scout", "looks", "You scout.", [inspector(100)], budget=mine, subagents=["scout"], policy=POLICY
    )
    return build_agent(
        provider.openai(),
        system_prompt="You lead.",
        subagents=[
            scout,
            SubAgent("sleeper", "sleeps", "You scout.", budget=Budget(seconds=1.0), policy=POLICY),
            SubAgent("giant", "tells much", runnable=huge()),
        ],
        policy=POLICY,
        memory=memory,
        budget=PURSE,
        checkpointer=InMemorySaver() if saved else None,
    )


def order(kind: str, number: int) -> ToolCall:
    name = {"huge": "giant", "hang": "sleeper"}.get(kind, "scout")
    return ToolCall("delegate", {"agent": name, "brief": f"{kind} {number}"}, f"c{number}")


EXPECTED = {
    "return": ("done",),
    "raise": ("failed",),
    "hang": ("partial",),
    "nothing": ("failed",),
    "huge": ("done", "partial"),
    "loop": ("partial",),
    "recurse": ("partial", "done"),
}


@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
def test_case_43_every_pair_of_faults(memory: Memory, pair: tuple[str, str]) -> None:
    """Sync or async, with or without a checkpointer: by turns, all four with HEADWATER_CHAOS=all."""
    at = PAIRS.index(pair)
    ways = [(at % 2 == 0, at % 4 < 2)]
    if os.environ.get("HEADWATER_CHAOS") == "all" or ("hang" in pair and "loop" in pair):
        ways = [(sync, saved) for sync in (True, False) for saved in (True, False)]
    for number, (sync, saved) in enumerate(ways):
        _one(memory, pair, sync=sync, saved=saved, thread=f"t{number}")


def _one(memory: Memory, pair: tuple[str, str], *, sync: bool, saved: bool, thread: str) -> None:
    calls = tuple(order(kind, number) for number, kind in enumerate(pair))
    with StrictProvider(lead(*calls), window=WINDOW) as provider:
        agent = agent_of(provider, memory, saved)
        if sync:
            state = agent.invoke(says("Delegate."), config(thread))
        else:
            state = asyncio.run(_alone(agent, thread))
        assert provider.violations == []
        assert provider.totals().over_window == 0
        spent = memory.ledger.spent(f"{thread}#1")
    found = [m for m in results(state["messages"]) if m.name == "delegate"]
    assert Counter(m.tool_call_id for m in found) == Counter(["c0", "c1"])
    for kind, message in zip(pair, sorted(found, key=lambda m: str(m.tool_call_id)), strict=True):
        assert message.artifact["status"] in EXPECTED[kind], (kind, message.content)
        assert message.artifact["answer"].strip()
    assert last_text(state) == "All concluded."
    assert spent.steps <= PURSE.steps * 1.1
    assert not loop._tasks, "no task is alive"


async def _alone(agent: Agent, thread: str) -> dict[str, Any]:
    before = asyncio.all_tasks()
    state: dict[str, Any] = await agent.ainvoke(says("Delegate."), config(thread))
    assert asyncio.all_tasks() <= before, "no task is left that was not there"
    return state


def test_case_42_an_agent_that_always_delegates_is_bounded(memory: Memory) -> None:
    """Case 42: depth and count are capped; the refusals are results, not errors of the run."""
    with StrictProvider(lead(order("recurse", 0)), window=WINDOW) as provider:
        agent = agent_of(provider, memory, True)
        agent.invoke(says("Delegate."), config())
        clean_run(provider)
    assert len(memory.archive.sessions()) <= 1 + PURSE.children
    log = [m for s in memory.archive.sessions() for _, m in memory.archive.read(s, 1, 99)]
    refused = [m for m in results(log) if "Not delegated" in str(m.content)]
    assert refused
    assert all(m.status == "error" for m in refused)


def test_case_43_a_parent_that_is_cancelled_takes_its_children_with_it(memory: Memory) -> None:
    async def cancelled() -> set[asyncio.Task[Any]]:
        begun = asyncio.Event()
        with StrictProvider(lead(order("hang", 0), order("hang", 1)), window=WINDOW) as provider:
            agent = agent_of(provider, memory, True)
            before = asyncio.all_tasks()
            task = asyncio.create_task(agent.ainvoke(says("Delegate."), config()))

            async def seen() -> None:
                while len(provider.requests) < 3:
                    await asyncio.sleep(0.01)
                begun.set()

            await asyncio.wait_for(seen(), 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.sleep(0)
            return asyncio.all_tasks() - before

    assert asyncio.run(cancelled()) == set()


def test_m26_fifty_answers_of_20k_tokens_into_a_32k_parent(memory: Memory) -> None:
    """Every request is valid and within the window, and every answer can be read back byte for byte."""
    essays = {f"essay {n}": "\n".join(f"{n}.{i}: {body(i, 10)}" for i in range(640)) for n in range(50)}
    assert min(map(count_text, essays.values())) > 20_000
    calls = tuple(
        ToolCall("delegate", {"agent": "writer", "brief": b}, f"c{n}") for n, b in enumerate(essays)
    )
    left = [Reply("", calls), Reply("All concluded.")]

    def script(request: Request) -> Reply:
        if "You write" not in request.system:
            return left.pop(0)
        said = request.messages[0]["text"].splitlines()[0].split("§ ")[-1].strip()
        return Reply(essays[said])

    with StrictProvider(script, window=32_000, max_output=32_000) as provider:
        large = provider.openai()
        writer = SubAgent("writer", "writes", "You write.", model=large, policy=WindowPolicy(window=32_000))
        agent = build_agent(
            provider.openai(),
            subagents=[writer],
            policy=WindowPolicy(window=32_000),
            memory=memory,
            checkpointer=InMemorySaver(),
        )
        state = agent.invoke(says("Delegate."), config())
        clean_run(provider)
    found = list(results(state["messages"]))
    assert len({m.tool_call_id for m in found}) == 50
    for message in found:
        assert message.artifact["status"] == "done", message.content
        (name,) = message.artifact["artifacts"]
        assert memory.artifacts.read_text(name) == essays[f"essay {str(message.tool_call_id)[1:]}"]


def test_m26_an_identical_brief_runs_once(memory: Memory) -> None:
    calls = tuple(ToolCall("delegate", {"agent": "scout", "brief": "return"}, f"c{n}") for n in range(3))
    with StrictProvider(lead(*calls), window=WINDOW) as provider:
        state = agent_of(provider, memory, True).invoke(says("Delegate."), config())
        clean_run(provider)
        assert provider.totals().requests == 3
    assert [m.tool_call_id for m in results(state["messages"])] == ["c0", "c1", "c2"]


def test_no_thread_waits_for_a_tool_that_hangs(memory: Memory) -> None:
    """A synchronous tool that never returns keeps its thread, and nothing else."""
    from langchain_core.tools import tool

    gate = threading.Event()

    @tool
    def stuck() -> str:
        """Wait for ever."""
        gate.wait(30)
        return "at last"

    def script(request: Request) -> Reply:
        if "You scout" in request.system:
            return Reply("Trying.", (ToolCall("stuck", {}),))
        if any(row["role"] == "tool" for row in request.messages):
            return Reply("All concluded.")
        return Reply("", (order("return", 0),))

    with StrictProvider(script, window=WINDOW) as provider:
        scout = SubAgent("scout", "looks", "You scout.", [stuck], budget=Budget(seconds=3), policy=POLICY)
        agent = build_agent(provider.openai(), subagents=[scout], policy=POLICY, memory=memory)
        try:
            state = agent.invoke(says("Delegate."), config())
        finally:
            gate.set()
    (found,) = results(state["messages"])
    assert found.artifact["status"] == "partial"
    assert found.artifact["answer"] == "Trying."


@pytest.mark.parametrize(
    "purse",
    [
        Budget(steps=17, seconds=30),
        Budget(steps=400, tokens=60_000, seconds=30),
        Budget(steps=400, cost=0.05, seconds=30),
    ],
    ids=["steps", "tokens", "cost"],
)
@pytest.mark.parametrize("way", ["sync", "async"])
def test_m26_a_tree_spends_no_more_than_its_purse_and_one_step(
    memory: Memory, purse: Budget, way: str
) -> None:
    """Six children that never end draw from one purse, four levels deep where they like."""
    calls = tuple(order("loop" if n % 2 else "recurse", n) for n in range(6))
    with StrictProvider(lead(*calls), window=WINDOW) as provider:
        mine = Budget(steps=100, depth=3)
        scout = SubAgent(
            "scout", "looks", "You scout.", [inspector(100)], budget=mine, subagents=["scout"], policy=POLICY
        )
        agent = build_agent(
            provider.openai(),
            system_prompt="You lead.",
            subagents=[scout],
            policy=POLICY,
            memory=memory,
            budget=purse,
            checkpointer=InMemorySaver(),
        )
        if way == "sync":
            state = agent.invoke(says("Delegate."), config())
        else:
            state = asyncio.run(_alone(agent, "t"))
        assert provider.violations == []
        requests = provider.totals().requests
        largest = max(x.input_tokens + x.output_tokens for x in provider.requests)
    spent = memory.ledger.spent("t#1")
    assert spent.steps == requests <= purse.steps
    assert spent.tokens <= purse.tokens + largest
    assert spent.cost <= purse.cost + largest * 5 / 1_000_000
    assert len([m for m in results(state["messages"]) if m.name == "delegate"]) == 6

"""Settings per run: one agent, another window or another tenant's facts for each `context`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import get_runtime
from typing_extensions import TypedDict

from headwater import Memory, SubAgent, WindowPolicy, build_agent
from headwater.graph import GovernanceMiddleware, RunSettings
from headwater.graph.compose import parts
from headwater.lab.provider import Reply, Request, StrictProvider, ToolCall
from headwater.nodes import State
from headwater.nodes.settings import SettingsError
from tests.graph.test_compose import composed
from tests.graph.world import (
    Recorder,
    calls_then,
    config,
    delegating,
    inspector,
    last_text,
    of,
    says,
    shown,
    turns_of,
)

POLICY = WindowPolicy(window=32_000)


def lines(agent: Any, text: str, thread: str, **kw: Any) -> set[int]:
    """The windows by which a round was measured."""
    stream = agent.stream(says(text), config(thread), stream_mode="custom", **kw)
    return {event["lines"]["window"] for event in of(list(stream), "watermark")}


def test_the_window_is_the_runs_own_and_the_next_run_has_the_agents(memory: Memory) -> None:
    with StrictProvider(turns_of(40), window=32_000) as provider:
        agent = build_agent(
            provider.openai(),
            tools=[inspector()],
            policy=POLICY,
            memory=memory,
            checkpointer=InMemorySaver(),
        )
        for number in range(6):
            assert lines(agent, f"Check {number}.", "t") == {32_000}
        small = RunSettings(window=8_192)
        for number in range(3):
            assert lines(agent, f"Check {number}.", "t", context=small) == {8_192}
            assert provider.requests[-1].input_tokens < 8_192
        assert lines(agent, "And again.", "t") == {32_000}
        assert provider.violations == []


def test_c11_a_run_with_settings_is_shown_documents_and_profile_as_any_other(
    memory: Memory, tmp_path: Path
) -> None:
    (tmp_path / "AGENTS.md").write_text("Valves are opened by hand.", "utf-8")
    memory.facts.write("The user reads metric units.", "PROJECT_RULES", scope="user")
    script = Recorder(turns_of(9))
    with StrictProvider(script, window=32_000) as provider:
        agent: Any = build_agent(
            provider.openai(),
            policy=POLICY,
            memory=memory,
            project_docs=tmp_path,
            user_profile=True,
        )
        for thread, context in (("plain", RunSettings()), ("own", RunSettings(window=16_000))):
            script.requests.clear()
            agent.invoke(says("Hello"), config(thread), context=context)
            seen = shown(script.requests[0])
            assert "Valves are opened by hand." in seen, thread
            assert "About the user" in seen, thread


def facts(request: Request) -> Reply:
    """A model that remembers the word it is told, and says what it knows."""
    newest = request.messages[-1]["text"]
    if newest.split("§ ")[-1].startswith("Remember "):
        word = newest.rpartition(" ")[2]
        return Reply("", (ToolCall("ctx_memory", {"action": "write", "content": f"The word is {word}"}),))
    if request.messages[-1]["role"] == "tool":
        return Reply(newest)
    return Reply("", (ToolCall("ctx_memory", {"action": "list"}),))


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_case_54_a_run_reads_and_writes_its_own_tenants_facts_only(memory: Memory, way: str) -> None:
    script = Recorder(facts)
    with StrictProvider(script, window=32_000) as provider:
        agent: Any = build_agent(provider.openai(), policy=POLICY, memory=memory)

        async def ask(text: str, thread: str, tenant: str | None) -> str:
            context = RunSettings(tenant=tenant)
            if way == "async":
                return last_text(await agent.ainvoke(says(text), config(thread), context=context))
            return last_text(agent.invoke(says(text), config(thread), context=context))

        for tenant, word in (("acme", "heron"), ("umbra", "otter"), (None, "finch")):
            await ask(f"Remember {word}", f"write-{tenant}", tenant)
        script.requests.clear()
        for tenant, word in (("acme", "heron"), ("umbra", "otter"), (None, "finch")):
            said = await ask("What do you know?", f"read-{tenant}", tenant)
            seen = "\n".join([said, *map(shown, script.requests)])
            script.requests.clear()
            assert [w for w in ("heron", "otter", "finch") if w in seen] == [word]
    assert [f.content for f in memory.facts.list(limit=9)] == ["The word is finch"]
    assert memory.of_tenant("acme").archive is memory.archive


def test_a_sub_agent_keeps_to_the_runs_tenant_and_to_its_own_window(memory: Memory) -> None:
    script = delegating(facts, ToolCall("delegate", {"agent": "scout", "brief": "Remember heron"}))
    with StrictProvider(script, window=32_000) as provider:
        scout = SubAgent("scout", "looks", prompt="You scout.")
        agent: Any = build_agent(provider.openai(), subagents=[scout], policy=POLICY, memory=memory)
        settings = RunSettings(tenant="acme", window=16_000)
        events = list(agent.stream(says("Go."), config(), stream_mode="custom", context=settings))
    windows = {event["session"]: event["lines"]["window"] for event in of(events, "watermark")}
    assert windows == {"t": 16_000, "t/2.1": 32_000}
    assert [f.content for f in memory.of_tenant("acme").facts.list(limit=9)] == ["The word is heron"]
    assert memory.facts.list(limit=9) == []


def by_middleware(model: Any, memory: Memory, *tools: Any) -> Any:
    """A foreign agent with the one line of ours, and the schema that it needs for it."""
    own = GovernanceMiddleware(memory=memory, policy=POLICY)
    return create_agent(
        model, list(tools), middleware=[own], context_schema=RunSettings, checkpointer=InMemorySaver()
    )


def by_hand(model: Any, memory: Memory, *tools: Any) -> Any:
    """The nodes in a graph of one's own."""
    made = parts(model, tools=tools, policy=POLICY, memory=memory)
    return composed(made, State, context_schema=RunSettings)


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("make", [by_middleware, by_hand])
async def test_case_54_settings_of_a_run_are_read_in_every_way_to_run_governance(
    make: Any, way: str, memory: Memory
) -> None:
    script = Recorder(facts)
    with StrictProvider(script, window=32_000) as provider:
        agent = make(provider.openai(), memory)

        async def ask(text: str, thread: str, context: Any) -> list[Any]:
            kw: dict[str, Any] = {"config": config(thread), "stream_mode": "custom", "context": context}
            if way == "async":
                return [event async for event in agent.astream(says(text), **kw)]
            return list(agent.stream(says(text), **kw))

        runs = [("acme", "heron", 16_000), ("umbra", "otter", 8_192), (None, "finch", None)]
        for tenant, word, window in runs:
            events = await ask(f"Remember {word}", f"w{word}", RunSettings(tenant=tenant, window=window))
            assert {e["lines"]["window"] for e in of(events, "watermark")} == {window or 32_000}
        for tenant, word, window in runs:
            script.requests.clear()
            await ask("What do you know?", f"r{word}", RunSettings(tenant=tenant, window=window))
            seen = "\n".join(map(shown, script.requests))
            assert [w for w in ("heron", "otter", "finch") if w in seen] == [word]
        assert provider.violations == []
    assert [f.content for f in memory.facts.list(limit=9)] == ["The word is finch"]


@dataclass
class Mine:
    """A user's schema with one of our names in it."""

    customer: str
    window: int | None = None


class Loose(TypedDict, total=False):
    """The same as a TypedDict."""

    customer: str
    window: int


@pytest.mark.parametrize(
    ("schema", "context"),
    [
        (Mine, Mine("ada", 16_000)),
        (Mine, {"customer": "ada", "window": 16_000}),
        (Loose, {"customer": "ada", "window": 16_000}),
    ],
)
def test_a_schema_of_ones_own_reaches_tools_and_ours_is_read_from_it(
    schema: type, context: Any, memory: Memory
) -> None:
    seen: list[Any] = []

    @tool
    def inspect(number: int) -> str:
        """Inspect one unit."""
        seen.append(get_runtime().context)
        return "well"

    with StrictProvider(calls_then(1), window=32_000) as provider:
        agent: Any = build_agent(
            provider.openai(), tools=[inspect], policy=POLICY, memory=memory, context_schema=schema
        )
        assert lines(agent, "Check.", "t", context=context) == {16_000}
    (given,) = seen
    assert (given["customer"] if isinstance(given, dict) else given.customer) == "ada"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"window": 0}, "window is in tokens and at least 1, got 0"),
        ({"window": "8k"}, "got '8k'"),
        ({"tenant": " "}, "tenant is a name that is not empty, got ' '"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_before_anything_is_sent(
    settings: Any, said: str, memory: Memory
) -> None:
    with StrictProvider([], window=32_000) as provider:
        agent: Any = build_agent(provider.openai(), policy=POLICY, memory=memory)
        with pytest.raises(SettingsError, match=said):
            agent.invoke(says("Hello"), config(), context=settings)
        assert not provider.requests

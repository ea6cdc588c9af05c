"""The whole walk at the strict provider: offload, summarise, delegate, remember, by every way in."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from headwater import Memory, SubAgent, WindowPolicy, build_agent
from headwater.lab.provider import ModelSpec, Reply, Request, StrictProvider, ToolCall
from tests.graph.world import (
    IN_LINE,
    WINDOW,
    Agent,
    Recorder,
    Script,
    body,
    calls_then,
    clean_run,
    client,
    config,
    inspector,
    kinds,
    last_text,
    of,
    results,
    says,
    shown,
    watch,
)

TASK = "Inspect every unit of the plant. Never restart the database. We decided to use port 5433."
UNITS = 12
LONG_ANSWER = "All units are fine today. " * 20
WAYS = ("invoke", "ainvoke", "stream", "astream")
wires = pytest.mark.parametrize("wire", ["openai", "anthropic"])
SUMMARY = {
    "title": "Units inspected",
    "p1": "The units were inspected one after another and each listens on a port of its own.",
    "p2": "Units were inspected.",
    "p3": "Inspected.",
    "p4": "units",
    "importance": 60,
    "episode": "investigation",
    "facts": [{"category": "CONFIG_VALUES", "content": "unit 1 listens on port 9001"}],
    "work": {"goal": "inspect", "constraints": [], "progress": ["units"], "decisions": [], "next_steps": []},
}


def walker() -> Script:
    """Inspects, delegates twice at once, writes a fact, inspects on, answers; the sub-agents inspect too."""
    plan: list[Reply] = [
        *(Reply(f"Looking at {i}.", (ToolCall("inspect", {"number": i}),)) for i in range(4)),
        Reply(
            "",
            (
                ToolCall("delegate", {"agent": "surveyor", "brief": "survey unit 40"}),
                ToolCall("delegate", {"agent": "surveyor", "brief": "survey unit 41"}),
            ),
        ),
        Reply("", (ToolCall("ctx_memory", {"action": "write", "content": "Unit 2 listens on port 9002."}),)),
        *(Reply(f"Looking at {i}.", (ToolCall("inspect", {"number": i}),)) for i in range(4, UNITS)),
        Reply("The plant is inspected."),
    ]
    step = 0

    def script(request: Request) -> Reply:
        nonlocal step
        if request.purpose == "summarizer":
            return Reply(json.dumps(SUMMARY))
        if "You survey" in request.system:
            rows = [row for row in request.messages if row["role"] == "tool"]
            number = 40 if "unit 40" in shown(request) else 41
            if not rows:
                return Reply("", (ToolCall("look", {"number": number}),))
            return Reply(f"Surveyed: unit {number} listens on port {9_000 + number}.")
        step += 1
        return plan[step - 1]

    return script


def served(script: Script) -> StrictProvider:
    """The provider of the walk: a small window for the agents, a larger one for the cheap model."""
    return StrictProvider(script, window=WINDOW, models={"cheap": ModelSpec(64_000)})


def walk(
    provider: StrictProvider, wire: str, memory: Memory, saver: BaseCheckpointSaver[Any] | None
) -> Agent:
    model = client(provider, wire, max_tokens=1_000)
    return build_agent(
        model,
        tools=[inspector(500)],
        system_prompt="You inspect plants.",
        subagents=[SubAgent("surveyor", "surveys one unit", "You survey.", [inspector(300, "look")])],
        summarizer=client(provider, wire, model="cheap", purpose="summarizer", max_tokens=1_000),
        policy=IN_LINE,
        memory=memory,
        checkpointer=saver,
    )


async def run(agent: Agent, way: str, thread: str = "t") -> dict[str, Any]:
    """The final state, by each of the ways LangGraph has."""
    conf = config(thread)
    if way == "invoke":
        return await asyncio.to_thread(agent.invoke, says(TASK), conf)
    if way == "ainvoke":
        return await agent.ainvoke(says(TASK), conf)
    if way == "stream":
        states = await asyncio.to_thread(lambda: list(agent.stream(says(TASK), conf, stream_mode="values")))
        return dict(states[-1])
    states = [state async for state in agent.astream(says(TASK), conf, stream_mode="values")]
    return dict(states[-1])


@wires
@pytest.mark.parametrize("way", WAYS)
async def test_the_whole_walk_by_every_way(memory: Memory, wire: str, way: str) -> None:
    """One walk does it all: nothing refused, nothing over, two conclusions, facts, and every byte back."""
    asked = Recorder(walker())
    with served(asked) as provider:
        agent = walk(provider, wire, memory, InMemorySaver())
        state = await run(agent, way)
        clean_run(provider)
    assert last_text(state) == "The plant is inspected."
    main = [r for r in asked.requests if "You inspect" in r.system and r.purpose != "summarizer"]
    assert len(main) == UNITS + 3, "E10: the main model is called exactly once a step"
    concluded = [m for _, m in memory.archive.read("t", 1, 99) if getattr(m, "name", "") == "delegate"]
    assert ["port 9040" in str(m.content) for m in concluded] == [True, False]
    assert "port 9041" in str(concluded[1].content)
    written = [fact.content for fact in memory.facts.list()]
    assert "Unit 2 listens on port 9002." in written
    assert any("Never restart the database" in fact for fact in written)
    archived = [m for _, m in memory.archive.read("t", 1, memory.archive.last("t"))]
    inspected = [m.content for m in results(archived) if m.name == "inspect"]
    assert inspected == [body(i, 500) for i in range(UNITS)]


@wires
def test_the_walk_offloads_and_summarises(memory: Memory, wire: str) -> None:
    """The same walk's events: M5 and M6 both happened, and the summariser wrote (not the main model)."""
    with served(walker()) as provider:
        agent = walk(provider, wire, memory, InMemorySaver())
        events = watch(agent, says(TASK), config())
        clean_run(provider)
        purposes = [x.purpose for x in provider.requests]
    assert of(events, "offload")
    assert len(of(events, "delegate")) == len(of(events, "conclusion")) == 2
    told = of(events, "summarize")
    assert told
    assert told[0]["sources"] == ["model"] * len(told[0]["sources"])
    assert purposes.count("summarizer") == sum(event["calls"] for event in told)
    assert any("unit 1 listens on port 9001" in fact.content for fact in memory.facts.list()), "G21, E19"


@pytest.mark.parametrize("saver", ["memory", "sqlite", "none"])
def test_the_walk_with_every_checkpointer(memory: Memory, tmp_path: Path, saver: str) -> None:
    with served(walker()) as provider:
        if saver == "sqlite":
            with SqliteSaver.from_conn_string(str(tmp_path / "c.sqlite")) as kept:
                state = walk(provider, "openai", memory, kept).invoke(says(TASK), config())
        else:
            chosen = InMemorySaver() if saver == "memory" else None
            state = walk(provider, "openai", memory, chosen).invoke(says(TASK), config())
        clean_run(provider)
    assert last_text(state) == "The plant is inspected."


def test_the_walk_without_thread_or_checkpointer(memory: Memory) -> None:
    """No config at all: the session gets a name by chance and all is archived under it."""
    with StrictProvider(calls_then(3), window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(), tools=[inspector()], policy=WindowPolicy(window=WINDOW), memory=memory
        )
        state = agent.invoke(says("Inspect three units."))
        clean_run(provider)
    (session,) = memory.archive.sessions()
    assert memory.archive.last(session) == len(state["messages"]) == 8


@wires
def test_stream_messages_gives_the_models_tokens(memory: Memory, wire: str) -> None:
    """`stream_mode="messages"`: the answer arrives in pieces; what governance adds is not among them."""
    with StrictProvider(calls_then(1, LONG_ANSWER), window=WINDOW) as provider:
        agent = build_agent(
            client(provider, wire), tools=[inspector(50)], policy=WindowPolicy(window=WINDOW), memory=memory
        )
        chunks = [
            c
            for c, _ in agent.stream(says("Inspect."), config(), stream_mode="messages")
            if isinstance(c, AIMessageChunk)
        ]
    text = "".join(str(chunk.text) for chunk in chunks)
    assert text == LONG_ANSWER
    assert len([c for c in chunks if c.text]) > 1


def test_stream_messages_keeps_sub_agents_and_summaries_apart(memory: Memory) -> None:
    """M26: neither a child's tokens nor a summary's appear as the agent's own."""
    with served(walker()) as provider:
        agent = walk(provider, "openai", memory, InMemorySaver())
        streamed: list[Any] = list(agent.stream(says(TASK), config(), stream_mode="messages"))
        seen = [(str(c.text), meta) for c, meta in streamed if isinstance(c, AIMessageChunk)]
    own = "".join(text for text, meta in seen if meta["langgraph_node"] == "agent")
    assert "Surveyed" not in own
    assert "Units inspected" not in own
    assert own.endswith("The plant is inspected.")


def test_e10_the_cheap_model_writes_and_the_main_model_only_reads(memory: Memory) -> None:
    """E10: every summary call goes to the summariser; the main model's calls equal the agent's steps."""
    asked = Recorder(walker())
    with served(asked) as provider:
        agent = walk(provider, "openai", memory, None)
        events = watch(agent, says(TASK), config())
    main = [r for r in asked.requests if "You inspect" in r.system]
    writers = [r for r in asked.requests if r.purpose == "summarizer"]
    requests = [e for e in of(events, "request") if e["session"] == "t"]
    assert len(main) == len(requests)
    assert writers
    assert all("You write the memory" in r.system for r in writers)
    assert any("listens on a port of its own" in shown(r) for r in main), "the main model reads what it wrote"


def test_m11_the_summary_stands_for_the_stretch(memory: Memory) -> None:
    """M11: after a compaction the stretch's messages are gone from the request, and the summary is there."""
    asked = Recorder(walker())
    with served(asked) as provider:
        agent = walk(provider, "openai", memory, InMemorySaver())
        events = watch(agent, says(TASK), config())
    last = of(events, "summarize")[-1]["last"]
    final = asked.requests[-1]
    marks = [int(t.split("§")[1]) for t in (r["text"] for r in final.messages) if t.startswith("§")]
    assert min(marks) > last
    assert "listens on a port of its own" in shown(final)


def test_m16_each_step_of_the_chain_frees_tokens(memory: Memory) -> None:
    """M16: every remedy that acted left a smaller estimate than it found."""
    with served(walker()) as provider:
        agent = walk(provider, "openai", memory, InMemorySaver())
        events = [e for e in watch(agent, says(TASK), config()) if e.get("session") == "t"]
    acted: dict[str, list[int]] = {}
    before = 0
    remedy = ""
    for event in events:
        name = event["type"].removeprefix("headwater.")
        if name == "watermark":
            if remedy:
                acted.setdefault(remedy, []).append(before - event["estimate"])
            before, remedy = event["estimate"], ""
        elif name == "summarize" or (name in ("offload", "reclaim") and event["tags"]):
            remedy = name
    assert acted["offload"]
    assert acted["summarize"]
    assert all(gain > 0 for gains in acted.values() for gain in gains), acted


def test_events_tell_the_story_in_order(memory: Memory) -> None:
    with StrictProvider(calls_then(2), window=WINDOW) as provider:
        agent = build_agent(provider.openai(), tools=[inspector(50)], memory=memory)
        events = watch(agent, says("Never delete the index."), config())
    # The answer is numbered, and the rule is remembered: both after the last request.
    assert kinds(events) == ["intake", "watermark", "request"] * 3 + ["intake", "spending", "remember"]

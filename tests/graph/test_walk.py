"""The whole walk at the strict provider: offload, summarise, delegate, remember, by every way in."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from headwater import Memory, Prices, SubAgent, WindowPolicy, build_agent
from headwater.lab.provider import ModelSpec, Reply, Request, StrictProvider, ToolCall
from headwater.window import count_tokens
from headwater.window.stubs import is_only_stub
from tests.graph.world import (
    UNCACHED,
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
    turns_of,
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
        policy=WindowPolicy(window=WINDOW, offload=0.3, compact=0.42, background=False),
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


def test_m1_the_request_is_rebuilt_and_the_log_is_never_edited(memory: Memory) -> None:
    """M1: what was offloaded, told and dropped stands in the archive as it came."""
    with StrictProvider(calls_then(24), window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(),
            tools=[inspector(500)],
            policy=WindowPolicy(window=WINDOW),
            memory=memory,
            checkpointer=InMemorySaver(),
        )
        agent.invoke(says("Inspect all."), config())
        clean_run(provider)
    log = memory.archive.read("t", 1, memory.archive.last("t"))
    assert [tag for tag, _ in log] == list(range(1, 51))
    assert [m.content for m in results([m for _, m in log])] == [body(i, 500) for i in range(24)]


def test_e4_tokens_sent_grow_linearly_not_with_the_square(memory: Memory) -> None:
    """E4: twice the rounds cost about twice the tokens; unmanaged they would cost four times."""

    def sent(rounds: int) -> int:
        with StrictProvider(calls_then(rounds), window=WINDOW) as provider:
            agent = build_agent(
                provider.openai(),
                tools=[inspector(300)],
                policy=WindowPolicy(window=WINDOW),
                memory=memory,
                prices=UNCACHED,
            )
            agent.invoke(says("Inspect all."), config(f"rounds-{rounds}"))
            clean_run(provider)
            return provider.totals().sent_tokens

    once, twice = sent(25), sent(50)
    unmanaged = sum(count_tokens([ToolMessage(body(1, 300), tool_call_id="x")]) * i for i in range(50))
    assert twice < 2.6 * once
    assert twice < unmanaged / 3


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


def test_m16_without_the_chain_the_same_task_does_not_fit(memory: Memory) -> None:
    """M16, ablation: offloading off, the same script needs summaries; both off, it is stopped."""
    outcomes = {}
    for name, policy in {
        "offload": WindowPolicy(window=WINDOW),
        "no offload": WindowPolicy(window=WINDOW, min_result=100_000, min_arguments=100_000),
    }.items():
        with StrictProvider(turns_of(14), window=WINDOW) as provider:
            agent = build_agent(
                provider.openai(),
                tools=[inspector(500)],
                policy=policy,
                memory=memory,
                checkpointer=InMemorySaver(),
                prices=UNCACHED,
            )
            events = []
            for _ in range(14):
                events += watch(agent, says("Inspect one more."), config(name))
            clean_run(provider)
        outcomes[name] = len(of(events, "summarize"))
    assert outcomes["offload"] < outcomes["no offload"]


def test_events_tell_the_story_in_order(memory: Memory) -> None:
    with StrictProvider(calls_then(2), window=WINDOW) as provider:
        agent = build_agent(provider.openai(), tools=[inspector(50)], memory=memory)
        events = watch(agent, says("Never delete the index."), config())
    # The answer is numbered, and the rule is remembered: both after the last request.
    assert kinds(events) == ["intake", "watermark", "request"] * 3 + ["intake", "spending", "remember"]


def test_parallel_calls_in_one_message_all_come_back(memory: Memory) -> None:
    with StrictProvider(calls_then(12, each=4), window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(), tools=[inspector(100)], policy=WindowPolicy(window=WINDOW), memory=memory
        )
        state = agent.invoke(says("Inspect in fours."), config())
        clean_run(provider)
    assert [m.content for m in results(state["messages"])] == [body(i, 100) for i in range(12)]


def test_a_stub_copied_into_an_argument_is_refused(memory: Memory) -> None:
    """A write whose content is a stub would destroy the file (GH#374); it never runs."""
    ran: list[int] = []

    def write(content: str) -> str:
        """Write the file."""
        ran.append(len(content))
        return "written"

    asked = Recorder(lambda request: next(replies))
    with StrictProvider(asked, window=32_000) as provider:
        stub = '⟦stored artifacts/ab/abcd.txt 9 chars, 1 lines; read it back: ctx_expand("3")⟧'
        replies = iter([Reply("", (ToolCall("write", {"content": stub}),)), Reply("I see.")])
        agent = build_agent(provider.openai(), tools=[write], memory=memory)
        state = agent.invoke(says("Copy it."), config())
    assert ran == []
    (refusal,) = results(state["messages"])
    assert refusal.status == "error"
    assert "ctx_expand" in str(refusal.content)


def test_prices_uncached_offload_early(memory: Memory) -> None:
    """Without a prefix cache waiting saves nothing, so what has left the zone goes at once."""
    counted = {}
    for name, prices in {"uncached": UNCACHED, "cached": Prices()}.items():
        with StrictProvider(calls_then(10), window=128_000) as provider:
            agent = build_agent(
                provider.openai(),
                tools=[inspector(300)],
                policy=WindowPolicy(window=128_000, keep_tags=4, keep_messages=4),
                memory=memory,
                prices=prices,
            )
            counted[name] = len(of(watch(agent, says("Inspect."), config(name)), "offload"))
    assert counted["uncached"] > counted["cached"] >= 0


def test_offloaded_results_are_stubs_that_name_their_own_bytes(memory: Memory) -> None:
    """M9, M10: each stub in the last request opens, by the path it names, to what its tool returned."""
    asked = Recorder(calls_then(8))
    with StrictProvider(asked, window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(), tools=[inspector()], policy=WindowPolicy(window=WINDOW), memory=memory
        )
        agent.invoke(says("Inspect."), config())
    texts = [row["text"] for row in asked.requests[-1].messages if row["role"] == "tool"]
    stubs = [text.split(" ", 1)[1] for text in texts if is_only_stub(text.split(" ", 1)[1])]
    assert len(stubs) >= 5
    for number, stub in enumerate(stubs):
        assert len(stub.encode()) <= 2_048
        name = stub.split()[1]
        assert memory.artifacts.read_text(name) == body(number)


def test_an_answer_is_numbered_and_archived_too(memory: Memory) -> None:
    with StrictProvider(calls_then(0, "Hello."), window=WINDOW) as provider:
        agent = build_agent(provider.openai(), memory=memory)
        agent.invoke(says("Hi"), config())
    log = memory.archive.read("t", 1, 9)
    assert [(tag, m.type) for tag, m in log] == [(1, "human"), (2, "ai")]
    assert isinstance(log[1][1], AIMessage)


def test_g39_an_archived_fact_is_not_recalled(memory: Memory) -> None:
    """Users' 36: what was archived stays out of a new session's first request, and out of the list."""
    kept = memory.facts.write("Pump P-7 is in hall 3.", "ARCHITECTURE")
    gone = memory.facts.write("Pump P-7 is in hall 1.", "ARCHITECTURE")
    memory.facts.archive(gone.id)
    script = [Reply("", (ToolCall("ctx_memory", {"action": "list"}),)), Reply("In hall 3.")]
    with StrictProvider(script, keep_raw=True) as provider:
        agent = build_agent(provider.openai(), memory=memory)
        state = agent.invoke(says("Where is P-7?"), config())
        first = (provider.requests[0].raw or b"").decode()
    assert kept.content in first
    assert gone.content not in first
    listed = next(str(m.content) for m in state["messages"] if m.type == "tool")
    assert kept.content in listed
    assert gone.content not in listed


def test_g10_the_cache_is_taken_to_live_from_the_request_not_from_the_answer(memory: Memory) -> None:
    """An edit that a cold cache lets through happens when the provider's is cold, not a step late."""
    now = 0.0

    def slow(request: Request) -> Reply:
        nonlocal now
        now += 250
        return script(request)

    script = calls_then(12)
    with StrictProvider(slow, window=100_000, ttl=300, clock=lambda: now) as provider:
        agent = build_agent(
            provider.openai(),
            tools=[inspector(words=200)],
            policy=WindowPolicy(window=100_000),
            prices=Prices(),
            memory=memory,
            clock=lambda: now,
        )
        frame = agent.invoke(says(TASK), config())["frame"]
        assert frame["asked"] == 250 * 12  # when the thirteenth request was made; its answer came at 3,250
        assert all(x.cached_tokens for x in provider.requests[1:])

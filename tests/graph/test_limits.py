"""The lines hold: every call is measured first, and what is done about it comes in its order."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from headwater import Memory, WindowPolicy, build_agent
from headwater.lab.provider import Reply, Request, StrictProvider, ToolCall
from tests.graph.world import (
    IN_LINE,
    TIGHT,
    WINDOW,
    Event,
    Recorder,
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

wires = pytest.mark.parametrize("wire", ["openai", "anthropic"])


def steps(events: list[Event]) -> Iterator[list[Event]]:
    """Events cut at each request."""
    step: list[Event] = []
    for event in events:
        step.append(event)
        if event["type"] == "headwater.request":
            yield step
            step = []
    yield step


def talk(request: Request) -> Reply:
    """A long answer to anything, nothing in it to offload."""
    number = sum(row["role"] == "user" for row in request.messages)
    return Reply(" ".join(f"Part {i} of answer {number} says that the valve is fine." for i in range(25)))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_m7_exhausted_stops_with_a_clear_message_and_no_request(memory: Memory, language: str) -> None:
    """M7: nothing is sent, the user is told how much, why, and what to do, in their language."""
    text = {
        "en": " ".join(f"Requirement {i} is that part {i} must fit." for i in range(800)),
        "zh": "".join(f"第{i}条要求：部件{i}必须合适。" for i in range(800)),
    }[language]
    with StrictProvider(calls_then(0), window=WINDOW) as provider:
        agent = build_agent(provider.openai(), memory=memory, policy=WindowPolicy(window=WINDOW))
        events = watch(agent, says(text), config())
        state = agent.invoke(says(text), config("u"))
        assert provider.totals().requests == 0
    (stopped,) = of(events, "halt")
    said = last_text(state)
    assert f"{WINDOW:,}" in said
    assert "WindowPolicy(window=...)" in said
    assert f"{stopped['estimate']:,}" in said
    assert ("没有发送任何请求" if language == "zh" else "No request was sent") in said
    assert memory.archive.get("t", 1).content == text, "nothing is lost"


def test_m7_a_halted_session_goes_on_in_a_larger_window(memory: Memory) -> None:
    text = " ".join(f"Requirement {i} is that part {i} must fit." for i in range(800))
    saver = InMemorySaver()
    with StrictProvider(calls_then(0, "Understood."), window=64_000) as provider:
        small = build_agent(
            provider.openai(), memory=memory, checkpointer=saver, policy=WindowPolicy(window=WINDOW)
        )
        assert "Stopped" in last_text(small.invoke(says(text), config()))
        large = build_agent(
            provider.openai(), memory=memory, checkpointer=saver, policy=WindowPolicy(window=64_000)
        )
        assert last_text(large.invoke(says("Go on."), config())) == "Understood."
        clean_run(provider)


@pytest.mark.parametrize("words", [400, 200])
def test_m8_c7_offload_comes_strictly_before_summarise(memory: Memory, words: int) -> None:
    """M8: in no step does a summary come before what could be offloaded, and it never comes where offloading
    alone got under the line.
    """
    with StrictProvider(turns_of(40), window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(),
            tools=[inspector(words)],
            policy=IN_LINE,
            memory=memory,
            checkpointer=InMemorySaver(),
        )
        events = []
        for number in range(24):
            events += watch(agent, says(f"Order {number}."), config())
        clean_run(provider)
    told = 0
    for step in steps(events):
        names = kinds(step)
        if "summarize" not in names:
            continue
        told += 1
        at = names.index("summarize")
        judged = step[at - 1]
        assert judged["type"] == "headwater.watermark"
        assert judged["estimate"] >= judged["lines"]["compact"], "offloading alone was enough"
        if "offload" in names:
            assert names.index("offload") < at
    assert told >= 2


def test_m8_no_summary_where_offloading_is_enough(memory: Memory) -> None:
    """M8: 20 results of 1,100 tokens through an 8k window: offloaded one after another, not one summary."""
    with StrictProvider(calls_then(12), window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(), tools=[inspector(700)], policy=WindowPolicy(window=WINDOW), memory=memory
        )
        events = watch(agent, says("Inspect."), config())
        clean_run(provider)
    assert len(of(events, "offload")) >= 3
    assert of(events, "summarize") == []


def test_m5_large_results_go_to_disk_at_the_offload_line(memory: Memory) -> None:
    """M5: below the line nothing moves; from the line on results are on disk, the estimate below it."""
    with StrictProvider(calls_then(8), window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(), tools=[inspector(700)], policy=WindowPolicy(window=WINDOW), memory=memory
        )
        events = watch(agent, says("Inspect."), config())
    for before, event in pairwise(events):
        if event["type"] == "headwater.offload":
            assert before["estimate"] >= before["lines"]["offload"]
            assert event["tags"]
    assert of(events, "offload")
    assert len(list((memory.root / "artifacts").rglob("*.txt"))) >= len(of(events, "offload"))


def test_m6_old_history_is_summarised_at_the_compact_line(memory: Memory) -> None:
    """M6: talk without results can only be summarised; the newest messages stay as they are."""
    asked = Recorder(talk)
    with StrictProvider(asked, window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(), memory=memory, policy=WindowPolicy(window=WINDOW), checkpointer=InMemorySaver()
        )
        events = []
        for number in range(16):
            events += watch(agent, says(f"Question {number}?"), config())
        clean_run(provider)
    told = of(events, "summarize")
    assert told
    assert "§31§ Question 15?" in shown(asked.requests[-1])
    before = [e for e in events if e["type"] == "headwater.watermark" and e["route"] == "summarize"]
    assert before
    assert all(e["level"] in ("COMPACT", "EXHAUSTED") for e in before)


def test_never_summarise_leaves_it_to_reclaim(memory: Memory) -> None:
    with StrictProvider(turns_of(40), window=WINDOW) as provider:
        # Nothing is large enough to be offloaded: what a summary would have freed is reclaimed.
        policy = replace(TIGHT, summarise="never", min_result=100_000)
        agent = build_agent(
            provider.openai(),
            tools=[inspector(400)],
            policy=policy,
            memory=memory,
            checkpointer=InMemorySaver(),
        )
        events = []
        for number in range(20):
            events += watch(agent, says(f"Order {number}."), config())
        clean_run(provider)
    assert of(events, "summarize") == []
    assert of(events, "reclaim")


def test_m3_m4_every_estimate_sent_leaves_the_reserve(memory: Memory) -> None:
    """M3, M4, E3: no request that was sent came within the output reserve of the window."""
    with StrictProvider(turns_of(30), window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(max_tokens=1_500),
            tools=[inspector(400)],
            policy=WindowPolicy(window=WINDOW),
            memory=memory,
            checkpointer=InMemorySaver(),
        )
        for number in range(15):
            agent.invoke(says(f"Order {number}."), config())
        clean_run(provider)
        assert max(x.input_tokens for x in provider.requests) <= WINDOW - 1_500


def test_the_requests_output_cap_is_reserved_in_full(memory: Memory) -> None:
    """E3: a client that always asks for 4,096 tokens (Anthropic's default) keeps them free."""
    with StrictProvider(talk, window=WINDOW) as provider:
        agent = build_agent(
            provider.anthropic(max_tokens=4_096),
            memory=memory,
            policy=WindowPolicy(window=WINDOW),
            checkpointer=InMemorySaver(),
        )
        for number in range(12):
            agent.invoke(says(f"Question {number}?"), config())
        clean_run(provider)


def test_case_13_the_window_is_checked_before_every_call_of_a_tool_loop(memory: Memory) -> None:
    """Case 13: one user turn, 30 calls of 1.5k tokens, window 49,152, threshold 0.35."""
    with StrictProvider(calls_then(30), window=49_152) as provider:
        policy = WindowPolicy(window=49_152, offload=0.35, compact=0.5, exhausted=0.9)
        agent = build_agent(provider.openai(), tools=[inspector(1_000)], policy=policy, memory=memory)
        events = watch(agent, says("Inspect all."), config())
        clean_run(provider)
    names = kinds(events)
    assert names.count("request") == 31
    before = [names[:i].count("watermark") for i, name in enumerate(names) if name == "request"]
    assert all(b > a for a, b in zip([0, *before], before, strict=False)), "a watermark before each request"
    assert of(events, "offload")


def test_case_16_reported_usage_moves_the_estimate_before_the_next_call(memory: Memory) -> None:
    """Case 16: the provider counts 1.6 times what we count; the second request is sized by its count."""
    text = "x y z " * 300

    def script(request: Request) -> Reply:
        return Reply("ok") if len(request.messages) > 6 else Reply("", (ToolCall("inspect", {"number": 1}),))

    with StrictProvider(script, window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(), tools=[inspector(200)], policy=WindowPolicy(window=WINDOW), memory=memory
        )
        events = watch(agent, says(text), config())
    asked, estimates = of(events, "request"), of(events, "watermark")
    assert len(asked) == len(estimates) > 2
    for request, estimate in zip(asked[1:], estimates[1:], strict=True):
        assert estimate["estimate"] >= 0.95 * request["usage"]["input_tokens"]


@wires
def test_case_20_no_usage_in_the_stream_still_triggers(memory: Memory, wire: str) -> None:
    """Case 20: chunks without usage; the own count is used and the lines act."""
    with StrictProvider(calls_then(8), window=WINDOW) as provider:
        agent = build_agent(
            client(provider, wire, stream_usage=False, streaming=True, max_tokens=1_000),
            tools=[inspector(700)],
            policy=WindowPolicy(window=WINDOW),
            memory=memory,
        )
        events = watch(agent, says("Inspect."), config())
        clean_run(provider)
    assert of(events, "offload")


def test_g32_at_exhausted_the_deep_cleanup_comes_at_once(memory: Memory) -> None:
    """G32: one arc jumps from NORMAL over 95%; room is made in the same step, and the request goes out."""

    @tool
    def get(size: int) -> str:
        """Get so many words."""
        return body(size, size)

    plan = [Reply("", tuple(ToolCall("get", {"size": 700 + i}) for i in range(5))), Reply("Seen.")]
    with StrictProvider(plan, window=WINDOW) as provider:
        agent = build_agent(provider.openai(), tools=[get], policy=WindowPolicy(window=WINDOW), memory=memory)
        events = watch(agent, says("Get five."), config())
        clean_run(provider)
    levels = [e["level"] for e in of(events, "watermark")]
    assert levels[1] == "EXHAUSTED"
    assert of(events, "reclaim")
    assert of(events, "halt") == []
    log = [m.content for m in results([m for _, m in memory.archive.read("t", 1, 99)])]
    assert log == [body(700 + i, 700 + i) for i in range(5)]

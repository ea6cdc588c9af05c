"""The guard on a live server: half the window that was assumed, none at all, and faulty answers."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from headwater import Memory, WindowPolicy, build_agent
from headwater.lab.provider import Refuse, Reply, Request, StrictProvider, ToolCall, overflow_at
from headwater.nodes.agent import OverflowUnresolved
from tests.graph.world import (
    WINDOW,
    Recorder,
    body,
    calls_then,
    client,
    config,
    inspector,
    kinds,
    last_text,
    memory_in,
    of,
    says,
    turns_of,
    watch,
)

ASSUMED = 24_000
TRUE = ASSUMED // 2
wires = pytest.mark.parametrize("wire", ["openai", "anthropic"])
streams = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def small_answers(wire: str) -> dict[str, Any]:
    return {"max_tokens": 1_000} if wire == "anthropic" else {}


@wires
@streams
def test_g33_m17_a_window_half_as_large_costs_one_request_in_200_steps(
    tmp_path: Path, wire: str, stream: bool
) -> None:
    """G33: one request is enough to learn from; the next process knows the limit from the start."""
    with StrictProvider(calls_then(199), window=TRUE) as provider:
        model = client(provider, wire, streaming=stream, **small_answers(wire))
        for thread in ("first", "second"):
            agent = build_agent(
                model,
                tools=[inspector(300)],
                policy=WindowPolicy(window=ASSUMED),
                memory=memory_in(tmp_path),
                checkpointer=InMemorySaver(),
            )
            if thread == "second":
                provider._script = calls_then(30)
            assert last_text(agent.invoke(says("Inspect all."), config(thread))) == "All done."
            totals = provider.totals()
            assert totals.over_window == totals.refused == 1, thread
        assert provider.violations == []
        assert totals.requests >= 230


@wires
def test_m19_a_server_that_always_refuses_is_asked_a_few_times_and_the_session_goes_on_later(
    tmp_path: Path, wire: str
) -> None:
    saver = InMemorySaver()
    refuses = [True]
    inner = turns_of(400)

    def script(request: Request) -> Reply:
        if refuses[0] and len(request.messages) > 10:
            raise Refuse(400, {"error": {"type": "invalid_request_error", "message": "prompt is too long"}})
        return inner(request)

    with StrictProvider(script, window=200_000, keep_raw=True) as provider:
        model = client(provider, wire, **small_answers(wire))

        def build(window: int) -> Any:
            return build_agent(
                model,
                tools=[inspector(300)],
                policy=WindowPolicy(window=window),
                memory=memory_in(tmp_path),
                checkpointer=saver,
            )

        agent = build(32_000)
        for number in range(2):
            agent.invoke(says(f"Order {number}."), config())
        before = provider.totals().requests
        with pytest.raises(
            OverflowUnresolved, match=r"refuses [\d,]+ tokens.*largest parts: \w+ [\d,]+"
        ) as said:
            agent.invoke(says("Order 3."), config())
        assert "strict" in str(said.value)
        assert "WindowPolicy(window=...)" in str(said.value)
        tried = provider.requests[before:]
        assert 1 <= len(tried) <= 6
        assert len({x.raw for x in tried}) == len(tried), "M19: never the same bytes twice"
        refuses[0] = False
        assert last_text(build(64_000).invoke(says("Go on."), config())) == "Done with this one."
        assert provider.violations == []


def test_case_57_a_cap_that_is_the_cause_is_lowered_and_history_stays(tmp_path: Path) -> None:
    asked = Recorder(calls_then(3))
    with StrictProvider(asked, window=16_000, max_output=32_000) as provider:
        model = provider.openai(max_tokens=15_500)
        agent = build_agent(
            model, tools=[inspector(300)], policy=WindowPolicy(window=64_000), memory=memory_in(tmp_path)
        )
        events = watch(agent, says("Inspect."), config())
        refused = [x for x in provider.requests if x.status != 200]
        assert len(refused) == 1
    assert of(events, "offload") == []
    assert asked.requests[-1].raw["max_completion_tokens"] < 15_500


@wires
def test_m22_calls_that_nobody_can_read_are_asked_for_again(tmp_path: Path, wire: str) -> None:
    replies = [
        Reply("", (ToolCall("inspect", "{broken"),)),
        Reply("", (ToolCall("inspect", {"number": 1}),)),
        Reply("Done."),
    ]
    with StrictProvider(replies) as provider:
        agent = build_agent(
            client(provider, wire),
            tools=[inspector(30)],
            memory=memory_in(tmp_path),
            checkpointer=InMemorySaver(),
        )
        assert last_text(agent.invoke(says("Inspect."), config())) == "Done."
        assert provider.violations == []
        taken = sum(x.input_tokens + x.output_tokens for x in provider.requests)
    purse = agent.get_state(config()).values["purse"]
    assert (purse["steps"], purse["tokens"]) == (3, taken), "what could not be read was paid for as well"


def test_m22_calls_that_stay_unreadable_are_said(tmp_path: Path) -> None:
    broken = Reply("", (ToolCall("inspect", "{broken"),))
    with StrictProvider([broken, broken]) as provider:
        agent = build_agent(provider.openai(), tools=[inspector(30)], memory=memory_in(tmp_path))
        assert "could not be read (inspect)" in last_text(agent.invoke(says("Inspect."), config()))


def test_m17_an_empty_answer_at_the_end_of_the_window_is_a_silent_overflow(tmp_path: Path) -> None:
    inner = calls_then(6)
    silent: list[int] = []

    def script(request: Request) -> Reply:
        if len(request.messages) > 9 and not silent:
            silent.append(1)
            return Reply("", finish="model_context_window_exceeded")
        return inner(request)

    with StrictProvider(script) as provider:
        agent = build_agent(
            provider.openai(),
            tools=[inspector(300)],
            policy=WindowPolicy(window=32_000),
            memory=memory_in(tmp_path),
        )
        events = watch(agent, says("Inspect."), config())
        assert len(of(events, "overflow")) == 1
        sizes = [x.input_tokens for x in provider.requests]
        assert any(later < before for before, later in pairwise(sizes))


def test_users_34_bound_thinking_survives_every_pass(tmp_path: Path) -> None:
    """A model whose thinking is bound to every earlier byte, through edits, folds and summaries."""
    inner = turns_of(400)

    def script(request: Request) -> Reply:
        reply = inner(request)
        return Reply(reply.text, reply.tool_calls, "I should look at it. " * 5)

    with StrictProvider(script, window=12_000, bound_thinking=True) as provider:
        agent = build_agent(
            provider.anthropic(max_tokens=1_000),
            tools=[inspector(300)],
            policy=WindowPolicy(window=12_000, offload=0.3, compact=0.42, provider="anthropic-bound"),
            memory=memory_in(tmp_path),
            checkpointer=InMemorySaver(),
        )
        told = 0
        for number in range(30):
            told += len(of(watch(agent, says(f"Check {number}."), config()), "summarize"))
        assert provider.violations == []
        assert told >= 1


@wires
def test_m17_only_a_providers_error_proves_an_overflow(memory: Memory, wire: str) -> None:
    """M17, M20: the window is assumed four times too large; the refusal is survived in the same turn."""
    with StrictProvider(lambda r: script(r), window=6_000) as provider:
        script = calls_then(10, each=5)
        agent = build_agent(
            client(provider, wire, max_tokens=500),
            tools=[inspector(700)],
            policy=WindowPolicy(window=24_000, keep_tokens=1_000),
            memory=memory,
        )
        events = watch(agent, says("Inspect."), config())
        script = calls_then(10, each=5)
        state = agent.invoke(says("Inspect."), config("u"))
        assert provider.violations == []
        assert provider.totals().over_window >= 1
    assert of(events, "overflow")
    assert last_text(state) == "All done."


def test_m20_the_guard_offloads_the_one_oversized_part_and_the_turn_goes_on(memory: Memory) -> None:
    """M20: of three results only the largest leaves; the others and the talk stay; no user is asked."""

    @tool
    def get(size: int) -> str:
        """Get so many words."""
        return body(size, size)

    plan = iter(
        [Reply("", tuple(ToolCall("get", {"size": n}) for n in (60, 2_000, 80))), Reply("I have them.")]
    )
    asked = Recorder(overflow_at(lambda request: next(plan), {1}, limit=3_000))
    with StrictProvider(asked, window=32_000) as provider:
        agent = build_agent(provider.openai(), tools=[get], policy=WindowPolicy(window=32_000), memory=memory)
        events = watch(agent, says("Get three."), config())
        assert [x.status for x in provider.requests] == [200, 400, 200]
    rows = [row["text"] for row in asked.requests[-1].messages if row["role"] == "tool"]
    assert [("⟦stored artifacts" in row) for row in rows] == [False, True, False]
    name = re.search(r"artifacts/\S+", rows[1])
    assert name
    assert memory.artifacts.read_text(name[0]) == body(2_000, 2_000)
    assert kinds(events).count("overflow") == 1


@wires
def test_m19_the_same_bytes_are_never_sent_twice_after_an_overflow(memory: Memory, wire: str) -> None:
    """M19, case 58: always refused; each try is smaller, at most 4 tries, and the error says what to do."""

    def script(request: Request) -> Reply:
        if any(row["role"] == "tool" for row in request.messages):
            raise_overflow()
        return Reply("", tuple(ToolCall("inspect", {"number": i}) for i in range(8)))

    def raise_overflow() -> None:
        raise Refuse(400, {"type": "error", "error": {"type": "invalid_request_error", "message": MESSAGE}})

    MESSAGE = "prompt is too long: 210000 tokens > 200000 maximum"
    with StrictProvider(script, window=200_000, keep_raw=True) as provider:
        agent = build_agent(
            client(provider, wire, max_tokens=500),
            tools=[inspector(600)],
            policy=WindowPolicy(window=200_000),
            memory=memory,
        )
        with pytest.raises(OverflowUnresolved, match="nothing is lost"):
            agent.invoke(says("Inspect."), config())
        refused = [x for x in provider.requests if x.status == 400]
    raws = [x.raw for x in refused]
    assert len(set(raws)) == len(raws)
    assert 2 <= len(raws) <= 4
    assert [len(raw or b"") for raw in raws] == sorted((len(raw or b"") for raw in raws), reverse=True)


def test_m21_another_400_is_raised_and_edits_nothing(memory: Memory) -> None:
    """M21: a bare 400 about a parameter is the caller's to see; history is as it was."""

    def script(request: Request) -> Reply:
        raise Refuse(400, {"error": {"message": "Invalid value: 'temperature' must be 1", "type": "x"}})

    with StrictProvider(script, window=WINDOW) as provider:
        agent = build_agent(provider.openai(), memory=memory, checkpointer=InMemorySaver())
        with pytest.raises(Exception, match="temperature"):
            agent.invoke(says("Hi"), config())
        assert provider.totals().requests == 1
    assert not agent.get_state(config()).values.get("edits")


def test_case_58_the_guard_is_reset_by_success(memory: Memory) -> None:
    """Case 58: overflow, success, overflow: each is survived on its own."""
    script = overflow_at(calls_then(6), {2, 4, 6}, limit=20_000)
    with StrictProvider(script, window=64_000) as provider:
        agent = build_agent(
            provider.openai(), tools=[inspector(900)], policy=WindowPolicy(window=64_000), memory=memory
        )
        state = agent.invoke(says("Inspect."), config())
    assert last_text(state) == "All done."

"""The guard on a live server: half the window that was assumed, none at all, and faulty answers."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from headwater import WindowPolicy, build_agent
from headwater.lab.provider import Refuse, Reply, Request, StrictProvider, ToolCall
from headwater.nodes.agent import OverflowUnresolved
from tests.graph.world import (
    Recorder,
    calls_then,
    client,
    config,
    inspector,
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
        agent = build_agent(client(provider, wire), tools=[inspector(30)], memory=memory_in(tmp_path))
        assert last_text(agent.invoke(says("Inspect."), config())) == "Done."
        assert provider.violations == []


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

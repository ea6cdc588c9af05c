"""Servers that cut a prompt without a word, windows larger than assumed, and refusals half-way."""

from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from headwater.graph import build_agent
from headwater.graph.build import engine_of
from headwater.lab.provider import Disconnect, Reply, Request, StrictProvider
from headwater.window.policy import WindowPolicy
from headwater.window.sizes import WindowSize
from tests.graph.test_overflow_guard import small_answers, wires
from tests.graph.world import calls_then, client, config, inspector, last_text, memory_in, of, says, watch

SHOWN = 5_000


def built(provider: StrictProvider, root: Path, wire: str, window: int) -> Any:
    return build_agent(
        client(provider, wire, **small_answers(wire)),
        tools=[inspector(300)],
        policy=WindowPolicy(window=window),
        memory=memory_in(root),
        checkpointer=InMemorySaver(),
    )


@wires
def test_m17_a_prompt_that_came_back_cut_is_a_silent_overflow(tmp_path: Path, wire: str) -> None:
    """M17: noticed once, and from then on no prompt is so long that it would be cut. Nothing is kept."""
    with StrictProvider(calls_then(45), charges=lambda counted: min(counted, SHOWN)) as provider:
        agent = built(provider, tmp_path, wire, 24_000)
        events = watch(agent, says("Inspect all."), config())
        sizes = [x.input_tokens for x in provider.requests]
        found = of(events, "overflow")
        assert last_text(agent.get_state(config()).values) == "All done."
        assert provider.violations == []
    assert [event["limit"] for event in found] == [SHOWN]
    at = sizes.index(max(sizes))
    assert sizes[at + 1] < SHOWN
    assert max(sizes[at + 1 :]) <= SHOWN
    assert max(sizes) < 2 * SHOWN
    assert memory_in(tmp_path).limits.all() == {}


def test_m17_what_a_cut_prompt_has_shown_is_probed_again_after_a_day(tmp_path: Path) -> None:
    now = [0.0]
    with StrictProvider([Reply("Yes.")] * 2, window=24_000) as provider:
        agent = build_agent(provider.openai(), memory=memory_in(tmp_path), clock=lambda: now[0])
        engine = engine_of(agent)
        assumed = engine.window
        engine.beware(SHOWN)
        assert engine.window == WindowSize(SHOWN, "cut")
        assert engine.lines.window == SHOWN
        for hour, tokens in ((23, SHOWN), (25, assumed.tokens)):
            now[0] = 3600.0 * hour
            agent.invoke(says("Are you there?"), config(str(hour)))
            assert engine.window.tokens == tokens


@pytest.mark.parametrize(
    ("wire", "share"),
    [("openai", "new part"), ("anthropic", "new part"), ("openai", "half"), ("openai", "one number")],
)
def test_m17_an_endpoint_that_reports_too_little_teaches_no_window(
    tmp_path: Path, wire: str, share: str
) -> None:
    """Relays that leave out what the cache gave, or half of a stream, or send one number: nothing is cut."""
    seen = [0]

    def charges(counted: int) -> int:
        before, seen[0] = seen[0], counted
        if share == "new part":
            # Small prompts are not cached, and a relay's cache is not always warm.
            return counted - before if 1_024 < before < counted and counted % 5 else counted
        return counted // 2 if share == "half" else 1_500

    with StrictProvider(calls_then(40), charges=charges) as provider:
        agent = built(provider, tmp_path, wire, 24_000)
        events = watch(agent, says("Inspect all."), config())
    assert of(events, "overflow") == []
    assert memory_in(tmp_path).limits.all() == {}


@wires
def test_m17_a_prompt_that_is_charged_in_full_is_never_taken_for_cut(tmp_path: Path, wire: str) -> None:
    with StrictProvider(calls_then(40)) as provider:
        events = watch(built(provider, tmp_path, wire, 12_000), says("Inspect all."), config())
    assert of(events, "overflow") == []
    assert memory_in(tmp_path).limits.all() == {}


def test_m17_a_window_larger_than_assumed_is_noted_and_nothing_is_asked_again(tmp_path: Path) -> None:
    """What is charged is more than we count, and more than we assume; the answer is whole, so it is taken."""
    with StrictProvider([Reply("Read.")], charges=lambda counted: counted + 6_000) as provider:
        events = watch(built(provider, tmp_path, "openai", 8_000), says("Read it. " * 700), config())
        assert len(provider.requests) == 1
        reported = provider.requests[0].input_tokens + 6_000
    assert of(events, "overflow") == []
    noted = of(events, "window_larger")
    assert [(e["assumed"], e["reported"]) for e in noted] == [(8_000, reported)]


@wires
def test_m17_a_stream_refused_half_way_is_survived_and_the_state_has_one_answer(
    tmp_path: Path, wire: str
) -> None:
    """What has been streamed cannot be taken back: it has another id than the answer that stays."""
    begun: list[Request] = []
    inner = calls_then(4, answer="The whole answer.")

    def script(request: Request) -> Reply:
        if len(request.messages) > 8 and not begun:
            begun.append(request)
            said = "prompt is too long: 4000 tokens > 3000 maximum"
            error = {"type": "invalid_request_error", "message": said}
            raise Disconnect(Reply("Half an answer, then"), 3, {"type": "error", "error": error})
        return inner(request)

    with StrictProvider(script, keep_raw=True) as provider:
        agent = build_agent(
            client(provider, wire, streaming=True, **small_answers(wire)),
            tools=[inspector(300)],
            policy=WindowPolicy(window=24_000),
            memory=memory_in(tmp_path),
            checkpointer=InMemorySaver(),
        )
        stream = agent.stream(says("Inspect all."), config(), stream_mode=["messages", "custom"])
        seen: list[Any] = list(stream)
        assert len({x.raw for x in provider.requests}) == len(provider.requests)
    kept = [m for m in agent.get_state(config()).values["messages"] if m.type == "ai"]
    assert begun
    assert [str(m.text) for m in kept][-1] == "The whole answer."
    assert all("Half" not in str(m.text) for m in kept)
    half = {part[0].id for mode, part in seen if mode == "messages" and "Half" in str(part[0].text)}
    assert half
    assert not half & {m.id for m in kept}
    overflow = [part for mode, part in seen if mode == "custom" and part["type"] == "headwater.overflow"]
    assert len(overflow) == 1

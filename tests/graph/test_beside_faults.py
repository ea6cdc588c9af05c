"""Governance beside retries, a fallback and structured output."""

import json
import time
from typing import Any

import pytest
from langchain.agents.middleware import ModelFallbackMiddleware, ModelRetryMiddleware, ToolRetryMiddleware
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel

from headwater.lab.provider import ModelSpec, Refuse, Reply, Request, StrictProvider, ToolCall, by_model
from headwater.memory import Memory
from headwater.window.policy import WindowPolicy
from tests.graph.beside import (
    ORDERS,
    WAYS,
    agent_beside,
    asked,
    each_once,
    messages_of,
    never_refused_twice,
)
from tests.graph.hosts import numbered_once
from tests.graph.world import IN_LINE, WINDOW, Recorder, clean_run, client, config, inspector, of, turns_of

DOWN = {"error": {"message": "The server is overloaded.", "type": "server_error"}}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("order", ORDERS)
def test_a_tool_that_is_tried_again_is_taken_in_once(order: str, way: str, memory: Memory) -> None:
    tries: dict[int, int] = {}

    @tool
    def inspect(number: int) -> str:
        """Inspect one unit."""
        tries[number] = tries.get(number, 0) + 1
        if number % 3 == 0 or tries[number] < 3:
            raise ConnectionError(f"unit {number} does not answer")
        return f"unit {number} is well " * 200

    again = ToolRetryMiddleware(max_retries=2, initial_delay=0.0, jitter=False)
    with StrictProvider(turns_of(12), window=WINDOW) as provider:
        agent = agent_beside(provider.openai(), memory, [again], order=order, tools=[inspect])
        events = [e for n in range(12) for e in asked(agent, f"Check {n}.", way)]
        clean_run(provider)
        assert len(of(events, "request")) == len(provider.requests) == 24
    assert set(tries.values()) == {3}
    log = [m for _, m in memory.archive.read("t", 1, 99) if isinstance(m, ToolMessage)]
    assert [m.status for m in log].count("error") == len([n for n in tries if n % 3 == 0])
    numbered_once(messages_of(agent))
    each_once(memory)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("order", ORDERS)
def test_a_model_that_is_asked_again_is_sent_the_same_and_governed_once(
    order: str, way: str, memory: Memory
) -> None:
    """The provider fails each first time; the pass before it is neither undone nor made twice."""
    served = turns_of(12)
    failed: set[str] = set()

    def script(request: Request) -> Reply:
        key = json.dumps(request.messages)
        if key not in failed:
            failed.add(key)
            raise Refuse(503, DOWN)
        return served(request)

    again = ModelRetryMiddleware(max_retries=1, initial_delay=0.0, jitter=False)
    with StrictProvider(script, window=WINDOW, keep_raw=True) as provider:
        agent = agent_beside(provider.openai(), memory, [again], order=order, tools=[inspector(400)])
        events = [e for n in range(12) for e in asked(agent, f"Check {n}.", way)]
        sent = [x.raw for x in provider.requests]
    assert sent[0::2] == sent[1::2]
    assert len(of(events, "request")) == 24
    firsts = [e["first"] for e in of(events, "intake")]
    assert firsts == sorted(set(firsts))
    told = [(e["first"], e["last"]) for e in of(events, "summarize")]
    assert told
    assert len(told) == len(set(told))
    numbered_once(messages_of(agent))
    each_once(memory)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wires", [("openai", "anthropic"), ("anthropic", "openai")])
def test_m18_m19_a_fallback_is_sent_what_fits_its_own_window(
    wires: tuple[str, str], way: str, memory: Memory
) -> None:
    """Governance last, so within the fallback: each model is measured by its own window."""
    served = turns_of(20)

    def main(request: Request) -> Reply:
        if len(request.messages) % 3 == 0:
            raise Refuse(503, DOWN)
        return served(request)

    models = {"big": ModelSpec(32_000), "small": ModelSpec(8_192)}
    script = Recorder(by_model({"big": main, "small": served}))
    with StrictProvider(script, models=models, keep_raw=True) as provider:
        big, small = (
            client(provider, w, model=n, max_tokens=500) for w, n in zip(wires, models, strict=True)
        )
        big.profile, small.profile = {"max_input_tokens": 32_000}, {"max_input_tokens": 8_192}
        agent = agent_beside(
            big, memory, [ModelFallbackMiddleware(small)], policy=WindowPolicy(), tools=[inspector(900)]
        )
        events = [e for n in range(20) for e in asked(agent, f"Check {n}.", way)]
        assert provider.violations == []
        assert not any(x.over_window for x in provider.requests), "known windows are never overrun"
        assert {x.model for x in provider.requests if x.status == 200} == {"big", "small"}
        assert max(x.input_tokens for x in provider.requests if x.model == "big") > 8_192
        never_refused_twice(provider, whoever=True)
    assert len(of(events, "request")) == sum(x.status == 200 for x in provider.requests)
    numbered_once(messages_of(agent))
    each_once(memory)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("order", ORDERS)
def test_m19_nothing_that_a_fallback_refused_is_sent_to_it_again(
    order: str, way: str, memory: Memory
) -> None:
    """The fallback's window is smaller than anyone knows, and the main model is down for good."""

    def down(request: Request) -> Reply:
        raise Refuse(503, DOWN)

    served = turns_of(8)
    models = {"big": ModelSpec(32_000), "small": ModelSpec(6_000)}
    script = by_model({"big": lambda r: served(r) if r.index < 16 else down(r), "small": served})
    with StrictProvider(script, models=models, keep_raw=True) as provider:
        big = provider.openai("big", max_tokens=500, profile={"max_input_tokens": 32_000})
        small = provider.openai("small", max_tokens=500, profile={"max_input_tokens": 32_000})
        fallback = ModelFallbackMiddleware(small)
        agent = agent_beside(
            big, memory, [fallback], order=order, policy=WindowPolicy(), tools=[inspector(900)]
        )
        for number in range(8):
            asked(agent, f"Check {number}.", way)
        asked(agent, "And now?", way)
        assert provider.violations == []
        refused = [x.model for x in provider.requests if x.over_window]
        assert refused
        assert set(refused) == {"small"}
        never_refused_twice(provider, whoever=order == "last")
    # Where governance stands before the fallback it cannot tell who will answer: it learns nothing wrong.
    known = {name: memory.limits.get(f"{name}@{provider.url}/v1", time.time()) for name in models}
    assert known == {"big": None, "small": 6_000 if order == "last" else None}
    assert "Nothing left." in str(messages_of(agent)[-1].content)
    numbered_once(messages_of(agent))


class Report(BaseModel):
    """What an inspection comes to."""

    unit: int
    well: bool


def reporting(strategy: str) -> Any:
    """Inspects a unit, then reports: at each third round in a form that cannot be read at first."""
    rounds = tries = 0

    def script(request: Request) -> Reply:
        nonlocal rounds, tries
        newest = request.messages[-1]
        if newest["role"] == "user":
            rounds, tries = rounds + 1, 0
            return Reply("", (ToolCall("inspect", {"number": rounds}),))
        tries += 1
        good = {"unit": rounds, "well": True}
        if strategy == "provider":
            return Reply(json.dumps(good))
        wrong = rounds % 3 == 0 and tries == 1
        return Reply("", (ToolCall("Report", {"unit": "which?"} if wrong else good),))

    return script


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
@pytest.mark.parametrize("strategy", ["tool", "provider"])
def test_structured_output_is_governed_like_any_answer(
    wire: str, strategy: str, way: str, memory: Memory
) -> None:
    form: Any = ToolStrategy(Report) if strategy == "tool" else ProviderStrategy(Report)
    script = Recorder(reporting(strategy))
    with StrictProvider(script, window=WINDOW) as provider:
        agent = agent_beside(
            client(provider, wire, max_tokens=500),
            memory,
            [],
            policy=IN_LINE,
            tools=[inspector(400)],
            response_format=form,
        )
        events: list[Any] = []
        for number in range(12):
            events += asked(agent, f"Check {number}.", way)
            found = agent.get_state(config()).values["structured_response"]
            assert found == Report(unit=number + 1, well=True)
        clean_run(provider)
        assert len(of(events, "request")) == len(provider.requests) == (28 if strategy == "tool" else 24)
        # What the client asks of its provider for it is in every request, as without governance.
        wanted = {"tool": "tool_choice", "openai": "response_format", "anthropic": "output_config"}
        asked_for = wanted["tool" if strategy == "tool" else wire]
        assert all(request.raw.get(asked_for) for request in script.requests)
    assert of(events, "summarize")
    numbered_once(messages_of(agent))
    each_once(memory)


def test_what_governance_says_of_unreadable_calls_is_the_agents_answer(memory: Memory) -> None:
    """Asked for once more, and said; the agent does not end with an empty message."""
    bad = Reply("", (ToolCall("inspect", '{"number": '),))
    with StrictProvider([bad, bad], window=WINDOW) as provider:
        agent = agent_beside(provider.openai(), memory, [], tools=[inspector()])
        agent.invoke({"messages": [("user", "Check.")]}, config())
        assert len(provider.requests) == 2
        assert provider.violations == []
    assert "could not be read" in messages_of(agent)[-1].text

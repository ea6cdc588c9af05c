"""Governance beside a human in the loop: calls wait, are approved, edited, rejected; governance acts once."""

from typing import Any

import pytest
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.types import Command

from headwater.lab.provider import Reply, Request, StrictProvider, ToolCall
from headwater.memory import Memory
from tests.graph.beside import (
    ORDERS,
    WAYS,
    agent_beside,
    archived,
    asked,
    each_once,
    messages_of,
    streamed,
)
from tests.graph.hosts import numbered_once
from tests.graph.world import WINDOW, Agent, Recorder, body, clean_run, client, config, kinds, of, shown

ran: list[int] = []


@tool
def inspect(number: int) -> str:
    """Inspect one unit."""
    ran.append(number)
    return body(number, 500)


@pytest.fixture(autouse=True)
def fresh() -> None:
    ran.clear()


def two_calls_a_round(request: Request) -> Reply:
    """Inspects two units in one message, then answers."""
    if request.messages[-1]["role"] == "tool":
        return Reply("Done with these.")
    number = sum(row["role"] == "user" and "Check" in row["text"] for row in request.messages) * 100
    number += request.index
    calls = tuple(ToolCall("inspect", {"number": n}) for n in (number, number + 1))
    return Reply("", calls)


def answers(kind: str) -> list[dict[str, Any]]:
    """What the human says of two calls."""
    changed: dict[str, Any] = {
        "type": "edit",
        "edited_action": {"name": "inspect", "args": {"number": 7_777}},
    }
    refused: dict[str, Any] = {"type": "reject", "message": "Not this one."}
    approved: dict[str, Any] = {"type": "approve"}
    return {
        "approve": [approved, approved],
        "edit": [changed, approved],
        "reject": [refused, approved],
        "reject all": [refused, refused],
    }[kind]


def resume(agent: Agent, decisions: list[dict[str, Any]], per_call: bool) -> Command[Any]:
    """The command that answers what the agent waits for."""
    if not per_call:
        return Command(resume={"decisions": decisions})
    waiting = [i.id for task in agent.get_state(config()).tasks for i in task.interrupts]
    assert len(waiting) == len(decisions)
    return Command(resume=dict(zip(waiting, decisions, strict=True)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_m11_calls_that_wait_for_a_human_are_governed_once(
    wire: str, order: str, way: str, memory: Memory
) -> None:
    """Six rounds, each decided in another way, far over the window's lines."""
    script = Recorder(two_calls_a_round)
    human = HumanInTheLoopMiddleware(interrupt_on={"inspect": True})
    events: list[Any] = []
    with StrictProvider(script, window=WINDOW) as provider:
        model = client(provider, wire, max_tokens=500)
        agent = agent_beside(model, memory, [human], order=order, tools=[inspect])
        for number, kind in enumerate(["approve", "edit", "reject", "reject all", "approve", "approve"]):
            before = asked(agent, f"Check {number}. Never restart the database.", way)
            steps = len(script.requests)
            assert agent.get_state(config()).interrupts
            after = streamed(agent, resume(agent, answers(kind), False), way)
            # What waited is not asked again, and the step before the interrupt is not governed again.
            assert len(script.requests) == steps + 1
            assert [e for e in kinds(before) if e == "request"] == ["request"]
            assert [e for e in kinds(after) if e == "request"] == ["request"]
            events += [*before, *after]
        clean_run(provider)
    assert ran.count(7_777) == 1
    assert len(ran) == 2 + 2 + 1 + 0 + 2 + 2
    assert of(events, "summarize"), "the session was long enough for a pass"
    firsts = [e["first"] for e in of(events, "intake")]
    assert firsts == sorted(set(firsts))
    numbered_once(messages_of(agent))
    each_once(memory)
    assert all("Never restart the database." in shown(request) for request in script.requests)
    refused = [m for m in archived(memory) if isinstance(m, ToolMessage) and m.status == "error"]
    assert len(refused) == 3


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("order", ORDERS)
def test_calls_that_wait_one_by_one_are_paired(order: str, way: str, memory: Memory) -> None:
    human = HumanInTheLoopMiddleware(interrupt_on={"inspect": True}, interrupt_mode="per_call")
    with StrictProvider(two_calls_a_round, window=WINDOW) as provider:
        agent = agent_beside(provider.openai(), memory, [human], order=order, tools=[inspect])
        for number, kind in enumerate(["approve", "edit", "reject"]):
            asked(agent, f"Check {number}.", way)
            streamed(agent, resume(agent, answers(kind), True), way)
        clean_run(provider)
    assert len(ran) == 5
    numbered_once(messages_of(agent))
    each_once(memory)


@pytest.mark.parametrize("way", WAYS)
def test_who_speaks_instead_of_deciding_leaves_a_request_that_is_valid(way: str, memory: Memory) -> None:
    """The calls stay open: the model is told so, and a later decision has nothing to resume."""
    human = HumanInTheLoopMiddleware(interrupt_on={"inspect": True})
    script = Recorder(
        lambda request: two_calls_a_round(request) if len(script.requests) < 2 else Reply("So.")
    )
    with StrictProvider(script, window=WINDOW) as provider:
        agent = agent_beside(provider.anthropic(max_tokens=500), memory, [human], tools=[inspect])
        asked(agent, "Check 0.", way)
        asked(agent, "Leave it. What did you want to look at?", way)
        clean_run(provider)
    assert not ran
    assert "this call was not answered" in shown(script.requests[-1])
    last = messages_of(agent)[-1]
    assert isinstance(last, AIMessage)
    assert last.text == "So."


@pytest.mark.parametrize("order", ORDERS)
def test_g9_a_stub_that_was_copied_into_a_call_is_refused_beside_approval(order: str, memory: Memory) -> None:
    stub = "⟦stored artifacts/ab/cdef · 900 tokens⟧"

    @tool
    def write(text: str) -> str:
        """Write a text."""
        ran.append(1)
        return "written"

    def script(request: Request) -> Reply:
        if request.messages[-1]["role"] == "tool":
            return Reply("I see.")
        return Reply("", (ToolCall("write", {"text": stub}),))

    human = HumanInTheLoopMiddleware(interrupt_on={"write": True})
    with StrictProvider(script, window=WINDOW) as provider:
        agent = agent_beside(provider.openai(), memory, [human], order=order, tools=[write])
        agent.invoke({"messages": [("user", "Write it.")]}, config())
        agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config())
    assert not ran
    (result,) = [m for m in messages_of(agent) if isinstance(m, ToolMessage)]
    assert result.status == "error"

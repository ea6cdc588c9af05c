"""Delegations that nobody waits for, and answers of a form: handles, notes, collect, cancel; schemas."""

import itertools
import threading
import time

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel

from headwater import Budget, Memory, SubAgent, WindowPolicy, build_agent
from headwater.graph.team import SubAgentUnknown
from headwater.lab.provider import Reply, Request, StrictProvider, ToolCall
from tests.graph.world import (
    WINDOW,
    Agent,
    Recorder,
    Script,
    clean_run,
    config,
    delegating,
    echo,
    results,
    says,
)

POLICY = WindowPolicy(window=WINDOW)


def agent_of(provider: StrictProvider, memory: Memory) -> Agent:
    scout = SubAgent("scout", "looks", "You scout.", policy=POLICY, budget=Budget(seconds=20))
    return build_agent(
        provider.openai(),
        system_prompt="You lead.",
        subagents=[scout],
        policy=POLICY,
        memory=memory,
        checkpointer=InMemorySaver(),
    )


def later(brief: str) -> ToolCall:
    return ToolCall("delegate", {"agent": "scout", "brief": brief, "wait": False})


def ended(agent: Agent, memory: Memory, handle: str) -> None:
    for _ in range(1_000):
        if memory.delegations.concluded(handle):
            return
        time.sleep(0.01)
    raise AssertionError(f"{handle} did not end")


def steps(*replies: Reply, child: Script) -> Script:
    left = list(replies)
    return lambda request: child(request) if "You scout" in request.system else left.pop(0)


def test_m26_a_note_arrives_on_a_later_step_and_nothing_moves(memory: Memory) -> None:
    gate = threading.Event()

    def child(request: Request) -> Reply:
        gate.wait(10)
        return Reply("The valve is open.")

    asked = Recorder(
        steps(
            Reply("", (later("look"), later("look"))),
            Reply("It is being looked at."),
            Reply("", (ToolCall("collect", {"handle": "t/2.1"}),)),
            Reply("The valve is open, I am told."),
            child=child,
        )
    )
    with StrictProvider(asked, window=WINDOW) as provider:
        agent = agent_of(provider, memory)
        state = agent.invoke(says("Have it looked at."), config())
        first, twin = results(state["messages"])
        assert "Handle: t/2.1" in str(first.content)
        assert "ran once" in str(twin.content)
        assert memory.delegations.concluded("t/2.1") is None
        gate.set()
        ended(agent, memory, "t/2.1")
        state = agent.invoke(says("And now?"), config())
        clean_run(provider)
    leads = [r.raw["messages"] for r in asked.requests if "You lead" in r.system]
    for one, next_one in itertools.pairwise(leads):
        assert next_one[: len(one)] == one
    assert "[background] t/2.1 (scout) ended: done. The valve is open." in str(leads[2][-1])
    assert "The valve is open." in str(list(results(state["messages"]))[-1].content)


def test_m26_a_background_child_is_checked_and_cancelled(memory: Memory) -> None:
    def child(request: Request) -> Reply:
        return Reply("late", delay=15)

    script = steps(
        Reply("", (later("look"),)),
        Reply("", (ToolCall("check", {"handle": "t/2.1"}),)),
        Reply("", (ToolCall("collect", {"handle": "t/2.1"}),)),
        Reply("", (ToolCall("cancel", {"handle": "t/2.1"}),)),
        Reply("", (ToolCall("check", {"handle": "t/2.1"}), ToolCall("check", {"handle": "x/1.1"}))),
        Reply("Left it."),
        child=child,
    )
    with StrictProvider(script, window=WINDOW) as provider:
        state = agent_of(provider, memory).invoke(says("Have it looked at."), config())
        assert provider.violations == []
    said = [str(m.content) for m in results(state["messages"])]
    assert "is at work" in said[1]
    assert "is at work" in said[2]
    assert said[3].startswith("[cancelled")
    assert "has ended: cancelled" in said[4]
    assert "no handle of this session" in said[5]


class Port(BaseModel):
    """An answer of a form."""

    name: str
    number: int


def which_port(memory: Memory, child: Script) -> ToolMessage:
    """What comes of a delegation whose answer must be a `Port`."""
    order = ToolCall("delegate", {"agent": "scout", "brief": "which port?"})
    with StrictProvider(delegating(child, order), window=WINDOW) as provider:
        scout = SubAgent("scout", "looks", "You scout.", output=Port, policy=POLICY)
        agent = build_agent(provider.openai(), subagents=[scout], policy=POLICY, memory=memory)
        state = agent.invoke(says("Which port?"), config())
        clean_run(provider)
    (found,) = results(state["messages"])
    return found


def test_m26_an_answer_of_a_form_is_validated_and_asked_for_again(memory: Memory) -> None:
    told = [Reply("It is port 80."), Reply('Here:\n```json\n{"name": "http", "number": 80}\n```')]

    def child(request: Request) -> Reply:
        assert '"number"' in request.system
        return told.pop(0)

    found = which_port(memory, child)
    assert found.artifact["status"] == "done"
    assert found.artifact["value"] == {"name": "http", "number": 80}
    assert found.artifact["usage"]["steps"] == 2


def test_m26_an_answer_of_no_form_is_partial_and_kept(memory: Memory) -> None:
    found = which_port(memory, lambda request: Reply("It is port 80."))
    assert found.artifact["status"] == "partial"
    assert "has not the form" in found.artifact["reason"]
    assert found.artifact["answer"] == "It is port 80."


def test_m26_pins_bind_a_child_and_artifacts_are_handed_on(memory: Memory) -> None:
    name = memory.artifacts.put("a long protocol")
    asked: list[str] = []

    def child(request: Request) -> Reply:
        asked.append(str(request.messages))
        return Reply("Seen.")

    briefs = ({"agent": "scout", "brief": "look", "artifacts": [one]} for one in (name, "nothing"))
    orders = [ToolCall("delegate", args) for args in briefs]
    with StrictProvider(delegating(child, *orders), window=WINDOW) as provider:
        agent = agent_of(provider, memory)
        state = agent.invoke(says("Look into it. Never touch the valve."), config())
        clean_run(provider)
    assert "Never touch the valve." in asked[0]
    assert f'file_read("{name}")' in asked[0]
    first, second = results(state["messages"])
    assert first.artifact["status"] == "done"
    assert second.artifact["status"] == "refused"


def test_m26_a_graph_of_ones_own_is_cut_by_its_purse(memory: Memory) -> None:
    """It is booked by the usage that its messages report, and keeps what it has said."""

    def say(state: MessagesState) -> dict[str, list[AIMessage]]:
        number = len(state["messages"])
        usage = UsageMetadata(input_tokens=400, output_tokens=100, total_tokens=500)
        return {"messages": [AIMessage(f"So far {number}.", usage_metadata=usage)]}

    graph = StateGraph(MessagesState)
    graph.add_node("say", say)
    graph.add_edge(START, "say")
    graph.add_conditional_edges("say", lambda state: "say")

    order = ToolCall("delegate", {"agent": "own", "brief": "talk"})
    with StrictProvider(delegating(echo, order), window=WINDOW) as provider:
        own = SubAgent("own", "talks", runnable=graph.compile(), budget=Budget(tokens=2_000))
        agent = build_agent(provider.openai(), subagents=[own], policy=POLICY, memory=memory)
        state = agent.invoke(says("Go."), config())
        clean_run(provider)
    (found,) = results(state["messages"])
    assert found.artifact["status"] == "partial"
    assert "budget of tokens" in found.artifact["reason"]
    assert found.artifact["answer"].startswith("So far ")
    assert 2_000 < found.artifact["usage"]["tokens"] <= 2_500


def test_a_team_with_a_name_that_nobody_has_is_refused_at_build_time(memory: Memory) -> None:
    with StrictProvider(lambda request: Reply("-"), window=WINDOW) as provider:
        lost = SubAgent("scout", "looks", subagents=["nobody"])
        with pytest.raises(SubAgentUnknown, match="'nobody'"):
            build_agent(provider.openai(), subagents=[lost], memory=memory)
        twice = [SubAgent("scout", "looks"), SubAgent("scout", "looks elsewhere")]
        with pytest.raises(SubAgentUnknown, match="two sub-agents"):
            build_agent(provider.openai(), subagents=twice, memory=memory)

"""Delegation: parallel sub-agents in windows of their own; only conclusions come back."""

import asyncio
import threading
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver

from headwater import Budget, Memory, SubAgent, WindowPolicy, build_agent
from headwater.lab.provider import Refuse, Reply, Request, StrictProvider, ToolCall
from headwater.nodes.subagent import MAX_CONCLUSION
from headwater.window import count_text
from tests.graph.world import (
    WINDOW,
    Agent,
    Recorder,
    Script,
    body,
    clean_run,
    client,
    config,
    inspector,
    last_text,
    of,
    results,
    says,
    shown,
    watch,
)

POLICY = WindowPolicy(window=WINDOW)


def order(brief: str, agent: str = "scout", call_id: str | None = None) -> ToolCall:
    return ToolCall("delegate", {"agent": agent, "brief": brief}, call_id)


def parent_and(child: Script, *rounds: tuple[ToolCall, ...]) -> Script:
    """A parent that delegates `rounds` one after another and then answers; children by their prompt."""
    left = [*(Reply("", calls) for calls in rounds), Reply("All concluded.")]

    def script(request: Request) -> Reply:
        return child(request) if "You scout" in request.system else left.pop(0)

    return script


def scouting(
    provider: StrictProvider, memory: Memory, *, tools: list[BaseTool] | None = None, **kw: Any
) -> Agent:
    spec = SubAgent("scout", "looks at one thing", "You scout.", tools or [inspector(300)], **kw)
    return build_agent(
        provider.openai(),
        system_prompt="You lead.",
        subagents=[spec],
        policy=POLICY,
        memory=memory,
        checkpointer=InMemorySaver(),
    )


def brief_of(request: Request) -> str:
    return str(request.messages[0]["text"]) if "§1§" in str(request.messages[0]["text"]) else shown(request)


def inspect_and_tell(request: Request) -> Reply:
    """Reads three units, then says what the brief was and what was found."""
    rows = [row for row in request.messages if row["role"] == "tool"]
    if len(rows) < 3:
        return Reply("", (ToolCall("inspect", {"number": len(rows)}),))
    return Reply(f"Looked into it ({brief_of(request).splitlines()[0][-8:]}): port 9001 is open.")


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_m26_a_sub_agent_returns_only_a_conclusion(memory: Memory, wire: str) -> None:
    """M26: the parent's log holds one result; what the child read and did is in the child's own archive."""
    asked = Recorder(parent_and(inspect_and_tell, (order("look at A"),)))
    with StrictProvider(asked, window=WINDOW) as provider:
        spec = SubAgent("scout", "looks", "You scout.", [inspector(300)])
        agent = build_agent(
            client(provider, wire, max_tokens=800),
            system_prompt="You lead.",
            subagents=[spec],
            policy=POLICY,
            memory=memory,
            checkpointer=InMemorySaver(),
        )
        state = agent.invoke(says("Delegate."), config())
        clean_run(provider)
    kinds = [m.type for m in state["messages"]]
    assert kinds == ["human", "ai", "tool", "ai"]
    (concluded,) = results(state["messages"])
    assert str(concluded.content).startswith("[done]")
    assert "port 9001 is open" in str(concluded.content)
    assert "checked part" not in str(concluded.content)
    assert concluded.artifact["usage"]["steps"] == 4
    leads = [shown(r) for r in asked.requests if "You lead" in r.system]
    assert all("checked part" not in text for text in leads)


def test_m25_m26_the_childs_whole_history_stays_in_its_archive(memory: Memory) -> None:
    """M26: its session is named in the conclusion, and its evidence opens there, byte for byte."""
    with StrictProvider(parent_and(inspect_and_tell, (order("look at A"),)), window=WINDOW) as provider:
        state = scouting(provider, memory).invoke(says("Delegate."), config())
    (concluded,) = results(state["messages"])
    session, evidence = concluded.artifact["session"], concluded.artifact["evidence"]
    assert session.startswith("t/")
    log = memory.archive.read(session, 1, memory.archive.last(session))
    assert [m.type for _, m in log] == ["human", "ai", "tool", "ai", "tool", "ai", "tool", "ai"]
    assert [memory.archive.get(session, tag).content for tag in sorted(evidence)] == [
        body(i, 300) for i in range(3)
    ]
    assert "KEY unit" not in " ".join(str(m.content) for m in state["messages"])


def test_the_parent_can_open_the_evidence_and_nobody_elses(memory: Memory) -> None:
    state: dict[str, Any] = {}

    def lead(request: Request) -> Reply:
        rows = [row["text"] for row in request.messages if row["role"] == "tool"]
        if "You scout" in request.system:
            return inspect_and_tell(request)
        if not rows:
            return Reply("", (order("look at A"),))
        if len(rows) == 1:
            return Reply("", (ToolCall("ctx_expand", {"tags": "3", "session": state["session"]}),))
        if len(rows) == 2:
            return Reply("", (ToolCall("ctx_expand", {"tags": "1", "session": "stranger"}),))
        return Reply("Done.")

    memory.archive.append("stranger", [AIMessage("a secret")])
    with StrictProvider(lambda r: lead(r), window=WINDOW) as provider:
        agent = scouting(provider, memory)
        for event in agent.stream(says("Delegate."), config(), stream_mode="custom"):
            if event["type"] == "headwater.conclusion":
                state["session"] = event["session"]
    own, opened, refused = results(agent.get_state(config()).values["messages"])
    assert own.name == "delegate"
    assert body(0, 300) in str(opened.content)
    assert refused.status == "error"
    assert "a secret" not in str(refused.content)


def test_case_41_parallel_children_all_come_back_each_to_its_call(memory: Memory) -> None:
    """Case 41: three at once, none answered before all have asked; each result answers its call."""
    meeting = threading.Barrier(3, timeout=60)

    def child(request: Request) -> Reply:
        meeting.wait()
        return Reply(f"Seen {brief_of(request).strip()[-1]}.")

    rounds = (
        order("look at A", call_id="a"),
        order("look at B", call_id="b"),
        order("look at C", call_id="c"),
    )
    with StrictProvider(parent_and(child, rounds), window=WINDOW) as provider:
        state = scouting(provider, memory).invoke(says("Delegate."), config())
        clean_run(provider)
    found = {m.tool_call_id: str(m.content).splitlines()[1] for m in results(state["messages"])}
    assert found == {"a": "Seen A.", "b": "Seen B.", "c": "Seen C."}
    assert last_text(state) == "All concluded."


def test_delegations_and_tools_in_one_message_are_all_answered(memory: Memory) -> None:
    calls = (order("look at A", call_id="a"), ToolCall("ctx_note", {"text": "Keep B2."}, "n"))
    with StrictProvider(parent_and(lambda r: Reply("Seen."), calls), window=WINDOW) as provider:
        state = scouting(provider, memory).invoke(says("Delegate and note."), config())
        clean_run(provider)
    assert {m.tool_call_id for m in results(state["messages"])} == {"a", "n"}


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_case_43_one_failure_and_one_hang_leave_the_siblings_alone(memory: Memory, way: str) -> None:
    """Case 43: ok, raise, hang with 1 second each: ok is kept, the others are text, and no task is left."""

    def child(request: Request) -> Reply:
        if "hang" in brief_of(request):
            return Reply("late", delay=4.0)
        if "raise" in brief_of(request):
            raise Refuse(500, {"error": {"message": "out of order", "type": "server_error"}})
        return Reply("Seen.")

    calls = (order("ok", call_id="ok"), order("raise", call_id="raise"), order("hang", call_id="hang"))
    with StrictProvider(parent_and(child, calls), window=WINDOW) as provider:
        agent = scouting(provider, memory, budget=Budget(seconds=1.0))
        before = asyncio.all_tasks()
        if way == "ainvoke":
            state = await agent.ainvoke(says("Delegate."), config())
        else:
            state = await asyncio.to_thread(agent.invoke, says("Delegate."), config())
        assert asyncio.all_tasks() <= before, "no task is left that was not there"
    found = {m.tool_call_id: m for m in results(state["messages"])}
    assert str(found["ok"].content).startswith("[done]")
    assert str(found["raise"].content).startswith("[failed")
    assert "out of order" in str(found["raise"].content)
    assert "1 s" in str(found["hang"].content)
    assert found["ok"].status == "success"
    assert found["raise"].status == "error"
    assert last_text(state) == "All concluded."


def test_case_40_an_empty_last_message_gives_the_last_text_that_says_something(memory: Memory) -> None:
    """Case 40: the child ends with ""; the parent gets its last non-empty text."""

    def child(request: Request) -> Reply:
        if any(row["role"] == "tool" for row in request.messages):
            return Reply("")
        return Reply("The answer is 42.", (ToolCall("inspect", {"number": 1}),))

    with StrictProvider(parent_and(child, (order("count"),)), window=WINDOW) as provider:
        state = scouting(provider, memory).invoke(says("Delegate."), config())
        clean_run(provider)
    (concluded,) = results(state["messages"])
    assert "The answer is 42." in str(concluded.content)


def test_case_40_a_child_that_says_nothing_gives_a_clear_notice(memory: Memory) -> None:
    with StrictProvider(parent_and(lambda r: Reply(""), (order("count"),)), window=WINDOW) as provider:
        state = scouting(provider, memory).invoke(says("Delegate."), config())
        clean_run(provider)
    (concluded,) = results(state["messages"])
    assert "gave no answer" in str(concluded.content)
    assert concluded.status == "error"


def test_a_spent_budget_of_steps_returns_what_was_done(memory: Memory) -> None:
    def child(request: Request) -> Reply:
        number = sum(row["role"] == "tool" for row in request.messages)
        return Reply(f"So far {number} units are fine.", (ToolCall("inspect", {"number": number}),))

    with StrictProvider(parent_and(child, (order("inspect all"),)), window=WINDOW) as provider:
        agent = scouting(provider, memory, budget=Budget(steps=3))
        state = agent.invoke(says("Delegate."), config())
        assert provider.totals().requests == 2 + 3
    (concluded,) = results(state["messages"])
    assert str(concluded.content).startswith("[partial: its budget of steps is spent]")
    assert "So far 2 units are fine." in str(concluded.content)
    assert concluded.artifact["usage"]["steps"] == 3


def test_a_spent_budget_of_tokens_returns_what_was_done(memory: Memory) -> None:
    def child(request: Request) -> Reply:
        number = sum(row["role"] == "tool" for row in request.messages)
        return Reply(f"So far {number} units are fine.", (ToolCall("inspect", {"number": number}),))

    with StrictProvider(parent_and(child, (order("inspect all"),)), window=WINDOW) as provider:
        agent = scouting(provider, memory, budget=Budget(tokens=4_000))
        state = agent.invoke(says("Delegate."), config())
    (concluded,) = results(state["messages"])
    assert str(concluded.content).startswith("[partial: its budget of tokens is spent]")


def test_a_long_answer_is_bounded_and_whole_in_an_artifact(memory: Memory) -> None:
    essay = "\n".join(f"Finding {i}: part {i} of the plant was looked at and is fine." for i in range(900))
    with StrictProvider(parent_and(lambda r: Reply(essay), (order("write"),)), window=64_000) as provider:
        spec = SubAgent("scout", "looks", "You scout.", policy=WindowPolicy(window=64_000))
        agent = build_agent(
            provider.openai(), subagents=[spec], policy=WindowPolicy(window=64_000), memory=memory
        )
        state = agent.invoke(says("Delegate."), config())
    (concluded,) = results(state["messages"])
    assert count_text(str(concluded.content)) < MAX_CONCLUSION + 300
    (name,) = concluded.artifact["artifacts"]
    assert f'file_read("{name}")' in str(concluded.content)
    assert memory.artifacts.read_text(name) == essay


def test_call_ids_that_repeat_never_share_a_session(memory: Memory) -> None:
    """Ids repeat across turns: the second child starts with its own brief and reports its own evidence."""
    asked = Recorder(
        parent_and(inspect_and_tell, (order("look at A", call_id="x"),), (order("look at B", call_id="x"),))
    )
    with StrictProvider(asked, window=WINDOW) as provider:
        state = scouting(provider, memory).invoke(says("Delegate."), config())
        clean_run(provider)
    first, second = (m.artifact for m in results(state["messages"]))
    assert first["session"] != second["session"]
    assert first["usage"]["steps"] == second["usage"]["steps"] == 4
    assert memory.archive.last(second["session"]) == 8


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"agent": "nobody", "brief": "x"}, "no sub-agent 'nobody'; there are: scout"),
        ({"agent": "scout", "brief": "  "}, "brief is empty"),
        ({"agent": "scout"}, "brief is empty"),
        ({}, "no sub-agent ''"),
    ],
)
def test_a_delegation_that_cannot_be_done_is_refused_in_words(
    memory: Memory, args: dict[str, Any], said: str
) -> None:
    script = parent_and(lambda r: Reply("never"), (ToolCall("delegate", args),))
    with StrictProvider(script, window=WINDOW) as provider:
        state = scouting(provider, memory).invoke(says("Delegate."), config())
        clean_run(provider)
    (refused,) = results(state["messages"])
    assert said in str(refused.content)
    assert refused.status == "error"


def test_a_child_lives_in_its_own_window_and_is_governed_too(memory: Memory) -> None:
    """A child that reads 12 × 1,100 tokens in an 8k window offloads on its own; the parent never notices."""

    def child(request: Request) -> Reply:
        number = sum(row["role"] == "tool" for row in request.messages)
        return Reply("", (ToolCall("inspect", {"number": number}),)) if number < 9 else Reply("Nine read.")

    with StrictProvider(parent_and(child, (order("read nine"),)), window=WINDOW) as provider:
        agent = scouting(provider, memory, tools=[inspector(700)])
        agent.invoke(says("Delegate."), config())
        clean_run(provider)
    session = memory.archive.sessions()[-1]
    log = [m.content for m in results([m for _, m in memory.archive.read(session, 1, 99)])]
    assert log == [body(i, 700) for i in range(9)]


def test_a_childs_brief_is_nobodys_rule(memory: Memory) -> None:
    """A model's brief is no user's word: its "never …" is pinned for the child, and no fact for ever."""
    script = parent_and(lambda r: Reply("Seen."), (order("Never read file Q. Look at A."),))
    with StrictProvider(script, window=WINDOW) as provider:
        scouting(provider, memory).invoke(says("Delegate. Never touch the valve."), config())
    facts = [fact.content for fact in memory.facts.list()]
    assert "Never touch the valve." in facts
    assert not any("file Q" in fact for fact in facts)


def test_the_childs_checkpoints_are_not_the_parents(memory: Memory) -> None:
    saver = InMemorySaver()
    spec = SubAgent("scout", "looks", "You scout.", [inspector(300)])
    with StrictProvider(parent_and(inspect_and_tell, (order("look"),)), window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(), subagents=[spec], policy=POLICY, memory=memory, checkpointer=saver
        )
        agent.invoke(says("Delegate."), config())
        for snapshot in agent.get_state_history(config()):
            for message in snapshot.values.get("messages", []):
                assert "checked part" not in str(message.content)
    assert list(saver.storage) == ["t"]


def test_the_childs_story_is_told_in_the_parents_stream(memory: Memory) -> None:
    calls = (order("look at A"), order("look at B"))
    with StrictProvider(parent_and(inspect_and_tell, calls), window=WINDOW) as provider:
        events = watch(scouting(provider, memory), says("Delegate."), config())
    begun, ended = of(events, "delegate"), of(events, "conclusion")
    assert {e["agent"] for e in begun} == {"scout"}
    assert {e["session"] for e in begun} == {e["session"] for e in ended}
    assert all(e["status"] == "done" for e in ended)


def test_a_tool_of_the_parents_is_not_the_childs(memory: Memory) -> None:
    @tool
    def launch(code: int) -> str:
        """Launch."""
        return "launched"

    asked = Recorder(parent_and(lambda r: Reply("Seen."), (order("look"),)))
    with StrictProvider(asked, window=WINDOW) as provider:
        spec = SubAgent("scout", "looks", "You scout.", [inspector()])
        agent = build_agent(provider.openai(), tools=[launch], subagents=[spec], policy=POLICY, memory=memory)
        agent.invoke(says("Delegate."), config())
    child = next(r for r in asked.requests if "You scout" in r.system)
    lead = next(r for r in asked.requests if "You scout" not in r.system)
    assert "launch" in lead.tools
    assert "launch" not in child.tools
    assert "delegate" not in child.tools

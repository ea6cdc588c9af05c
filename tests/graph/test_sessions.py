"""Sessions: a second run, a restart, time travel and forks on one thread, with the delta channels."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from headwater import Memory, WindowPolicy, build_agent
from headwater.lab.provider import Reply, StrictProvider, ToolCall
from headwater.nodes.engine import Engine
from headwater.nodes.recall import compartments
from headwater.window.frame import Frame
from headwater.window.marks import tag_of
from headwater.window.render import render
from tests.graph.world import (
    TIGHT,
    UNCACHED,
    WINDOW,
    Agent,
    Recorder,
    Script,
    body,
    calls_then,
    clean_run,
    config,
    echo,
    inspector,
    last_text,
    memory_in,
    of,
    says,
    shown,
    turns_of,
    watch,
)


def agent_at(
    provider: StrictProvider,
    memory: Memory,
    saver: BaseCheckpointSaver[Any] | None,
    policy: WindowPolicy = TIGHT,
    **kw: Any,
) -> Agent:
    return build_agent(
        provider.openai(), tools=[inspector(300)], policy=policy, memory=memory, checkpointer=saver, **kw
    )


def texts(agent: Agent, thread: str = "t") -> list[str]:
    return [str(m.text) for m in agent.get_state(config(thread)).values["messages"]]


def tags(agent: Agent, thread: str = "t") -> list[int]:
    return [tag_of(m) for m in agent.get_state(config(thread)).values["messages"]]


def test_a_second_run_continues_the_thread(memory: Memory) -> None:
    asked = Recorder(echo)
    with StrictProvider(asked, window=WINDOW, keep_raw=True) as provider:
        agent = agent_at(provider, memory, InMemorySaver())
        agent.invoke(says("one"), config())
        agent.invoke(says("two"), config())
        clean_run(provider)
    assert texts(agent) == ["one", "You said: one", "two", "You said: two"]
    assert tags(agent) == [1, 2, 3, 4]
    first, second = (r.raw["messages"] for r in asked.requests)
    assert second[: len(first)] == first, "the first request is a prefix of the second"


def test_two_threads_do_not_see_each_other(memory: Memory) -> None:
    asked = Recorder(echo)
    with StrictProvider(asked, window=WINDOW) as provider:
        agent = agent_at(provider, memory, InMemorySaver())
        agent.invoke(says("apples"), config("a"))
        agent.invoke(says("bananas"), config("b"))
    assert "apples" not in shown(asked.requests[-1])
    assert memory.archive.sessions() == ["a", "b"]


def test_case_46_a_fork_does_not_see_the_abandoned_branch(memory: Memory) -> None:
    """Case 46: turns 1 and 2, fork at 1 with new input; the request shows turn 1 and the new input only."""
    asked = Recorder(echo)
    with StrictProvider(asked, window=WINDOW) as provider:
        agent = agent_at(provider, memory, InMemorySaver())
        agent.invoke(says("turn one"), config())
        after_one = agent.get_state(config()).config
        agent.invoke(says("turn two, abandoned"), config())
        agent.invoke(says("turn two, again"), after_one)
        clean_run(provider)
    assert "abandoned" not in shown(asked.requests[-1])
    assert texts(agent) == ["turn one", "You said: turn one", "turn two, again", "You said: turn two, again"]
    assert tags(agent) == [1, 2, 5, 6], "a tag is never used twice in a session"
    log = [str(m.text) for _, m in memory.archive.read("t", 1, 9)]
    assert "turn two, abandoned" in log, "the abandoned branch stays in the log"


@pytest.mark.parametrize("saver", ["memory", "sqlite"])
def test_case_46_forks_with_edits_and_compartments(memory: Memory, tmp_path: Path, saver: str) -> None:
    """A fork before offloads and a compaction starts from the raw messages, and the trunk keeps its own."""

    def both(kept: BaseCheckpointSaver[Any]) -> None:
        asked = Recorder(turns_of(60))
        with StrictProvider(asked, window=WINDOW) as provider:
            agent = agent_at(provider, memory, kept)
            agent.invoke(says("Inspect unit 0."), config())
            early = agent.get_state(config()).config
            events = []
            for number in range(1, 19):
                events += watch(agent, says(f"Trunk order {number}."), config())
            assert of(events, "summarize")
            assert of(events, "offload")
            trunk = agent.get_state(config())
            before = len(asked.requests)
            agent.invoke(says("Fork order."), early)
            # Its first request: further on the fork may have to offload for itself.
            forked = asked.requests[before]
            assert "Trunk order" not in shown(forked)
            assert f"KEY unit 0 listens on port {9_000}" in shown(forked) or "line 0-0" in shown(forked)
            assert "⟦stored artifacts" not in shown(forked)
            agent.invoke(says("Back on the trunk."), trunk.config)
            back = asked.requests[-1]
            assert "Fork order" not in shown(back)
            assert "Trunk order 18." in shown(back)
            clean_run(provider)

    if saver == "memory":
        both(InMemorySaver())
    else:
        with SqliteSaver.from_conn_string(str(tmp_path / "c.sqlite")) as kept:
            both(kept)


def test_case_46_branches_that_take_turns_keep_their_own_history(memory: Memory) -> None:
    """M25: two branches of one thread, both compacted again and again; neither is told the other's past."""
    asked = Recorder(turns_of(200))
    with StrictProvider(asked, window=WINDOW) as provider:
        agent = agent_at(provider, memory, InMemorySaver())
        agent.invoke(says("Inspect unit 0."), config())
        ends = {"left": agent.get_state(config()).config, "right": agent.get_state(config()).config}
        told = dict.fromkeys(ends, 0)
        for number in range(26):
            for side in ends:
                said = says(f"On the {side} branch order {number}: use the {side} pump.")
                told[side] += len(of(watch(agent, said, ends[side]), "summarize"))
                ends[side] = agent.get_state(config()).config
                other = "right" if side == "left" else "left"
                assert f"{other} pump" not in shown(asked.requests[-1]), (side, number)
        clean_run(provider)
        assert min(told.values()) >= 2
        for side, end in ends.items():
            frame = Frame.from_state(agent.get_state(end).values["frame"])
            own = compartments(Engine(provider.openai(), memory), frame)
            assert own[0].first == 1
            assert own[-1].last == frame.boundary
            assert f"{side} pump" in " ".join(c.p1 for c in own)
            assert ("left pump" in " ".join(c.p1 for c in own)) == (side == "left")


def test_case_45_a_restart_shows_the_same_bytes(memory: Memory, tmp_path: Path) -> None:
    """Case 45: the reloaded view equals the live view, byte for byte, after offloads and a compaction."""
    path = str(tmp_path / "c.sqlite")

    def run(script: Script, orders: list[str], root: Path, *, restart: bool) -> tuple[list[Any], int]:
        asked = Recorder(script)
        told = 0
        with StrictProvider(asked, window=WINDOW) as provider:
            saver = SqliteSaver.from_conn_string(path if restart else ":memory:")
            with saver as kept, memory_in(root) as house:
                agent = agent_at(provider, house, kept)
                for order in orders[:-1]:
                    told += len(of(watch(agent, says(order), config()), "summarize"))
                if not restart:
                    agent.invoke(says(orders[-1]), config())
            if restart:
                with SqliteSaver.from_conn_string(path) as kept, memory_in(root) as house:
                    agent_at(provider, house, kept).invoke(says(orders[-1]), config())
        return asked.requests[-1].raw["messages"], told

    orders = [f"Order {i}." for i in range(20)]
    live, told = run(turns_of(60), orders, tmp_path / "live", restart=False)
    reloaded, _ = run(turns_of(60), orders, tmp_path / "reloaded", restart=True)
    assert told >= 1
    assert reloaded == live


def test_case_45_what_a_summary_replaced_does_not_come_back(memory: Memory, tmp_path: Path) -> None:
    path = str(tmp_path / "c.sqlite")
    asked = Recorder(turns_of(60))
    with StrictProvider(asked, window=WINDOW) as provider:
        with SqliteSaver.from_conn_string(path) as kept:
            agent = agent_at(provider, memory, kept)
            told = []
            for number in range(12):
                told += of(watch(agent, says(f"Order {number}."), config()), "summarize")
        with SqliteSaver.from_conn_string(path) as kept:
            state = agent_at(provider, memory, kept).get_state(config()).values
    assert min(tag_of(m) for m in state["messages"]) > told[-1]["last"]


def test_g39_a_second_session_starts_from_what_the_first_learned(memory: Memory) -> None:
    """G39, E19: the first request of a new session holds the facts of the one before."""
    asked = Recorder(echo)
    with StrictProvider(asked, window=WINDOW) as provider:
        agent = agent_at(provider, memory, InMemorySaver())
        agent.invoke(says("Set up the plant. Never use pump seven."), config("monday"))
        agent.invoke(says("Good morning."), config("tuesday"))
    assert "Never use pump seven." in shown(asked.requests[1])


def test_g39_a_fact_by_the_agent_reaches_the_next_session(memory: Memory) -> None:
    """C12, E19: `ctx_memory` writes at once; another process with the same folder reads it."""
    replies = iter(
        [
            Reply(
                "", (ToolCall("ctx_memory", {"action": "write", "content": "The API key lives in vault 9."}),)
            ),
            Reply("Noted."),
            Reply("Hello."),
        ]
    )
    asked = Recorder(lambda request: next(replies))
    with StrictProvider(asked, window=WINDOW) as provider:
        agent_at(provider, memory, None).invoke(says("Remember the vault."), config("one"))
        memory.close()
        with memory_in(memory.root) as again:
            agent_at(provider, again, None).invoke(says("Hi"), config("two"))
    assert "vault 9" in shown(asked.requests[-1])


def test_messages_handed_back_without_a_checkpointer_keep_their_numbers(memory: Memory) -> None:
    """The usual way without a checkpointer: the caller passes all messages again, with a thread's name."""
    asked = Recorder(echo)
    with StrictProvider(asked, window=WINDOW) as provider:
        agent = agent_at(provider, memory, None)
        state = agent.invoke(says("The goal is a bridge."), config())
        again = agent.invoke({"messages": [*state["messages"], HumanMessage("next")]}, config())
        clean_run(provider)
    assert [tag_of(m) for m in again["messages"]] == [1, 2, 3, 4]
    assert memory.archive.last("t") == 4
    assert again["frame"]["pins"][0][:3] == ["goal", "The goal is a bridge.", 1]


def test_messages_of_another_session_are_numbered_anew(memory: Memory) -> None:
    """Numbers from elsewhere would name other messages of this session: wrong read-backs."""
    with StrictProvider(echo, window=WINDOW) as provider:
        agent = agent_at(provider, memory, None)
        first = agent.invoke(says("one"))
        both = agent.invoke({"messages": [*first["messages"], HumanMessage("two")]})
        agent.invoke(says("elsewhere"), config("long"))
        agent.invoke({"messages": [*first["messages"], HumanMessage("three")]}, config("other"))
    assert [tag_of(m) for m in both["messages"]] == [1, 2, 3, 4]
    session = both["frame"]["session"]
    assert [str(m.text) for _, m in memory.archive.read(session, 1, 9)] == [
        "one",
        "You said: one",
        "two",
        "You said: two",
    ]
    assert memory.archive.last("other") == 4


def test_a_leading_system_message_is_the_contract_in_every_request(memory: Memory) -> None:
    asked = Recorder(calls_then(2))
    with StrictProvider(asked, window=WINDOW) as provider:
        agent = agent_at(provider, memory, InMemorySaver(), system_prompt="You inspect.")
        agent.invoke({"messages": [SystemMessage("House rule: be brief."), HumanMessage("Go.")]}, config())
        agent.invoke(says("More."), config())
        clean_run(provider)
    assert all(r.system.startswith("You inspect.") for r in asked.requests)
    assert all("House rule: be brief." in r.system for r in asked.requests)


def test_c15_the_request_before_a_compaction_can_be_built_again(memory: Memory) -> None:
    """C15: an auditor opens the checkpoint before the compaction and renders the bytes that were sent."""
    asked = Recorder(turns_of(60))
    with StrictProvider(asked, window=WINDOW) as provider:
        agent = agent_at(provider, memory, InMemorySaver())
        for number in range(9):
            agent.invoke(says(f"Order {number}."), config())
        checked = 0
        sent = {r.index: r.raw["messages"] for r in asked.requests}
        for snapshot in agent.get_state_history(config()):
            if snapshot.next != ("agent",):
                continue
            state = snapshot.values
            frame = Frame.from_state(state["frame"], state.get("edits"), state.get("hints"))
            engine = Engine(provider.openai(), memory, system=sent[0][0]["content"])
            built = render(frame, state["messages"], engine.texts(frame))
            payload = provider.openai()._get_request_payload(built)["messages"]
            assert payload in sent.values()
            checked += 1
    assert checked == len(sent)


def test_case_47_the_sync_saver_inside_a_running_loop_is_not_a_deadlock(memory: Memory) -> None:
    """Case 47: a sync invoke inside a running loop with an async-only saver raises; it never hangs."""

    async def attempt() -> str:
        async with AsyncSqliteSaver.from_conn_string(":memory:") as kept:
            agent = agent_at(provider, memory, kept)
            with pytest.raises(asyncio.InvalidStateError, match="Synchronous calls"):
                agent.invoke(says("one"), config())
            state = await agent.ainvoke(says("two"), config())
            return last_text(state)

    with StrictProvider(echo, window=WINDOW) as provider:
        answer = asyncio.run(asyncio.wait_for(attempt(), 20))
    assert answer == "You said: two"


async def test_case_48_a_cancelled_run_leaves_a_thread_that_goes_on(memory: Memory) -> None:
    """Case 48: cancelled during two tool calls; the next request answers each id, once."""
    started = asyncio.Event()
    ran: list[int] = []

    async def slow(number: int) -> str:
        """Take long."""
        ran.append(number)
        started.set()
        await asyncio.sleep(60)
        return "never"

    script = iter([Reply("", tuple(ToolCall("slow", {"number": i}) for i in range(2))), Reply("I went on.")])
    asked = Recorder(lambda request: next(script))
    with StrictProvider(asked, window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(), tools=[slow], policy=TIGHT, memory=memory, checkpointer=InMemorySaver()
        )
        task = asyncio.create_task(agent.ainvoke(says("Do two."), config()))
        await asyncio.wait_for(started.wait(), 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        state = await agent.ainvoke(says("Leave it."), config())
        clean_run(provider)
    assert last_text(state) == "I went on."
    assert sorted(ran) == [0, 1]
    answers = [row for row in asked.requests[-1].messages if row["role"] == "tool"]
    assert len(answers) == 2
    assert all("not answered" in row["text"] for row in answers)
    assert not any(word in row["text"] for row in answers for word in ("retry", "again", "re-run"))


def test_case_14_a_remedy_with_nothing_to_do_is_passed_over(memory: Memory) -> None:
    """Case 14: pressed with little to forget, the graph acts or goes on; it never turns in circles."""
    with StrictProvider(turns_of(30), window=WINDOW) as provider:
        agent = agent_at(
            provider, memory, InMemorySaver(), WindowPolicy(window=WINDOW, offload=0.12, compact=0.13)
        )
        events = watch(agent, says("Inspect unit 1."), config())
        clean_run(provider)
    per_step = 0
    for event in events:
        per_step = 0 if event["type"] == "headwater.request" else per_step + 1
        assert per_step < 10
    assert of(events, "request")


def test_checkpoints_do_not_grow_with_the_square_of_the_session(memory: Memory) -> None:
    """The state holds what a step adds: twice the steps write about twice the bytes, not four times."""
    sizes = {}
    for rounds in (20, 40):
        saver = InMemorySaver()
        with StrictProvider(calls_then(rounds), window=64_000) as provider:
            agent = agent_at(provider, memory, saver, WindowPolicy(window=64_000), prices=UNCACHED)
            agent.invoke(says("Go."), config(f"c{rounds}"))
        blobs = sum(len(blob) for _, blob in saver.blobs.values())
        writes = sum(len(w[2][1]) for kept in saver.writes.values() for w in kept.values())
        sizes[rounds] = blobs + writes
    assert sizes[40] < 2.9 * sizes[20]


def test_compartments_are_those_the_frame_names(memory: Memory) -> None:
    """What a run that was rolled back had told is not told to the one that took another way."""
    session = "s"
    memory.archive.append(session, [HumanMessage(f"m{i}", id=f"m{i}") for i in range(9)])
    ids = [
        memory.archive.put_compartment(session, {"first": a, "last": b, "title": t, "p1": f"{t} happened."})
        for a, b, t in [(1, 2, "shared"), (3, 5, "left"), (3, 7, "right")]
    ]
    with StrictProvider(echo, window=WINDOW) as provider:
        engine = Engine(provider.openai(), memory)
        left = Frame(session=session, boundary=8, told=(ids[0], ids[1]))
        right = Frame(session=session, boundary=7, told=(ids[0], ids[2]))
        assert [c.title for c in compartments(engine, left)] == ["shared", "left"]
        assert [c.title for c in compartments(engine, right)] == ["shared", "right"]


def test_results_are_paired_after_a_fork_with_repeated_call_ids(memory: Memory) -> None:
    """Ids repeat across branches; each branch's arc keeps the result it got."""
    script = iter(
        [
            Reply("", (ToolCall("inspect", {"number": 1}, "same"),)),
            Reply("One."),
            Reply("", (ToolCall("inspect", {"number": 2}, "same"),)),
            Reply("Two."),
        ]
    )
    asked = Recorder(lambda request: next(script))
    with StrictProvider(asked, window=WINDOW) as provider:
        agent = agent_at(provider, memory, InMemorySaver(), WindowPolicy(window=WINDOW))
        agent.invoke(says("Inspect one."), config())
        agent.invoke(says("Inspect two."), config())
        clean_run(provider)
    state = agent.get_state(config()).values["messages"]
    assert [m.content for m in state if isinstance(m, ToolMessage)] == [body(1, 300), body(2, 300)]

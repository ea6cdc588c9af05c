"""Forks, undo, suspended sessions: the trunk stays as it is, and what comes back is what was there."""

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from headwater import Memory, SubAgent, build_agent
from headwater.graph import sessions as s
from headwater.graph.build import engine_of
from headwater.lab.provider import Reply, Request, StrictProvider, ToolCall
from headwater.memory.kinship import may_open
from headwater.window.frame import Frame
from headwater.window.marks import tag_of
from headwater.window.render import render
from tests.graph.world import (
    TIGHT,
    WINDOW,
    Agent,
    Recorder,
    body,
    clean_run,
    config,
    delegating,
    echo,
    inspector,
    memory_in,
    results,
    says,
    turns_of,
)


def agent_of(provider: StrictProvider, memory: Memory, **kw: Any) -> Agent:
    return build_agent(
        provider.openai(),
        tools=[inspector(300)],
        policy=TIGHT,
        memory=memory,
        **{"checkpointer": InMemorySaver(), **kw},
    )


def rendered(agent: Agent, values: dict[str, Any]) -> list[Any]:
    frame = Frame.from_state(values["frame"], values.get("edits"), values.get("hints"))
    texts = engine_of(agent).texts(frame)
    return [(m.type, m.content) for m in render(frame, values["messages"], texts)]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a session of 500 messages: edits, stubs and compartments in it. It is led once."""
    root = tmp_path_factory.mktemp("long")
    saver = SqliteSaver.from_conn_string(str(root / "c.sqlite"))
    with StrictProvider(turns_of(400), window=WINDOW) as provider, memory_in(root) as memory, saver as opened:
        agent = agent_of(provider, memory, checkpointer=opened)
        for number in range(125):
            agent.invoke(says(f"Order {number}."), config())
        clean_run(provider)
    return root


@pytest.fixture
def long(kept: Path, memory: Memory) -> Any:
    """An agent that goes on with a copy of that session."""
    shutil.copytree(kept, memory.root, dirs_exist_ok=True)
    asked = Recorder(turns_of(400))
    saver = SqliteSaver.from_conn_string(str(memory.root / "c.sqlite"))
    with StrictProvider(asked, window=WINDOW) as provider, saver as opened:
        yield agent_of(provider, memory, checkpointer=opened), asked, provider


def test_m25_twenty_forks_of_a_500_message_session(long: Any, memory: Memory) -> None:
    """M25: each fork renders as the trunk did at that point, goes its own way, and leaves the trunk alone."""
    agent, asked, provider = long
    trunk = agent.get_state(config()).values
    last = max(map(tag_of, trunk["messages"]))
    assert last == 500
    before = rendered(agent, trunk)
    history: dict[int, dict[str, Any]] = {}
    for snapshot in agent.get_state_history(config(), limit=100):
        messages = snapshot.values.get("messages") or []
        if messages and all(map(tag_of, messages)) and not snapshot.next:
            history.setdefault(max(map(tag_of, messages)), snapshot.values)
    points = [*range(20, 480, 28), *sorted(history)[-3:]]
    assert len(points) == 20
    for at in points:
        conf = s.fork(agent, "t", at=at, name=f"f{at}")
        shelved = memory.shelf.get(f"f{at}")
        assert shelved is not None
        assert max(map(tag_of, shelved["messages"])) <= at
        if at in history:
            assert rendered(agent, shelved) == rendered(agent, history[at])
        agent.invoke(says(f"Fork order at {at}."), conf)
        assert memory.archive.last(f"f{at}") > max(map(tag_of, shelved["messages"]))
        assert f"Fork order at {at}." in str(asked.requests[-1].messages)
        assert "Order 124." not in str(asked.requests[-1].messages) or at > 495
    assert rendered(agent, agent.get_state(config()).values) == before
    assert memory.archive.last("t") == 500
    clean_run(provider)


def test_m25_a_fork_sends_the_trunks_prefix(memory: Memory) -> None:
    """The provider's cache serves a fork: what the trunk sent is the beginning of what the fork sends."""
    asked = Recorder(echo)
    with StrictProvider(asked, window=WINDOW) as provider:
        agent = agent_of(provider, memory)
        agent.invoke(says("one"), config())
        agent.invoke(says("two"), config())
        conf = s.fork(agent, "t", at=2)
        agent.invoke(says("another two"), conf)
    trunk, forked = asked.requests[1].raw["messages"], asked.requests[2].raw["messages"]
    assert forked[: len(trunk) - 1] == trunk[:-1]
    assert "another two" in str(forked[-1])


def test_m25_a_thousand_forks_cost_a_row_each_and_leave_no_orphan(long: Any, memory: Memory) -> None:
    agent, _, _ = long
    base = rows(memory.root / "archive.sqlite", "messages")
    for number in range(1_000):
        s.fork(agent, "t", name=f"f{number}")
    agent.invoke(says("Only this."), s.thread("f500"))
    assert rows(memory.root / "archive.sqlite", "messages") <= base + 8
    artifacts = stored(memory)
    assert artifacts
    for number in [*range(500), *range(501, 1_000)]:
        s.delete(agent, f"f{number}")
    s.delete(agent, "t")
    values = agent.get_state(s.thread("f500")).values
    assert rendered(agent, values), "nothing that the last fork shows is missing"
    for _, message in memory.archive.read("f500", 1, 600):
        assert message.type in ("human", "ai", "tool")
    assert [name for name, *_ in s.list_sessions(agent)] == ["f500"]
    s.delete(agent, "f500")
    assert stored(memory) == set()
    for table in ("messages", "sessions", "compartments", "blobs"):
        assert rows(memory.root / "archive.sqlite", table) == 0


def test_m25_a_branch_comes_back_as_a_conclusion(memory: Memory) -> None:
    asked = Recorder(lambda request: reply(request))

    def reply(request: Request) -> Reply:
        last = request.messages[-1]
        if last["role"] == "user" and "Inspect" in last["text"]:
            return Reply("", (ToolCall("inspect", {"number": 7}),))
        if last["role"] == "user" and "conclusion of" in str(request.messages):
            return Reply("I know now.")
        return Reply("Unit 7 is well.")

    with StrictProvider(asked, window=WINDOW) as provider:
        agent = agent_of(provider, memory)
        agent.invoke(says("Hello."), config())
        branch = s.fork(agent, "t", name="side")
        agent.invoke(says("Inspect unit 7."), branch)
        found = s.conclude(agent, "side", into="t")
        agent.invoke(says("Go on."), config())
        clean_run(provider)
    assert found.status == "done"
    assert found.answer == "Unit 7 is well."
    assert [memory.archive.get("side", tag).content for tag in found.evidence] == [body(7, 300)]
    assert "conclusion of side" in str(asked.requests[-1].messages)
    assert may_open(memory, "t", "side")
    assert not may_open(memory, "side", "elsewhere")


def test_m25_an_undone_compaction_is_in_the_tail_again(memory: Memory) -> None:
    asked = Recorder(turns_of(60))
    with StrictProvider(asked, window=WINDOW) as provider:
        agent = agent_of(provider, memory)
        number = 0
        while not (agent.get_state(config()).values.get("frame") or {}).get("told"):
            agent.invoke(says(f"Order {number}."), config())
            number += 1
        before = agent.get_state(config()).values["frame"]
        back = s.undo(agent, "t")
        state = agent.get_state(config()).values
        clean_run(provider)
    assert back > 0
    tags = [tag_of(m) for m in state["messages"]]
    assert tags == sorted(tags)
    assert state["frame"]["boundary"] < before["boundary"]
    assert state["frame"]["told"] == before["told"][:-1]
    log = dict(memory.archive.read("t", 1, 99))
    for message in state["messages"][:back]:
        assert message.content == log[tag_of(message)].content
    assert s.undo(agent, "t") == 0 or before["told"][:-1]


def test_e18_a_suspended_task_is_one_line_and_comes_back_exactly(long: Any, memory: Memory) -> None:
    """E18: on a switch the old task is folded to one line; resumed, the next request continues its bytes."""
    agent, asked, provider = long
    before = agent.get_state(config()).values
    other = s.switch(agent, "t", "other")
    assert not agent.get_state(config()).values
    (line,) = [one for one in s.list_sessions(agent) if one.name == "t"]
    assert line.suspended
    assert "\n" not in line.line
    assert "Order 0." in line.line
    agent.invoke(says("A different task."), other)
    assert "Order 124." not in str(asked.requests[-1].messages)
    conf = s.switch(agent, "other", "t")
    after = agent.get_state(conf).values
    assert rendered(agent, after) == rendered(agent, before)
    agent.invoke(says("Where were we?"), conf)
    assert "Order 124." in str(asked.requests[-1].messages)
    clean_run(provider)


def test_e18_a_suspended_task_is_taken_up_by_just_working_on_it(memory: Memory) -> None:
    asked = Recorder(echo)
    with StrictProvider(asked, window=WINDOW) as provider:
        agent = agent_of(provider, memory)
        agent.invoke(says("one"), config())
        assert s.suspend(agent, "t") == "one → You said: one"
        assert s.suspend(agent, "t") == "one → You said: one"
        state = agent.invoke(says("two"), config())
        clean_run(provider)
    assert [str(m.text) for m in state["messages"]] == ["one", "You said: one", "two", "You said: two"]
    first, second = (r.raw["messages"] for r in asked.requests)
    assert second[: len(first)] == first


def test_deleting_frees_the_sub_agents_that_only_it_refers_to(memory: Memory) -> None:
    script = delegating(lambda request: Reply("Seen."))
    with StrictProvider(script, window=WINDOW) as provider:
        scout = SubAgent("scout", "looks", "You scout.")
        agent = agent_of(provider, memory, subagents=[scout])
        state = agent.invoke(says("Delegate."), config())
        (found,) = results(state["messages"])
        child = found.artifact["session"]
        s.fork(agent, "t", name="late")
        s.fork(agent, "t", at=1, name="early")
        assert [one.name for one in s.list_sessions(agent)] == ["t", "late", "early"]
        s.delete(agent, "t")
        assert child in memory.archive.sessions(), "the late fork refers to it"
        assert may_open(memory, "late", child)
        assert not may_open(memory, "early", child)
        s.delete(agent, "late")
    assert child not in memory.archive.sessions()
    assert memory.archive.sessions() == ["early"]


def test_what_cannot_be_done_is_said(memory: Memory) -> None:
    with StrictProvider(echo, window=WINDOW) as provider:
        agent = agent_of(provider, memory)
        for call in (s.fork, s.suspend, s.resume):
            with pytest.raises(s.SessionError, match="nobody"):
                call(agent, "nobody")
        with pytest.raises(TypeError, match="build_agent"):
            s.fork(object(), "t")


def rows(path: Path, table: str) -> int:
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    finally:
        connection.close()


def stored(memory: Memory) -> set[str]:
    return {p.name for p in (memory.root / "artifacts").rglob("*") if p.is_file()}

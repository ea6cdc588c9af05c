"""The log is forever, the window is a view: what a request shows is numbered, and opens to what came."""

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver

from headwater import Memory, WindowPolicy, build_agent
from headwater.lab.provider import Reply, StrictProvider, ToolCall
from headwater.window.stubs import is_only_stub
from tests.graph.world import (
    WINDOW,
    Recorder,
    body,
    calls_then,
    clean_run,
    config,
    inspector,
    results,
    says,
    shown,
)


def test_m1_the_request_is_rebuilt_and_the_log_is_never_edited(memory: Memory) -> None:
    """M1: what was offloaded, told and dropped stands in the archive as it came."""
    with StrictProvider(calls_then(24), window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(),
            tools=[inspector(500)],
            policy=WindowPolicy(window=WINDOW),
            memory=memory,
            checkpointer=InMemorySaver(),
        )
        agent.invoke(says("Inspect all."), config())
        clean_run(provider)
    log = memory.archive.read("t", 1, memory.archive.last("t"))
    assert [tag for tag, _ in log] == list(range(1, 51))
    assert [m.content for m in results([m for _, m in log])] == [body(i, 500) for i in range(24)]


def test_offloaded_results_are_stubs_that_name_their_own_bytes(memory: Memory) -> None:
    """M9, M10: each stub in the last request opens, by the path it names, to what its tool returned."""
    asked = Recorder(calls_then(8))
    with StrictProvider(asked, window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(), tools=[inspector()], policy=WindowPolicy(window=WINDOW), memory=memory
        )
        agent.invoke(says("Inspect."), config())
    texts = [row["text"] for row in asked.requests[-1].messages if row["role"] == "tool"]
    stubs = [text.split(" ", 1)[1] for text in texts if is_only_stub(text.split(" ", 1)[1])]
    assert len(stubs) >= 5
    for number, stub in enumerate(stubs):
        assert len(stub.encode()) <= 2_048
        name = stub.split()[1]
        assert memory.artifacts.read_text(name) == body(number)


def test_a_stub_copied_into_an_argument_is_refused(memory: Memory) -> None:
    """A write whose content is a stub would destroy the file (GH#374); it never runs."""
    ran: list[int] = []

    def write(content: str) -> str:
        """Write the file."""
        ran.append(len(content))
        return "written"

    asked = Recorder(lambda request: next(replies))
    with StrictProvider(asked, window=32_000) as provider:
        stub = '⟦stored artifacts/ab/abcd.txt 9 chars, 1 lines; read it back: ctx_expand("3")⟧'
        replies = iter([Reply("", (ToolCall("write", {"content": stub}),)), Reply("I see.")])
        agent = build_agent(provider.openai(), tools=[write], memory=memory)
        state = agent.invoke(says("Copy it."), config())
    assert ran == []
    (refusal,) = results(state["messages"])
    assert refusal.status == "error"
    assert "ctx_expand" in str(refusal.content)


def test_an_answer_is_numbered_and_archived_too(memory: Memory) -> None:
    with StrictProvider(calls_then(0, "Hello."), window=WINDOW) as provider:
        agent = build_agent(provider.openai(), memory=memory)
        agent.invoke(says("Hi"), config())
    log = memory.archive.read("t", 1, 9)
    assert [(tag, m.type) for tag, m in log] == [(1, "human"), (2, "ai")]
    assert isinstance(log[1][1], AIMessage)


def test_parallel_calls_in_one_message_all_come_back(memory: Memory) -> None:
    with StrictProvider(calls_then(12, each=4), window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(), tools=[inspector(100)], policy=WindowPolicy(window=WINDOW), memory=memory
        )
        state = agent.invoke(says("Inspect in fours."), config())
        clean_run(provider)
    assert [m.content for m in results(state["messages"])] == [body(i, 100) for i in range(12)]


def test_a_mid_session_system_message_is_sent_as_a_users(memory: Memory) -> None:
    asked = Recorder(calls_then(0, "Yes."))
    with StrictProvider(asked, window=WINDOW) as provider:
        agent = build_agent(provider.openai(), memory=memory, system_prompt="Be brief.")
        messages: list[Any] = [
            HumanMessage("a"),
            AIMessage("b"),
            SystemMessage("mode: night"),
            HumanMessage("c"),
        ]
        agent.invoke({"messages": messages}, config())
        clean_run(provider)
    assert "[system] mode: night" in shown(asked.requests[0])


def test_g39_an_archived_fact_is_not_recalled(memory: Memory) -> None:
    """Users' 36: what was archived stays out of a new session's first request, and out of the list."""
    kept = memory.facts.write("Pump P-7 is in hall 3.", "ARCHITECTURE")
    gone = memory.facts.write("Pump P-7 is in hall 1.", "ARCHITECTURE")
    memory.facts.archive(gone.id)
    script = [Reply("", (ToolCall("ctx_memory", {"action": "list"}),)), Reply("In hall 3.")]
    with StrictProvider(script, keep_raw=True) as provider:
        agent = build_agent(provider.openai(), memory=memory)
        state = agent.invoke(says("Where is P-7?"), config())
        first = (provider.requests[0].raw or b"").decode()
    assert kept.content in first
    assert gone.content not in first
    listed = next(str(m.content) for m in state["messages"] if m.type == "tool")
    assert kept.content in listed
    assert gone.content not in listed

"""`ctx_reduce` queues, never edits: what is named leaves on a busting pass, outside the protected zone."""

from itertools import pairwise
from pathlib import Path

from langchain_core.tools import tool

from headwater import Memory, WindowPolicy, build_agent
from headwater.lab import Reply, Request, StrictProvider, ToolCall

ASKED_AT = 12


@tool
def look(q: str) -> str:
    """Look something up."""
    return f"{q} " + "some longer text here " * 30


def script(request: Request) -> Reply:
    steps = sum(m["role"] == "assistant" for m in request.messages)
    if steps == ASKED_AT:
        return Reply(
            tool_calls=(ToolCall("ctx_reduce", {"tags": "§3§"}), ToolCall("ctx_reduce", {"tags": "999"}))
        )
    if steps == 2 * ASKED_AT:
        return Reply("done")
    return Reply(tool_calls=(ToolCall("look", {"q": str(steps)}),))


def test_g9_ctx_reduce_only_queues_and_refuses_unknown_tags(tmp_path: Path) -> None:
    with StrictProvider(script) as provider, Memory(tmp_path) as memory:
        agent = build_agent(
            provider.openai(), tools=[look], memory=memory, policy=WindowPolicy(window=64_000)
        )
        state = agent.invoke({"messages": [("user", "go")]}, {"recursion_limit": 1_000})
        sent = list(provider.requests)
    answers = [m.text for m in state["messages"] if m.type == "tool" and m.name == "ctx_reduce"]
    assert "marked" in answers[0]
    assert "§999§" in answers[1]
    assert state["frame"]["pending"][3][0] == "drop"
    assert not state.get("edits"), "a warm cache is not broken for it"
    for earlier, later in pairwise(sent):
        assert later.cached_tokens == earlier.input_tokens, "each request extends the one before"

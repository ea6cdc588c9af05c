"""`langgraph dev` on the repository's langgraph.json, spoken to by the SDK: threads, streaming, interrupts,
forks, and our events.
"""

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from headwater.lab.provider import Reply, Request, StrictProvider, ToolCall
from headwater.nodes.event_types import event_of
from tests.graph.dev_server import ROOT, dev_server, needs_server
from tests.graph.world import kinds

pytestmark = needs_server


def script(request: Request) -> Reply:
    """Look at a folder, ask the user, conclude with what the user said; greet without a task."""
    rows = request.messages
    since = max(n for n, row in enumerate(rows) if row["role"] == "user")
    said, results = rows[since]["text"], [row["text"] for row in rows[since:] if row["role"] == "tool"]
    if "explore" not in said:
        return Reply(f"You said: {said}")
    if not results:
        return Reply("Looking.", (ToolCall("list_dir", {"path": "."}),))
    if len(results) == 1:
        return Reply("", (ToolCall("ask_user", {"question": "Which package first?"}),))
    return Reply(f"The user wants: {results[1]}")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("studio")
    shutil.copy(ROOT / "langgraph.json", folder)
    (folder / "examples").symlink_to(ROOT / "examples")
    with StrictProvider(script, window=32_000) as provider:
        settings = {
            "HEADWATER_MODEL": "openai:strict-main",
            "HEADWATER_MEMORY": str(folder / "memory"),
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": f"{provider.url}/v1",
        }
        with dev_server(folder, settings) as address:
            yield address
        assert provider.violations == []


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    from langgraph_sdk import get_sync_client

    with get_sync_client(url=url) as opened:
        yield opened


def says(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def test_the_file_names_graphs_that_are_there() -> None:
    served = json.loads((ROOT / "langgraph.json").read_text("utf-8"))
    for graph in served["graphs"].values():
        path, _, name = graph["path"].partition(":")
        assert f"\n{name} = " in (ROOT / path).read_text("utf-8")


def test_the_graph_is_listed_and_drawn(client: Any) -> None:
    (assistant,) = client.assistants.search(graph_id="demo")
    drawn = client.assistants.get_graph(assistant["assistant_id"])
    assert {"intake", "watermark", "agent", "subagent"} <= {str(node["id"]) for node in drawn["nodes"]}


def test_a_thread_keeps_its_session_and_streams_our_events(client: Any) -> None:
    thread = client.threads.create()["thread_id"]
    events = []
    words = ""
    for part in client.runs.stream(
        thread, "demo", input=says("Good morning"), stream_mode=["custom", "messages-tuple"]
    ):
        assert part.event != "error", part.data
        if part.event == "custom":
            events.append(part.data)
        elif part.event == "messages" and part.data[0]["type"] == "AIMessageChunk":
            words += part.data[0]["content"]
    assert "You said:" in words
    for event in events:
        assert event_of(event)["session"] == thread
    assert {"intake", "watermark", "request", "spending"} <= set(kinds(events))
    client.runs.wait(thread, "demo", input=says("Good night"))
    values = client.threads.get_state(thread)["values"]
    assert [m["type"] for m in values["messages"]] == ["human", "ai", "human", "ai"]
    assert values["frame"]["session"] == thread


def test_an_interrupt_waits_for_the_user_and_is_resumed(client: Any) -> None:
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "demo", input=says("Please explore."))
    state = client.threads.get_state(thread)
    assert state["next"] == ["tools"]
    (waiting,) = state["interrupts"]
    assert waiting["value"] == {"question": "Which package first?"}
    done = client.runs.wait(thread, "demo", command={"resume": "langgraph"})
    assert "The user wants:" in done["messages"][-1]["content"]
    assert "langgraph" in done["messages"][-1]["content"]


def test_a_fork_goes_its_own_way_and_leaves_the_first_as_it_was(client: Any) -> None:
    thread = client.threads.create()["thread_id"]
    for text in ("first", "second"):
        client.runs.wait(thread, "demo", input=says(text))
    before = client.threads.get_state(thread)["values"]["messages"]
    past = next(
        state
        for state in client.threads.get_history(thread, limit=50)
        if not state["next"] and len(state["values"]["messages"]) == 2
    )
    client.runs.wait(thread, "demo", input=says("another"), checkpoint=past["checkpoint"])
    forked = client.threads.get_state(thread)["values"]["messages"]
    assert [m["content"] for m in forked[:2]] == [m["content"] for m in before[:2]]
    assert "another" in forked[2]["content"]
    assert "another" in forked[3]["content"]
    copy = client.threads.copy(thread)["thread_id"]
    client.runs.wait(copy, "demo", input=says("in the copy"))
    assert len(client.threads.get_state(copy)["values"]["messages"]) == 6
    assert client.threads.get_state(thread)["values"]["messages"] == forked

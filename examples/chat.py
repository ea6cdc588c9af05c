"""A chat agent composed by hand: governed nodes in a graph with a state and a node of its own.

    python examples/chat.py                          a scripted model behind a strict local server
    python examples/chat.py --model openai:gpt-5.4   your own, with its key in the environment

The manual it looks things up in is many times larger than its window. What the user laid down in the first
message is in sight to the end.
"""

import tempfile
from typing import Annotated, Any, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from headwater import Memory, WindowPolicy
from headwater.graph.compose import parts
from headwater.lab.provider import Reply, Request, ToolCall
from headwater.lab.stage import model_option, staged
from headwater.nodes import onward, route

WINDOW = 8_192
QUESTIONS = [
    "I look after pump 7. Never suggest opening valve V-31. What does chapter 1 say?",
    *(f"And chapter {number}?" for number in range(2, 13)),
    "What must you never suggest?",
]


class Chat(TypedDict):
    """The graph's own state; the governed nodes add their channels to it."""

    messages: Annotated[list[AnyMessage], add_messages]
    turns: int


@tool
def chapter(number: int) -> str:
    """Read a chapter of the manual."""
    lines = [f"{number}.{line} Check part {line}, note what it shows, go on." for line in range(1, 61)]
    return "\n".join([f"Chapter {number}", *lines])


def count(state: Chat) -> dict[str, int]:
    """A node of one's own, before the governed ones."""
    return {"turns": state.get("turns", 0) + 1}


def chat(model: BaseChatModel, memory: Memory) -> Any:
    """The graph."""
    made = parts(
        model,
        tools=[chapter],
        system_prompt="You answer from the manual.",
        policy=WindowPolicy(window=WINDOW),
        memory=memory,
    )
    graph = StateGraph(Chat)
    graph.add_node("count", count)
    for name, node in made.nodes().items():
        if name != "subagent":
            graph.add_node(name, node)
    graph.add_edge(START, "count")
    graph.add_edge("count", "intake")
    graph.add_edge("intake", "watermark")
    graph.add_conditional_edges("watermark", route, ["agent", "offload", "summarize", "reclaim", "halt"])
    for remedy in ("offload", "summarize", "reclaim"):
        graph.add_edge(remedy, "watermark")
    graph.add_conditional_edges("agent", onward(made.engine), ["tools", "remember", "watermark"])
    graph.add_edge("tools", "intake")
    graph.add_edge("remember", END)
    graph.add_edge("halt", END)
    return graph.compile(checkpointer=InMemorySaver())


def script(request: Request) -> Reply:
    """What the model says offline: it reads the chapter that is asked for, then answers from what it sees."""
    asked = max(n for n, row in enumerate(request.messages) if row["role"] == "user" and "?" in row["text"])
    question = request.messages[asked]["text"]
    if "chapter" not in question:
        seen = any("Never suggest opening valve V-31" in row["text"] for row in request.messages)
        return Reply("Opening valve V-31." if seen else "I do not know any more.")
    if not any(row["role"] == "tool" for row in request.messages[asked:]):
        number = int(question.rpartition("chapter ")[2].partition("?")[0].partition(" ")[0])
        return Reply("", (ToolCall("chapter", {"number": number}),))
    return Reply("It says to check every part and to note what it shows.")


def main(model: str | None) -> dict[str, Any]:
    """Ask all the questions; the last state, with the largest request in tokens."""
    config: Any = {"configurable": {"thread_id": "chat"}}
    largest = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory(folder) as memory,
        staged(model, script, window=WINDOW) as chosen,
    ):
        agent = chat(chosen, memory)
        for question in QUESTIONS:
            for event in agent.stream({"messages": [("user", question)]}, config, stream_mode="custom"):
                if event["type"] == "headwater.request":
                    largest = max(largest, event["tokens"])
            state = agent.get_state(config).values
            print(f"user: {question}\nagent: {state['messages'][-1].text}")
    print(f"{state['turns']} turns; the largest request had {largest:,} tokens of {WINDOW:,}.")
    return {**state, "largest": largest}


if __name__ == "__main__":
    main(model_option(__doc__))

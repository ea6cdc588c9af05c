"""A long-running monitor composed by hand: no user, a reading at each tick, the same window for ever.

    python examples/monitor.py                          a scripted model behind a strict local server
    python examples/monitor.py --model openai:gpt-5.4   your own, with its key in the environment

It is stopped in the middle and goes on from its checkpoint, as after a restart.
"""

import sqlite3
import tempfile
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from headwater import Memory, WindowPolicy
from headwater.graph.compose import parts
from headwater.lab.provider import Reply, Request, ToolCall
from headwater.lab.stage import model_option, staged
from headwater.nodes import onward, route

WINDOW = 8_192
TICKS = 40
HOT = (13, 29)


class Watch(TypedDict):
    """The graph's own state; the governed nodes add their channels to it."""

    messages: Annotated[list[AnyMessage], add_messages]
    until: int
    tick: int
    ticks: Annotated[list[int], add]


@tool
def alarm(tick: int, sensor: int) -> str:
    """Raise an alarm."""
    return f"The alarm of tick {tick} was raised."


def reading(tick: int) -> str:
    """What the sensors show at a tick."""
    rows = (
        f"sensor {n}: {95 if tick in HOT and n == 5 else 40 + (tick * n) % 20} degrees" for n in range(30)
    )
    return "\n".join([f"Tick {tick}", *rows])


def observe(state: Watch) -> dict[str, Any]:
    """A node of one's own: the next reading is the next message. The first says what the task is."""
    tick = state.get("tick", 0) + 1
    task = "Watch the sensors. You must raise an alarm above 90 degrees. " if tick == 1 else ""
    return {"tick": tick, "ticks": [tick], "messages": [HumanMessage(f"{task}{reading(tick)}")]}


def monitor(model: BaseChatModel, memory: Memory, saver: Any) -> Any:
    """The graph: round and round until the tick in `until`."""
    made = parts(
        model,
        tools=[alarm],
        system_prompt="You monitor sensors.",
        policy=WindowPolicy(window=WINDOW),
        memory=memory,
    )
    graph = StateGraph(Watch)
    graph.add_node("observe", observe)
    for name, node in made.nodes().items():
        if name != "subagent":
            graph.add_node(name, node)
    graph.add_edge(START, "observe")
    graph.add_edge("observe", "intake")
    graph.add_edge("intake", "watermark")
    graph.add_conditional_edges("watermark", route, ["agent", "offload", "summarize", "reclaim", "halt"])
    for remedy in ("offload", "summarize", "reclaim"):
        graph.add_edge(remedy, "watermark")
    graph.add_conditional_edges("agent", onward(made.engine), ["tools", "remember", "watermark"])
    graph.add_edge("tools", "intake")
    graph.add_conditional_edges("remember", again, ["observe", END])
    graph.add_edge("halt", END)
    return graph.compile(checkpointer=saver)


def again(state: Watch) -> str:
    """The edge behind a round: the next tick, or the end."""
    return "observe" if state["tick"] < state["until"] else END


def script(request: Request) -> Reply:
    """What the model says offline: an alarm where the newest reading is hot, if it still knows its task."""
    newest = max(n for n, row in enumerate(request.messages) if "Tick " in row["text"])
    text = request.messages[newest]["text"]
    tick = int(text.rpartition("Tick ")[2].split()[0])
    if not any("alarm above 90" in row["text"] for row in request.messages):
        return Reply("I do not know what to do with this.")
    if ": 95 degrees" in text and not any(row["role"] == "tool" for row in request.messages[newest:]):
        return Reply("", (ToolCall("alarm", {"tick": tick, "sensor": 5}),))
    return Reply(f"Tick {tick} is seen to.")


def main(model: str | None) -> dict[str, Any]:
    """Watch, stop, go on; the last state, with the largest request in tokens and the alarms raised."""
    config: Any = {"configurable": {"thread_id": "watch"}, "recursion_limit": 20 * TICKS}
    largest, alarms = 0, 0
    with tempfile.TemporaryDirectory() as folder, staged(model, script, window=WINDOW) as chosen:
        for until in (TICKS // 2, TICKS):
            # Opened anew each time, as another process would.
            database = sqlite3.connect(Path(folder) / "checkpoints.sqlite", check_same_thread=False)
            with Memory(folder) as memory:
                agent = monitor(chosen, memory, SqliteSaver(database))
                for mode, part in agent.stream(
                    {"until": until}, config, stream_mode=["custom", "updates"], durability="exit"
                ):
                    if mode == "custom" and part["type"] == "headwater.request":
                        largest = max(largest, part["tokens"])
                    elif mode == "updates" and "tools" in part:
                        alarms += len(part["tools"]["messages"])
                state = agent.get_state(config).values
            database.close()
            print(f"stopped after tick {state['tick']}; {len(state['messages'])} messages in the tail")
    print(f"{alarms} alarms; the largest request had {largest:,} tokens of {WINDOW:,}.")
    return {**state, "largest": largest, "alarms": alarms}


if __name__ == "__main__":
    main(model_option(__doc__))

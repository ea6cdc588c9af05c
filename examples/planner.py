"""A planner with workers, composed by hand on a pydantic state: plan, delegate in parallel, collect.

    python examples/planner.py                          a scripted model behind a strict local server
    python examples/planner.py --model openai:gpt-5.4   your own, with its key in the environment

Each worker has a window of its own. Only its conclusion comes back, and the graph's own node notes it.
"""

import tempfile
from typing import Annotated, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from pydantic import BaseModel

from headwater import Budget, Memory, SubAgent, WindowPolicy
from headwater.graph.compose import parts
from headwater.lab.provider import Reply, Request, ToolCall
from headwater.lab.stage import model_option, staged
from headwater.nodes import onward, route

WINDOW = 16_384
GOAL = "Find out which of our three services logs the most errors."
SERVICES = ("billing", "search", "mail")
ERRORS = {"billing": 12, "search": 41, "mail": 3}


class Plan(BaseModel):
    """The graph's own state, as a pydantic model; the governed nodes add their channels to it."""

    messages: Annotated[list[AnyMessage], add_messages] = []
    goal: str
    conclusions: dict[str, str] = {}


@tool
def read_log(service: str) -> str:
    """Read the whole log of a service."""
    wrong = ERRORS.get(service, 0)
    return "\n".join(f"{n:04} {service} {'ERROR' if n < wrong else 'ok'} request {n}" for n in range(400))


def plan(state: Plan) -> dict[str, Any]:
    """A node of one's own: the goal becomes the task that the lead is given."""
    return {"messages": [HumanMessage(f"{state.goal} Give each service to a worker: {', '.join(SERVICES)}.")]}


def collect(state: Plan) -> dict[str, Any]:
    """A node of one's own: what the workers have concluded, by their session."""
    found = [
        m.artifact for m in state.messages if isinstance(m, ToolMessage) and isinstance(m.artifact, dict)
    ]
    return {"conclusions": {c["session"]: c["answer"] for c in found if "answer" in c}}


def planner(model: BaseChatModel, memory: Memory) -> Any:
    """The graph."""
    worker = SubAgent(
        "worker", "Reads the log of one service.", "You work. Read the log and count its errors.", [read_log]
    )
    made = parts(
        model,
        system_prompt="You plan and delegate.",
        subagents=[worker],
        budget=Budget(steps=40, tokens=2_000_000),
        policy=WindowPolicy(window=WINDOW),
        memory=memory,
    )
    graph = StateGraph(Plan)
    graph.add_node("plan", plan)
    graph.add_node("collect", collect)
    for name, node in made.nodes().items():
        graph.add_node(name, node)
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "intake")
    graph.add_edge("intake", "watermark")
    graph.add_conditional_edges("watermark", route, ["agent", "offload", "summarize", "reclaim", "halt"])
    for remedy in ("offload", "summarize", "reclaim"):
        graph.add_edge(remedy, "watermark")
    ways = ["tools", "subagent", "remember", "watermark"]
    graph.add_conditional_edges("agent", onward(made.engine), ways)
    graph.add_edge("tools", "intake")
    graph.add_edge("subagent", "collect")
    graph.add_edge("collect", "intake")
    graph.add_edge("remember", END)
    graph.add_edge("halt", END)
    return graph.compile()


def script(request: Request) -> Reply:
    """What the models say offline: a worker reads and counts, the lead delegates and compares."""
    results = [row["text"] for row in request.messages if row["role"] == "tool"]
    if "You work" in request.system:
        said = next(row["text"] for row in request.messages if "Count" in row["text"])
        service = next(name for name in SERVICES if name in said)
        if not results:
            return Reply("", (ToolCall("read_log", {"service": service}),))
        return Reply(f"{service}: {ERRORS[service]} errors")
    if not results:
        briefs = [f"Count the errors of the service {name}." for name in SERVICES]
        return Reply("", tuple(ToolCall("delegate", {"agent": "worker", "brief": b}) for b in briefs))
    counted = {name: text for name in SERVICES for text in results if f"{name}: " in text}
    most = max(counted, key=lambda name: int(counted[name].partition(f"{name}: ")[2].split()[0]))
    return Reply(f"The service {most} logs the most errors.")


def main(model: str | None) -> dict[str, Any]:
    """Reach the goal; the last state."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory(folder) as memory,
        staged(model, script, window=WINDOW) as chosen,
    ):
        state: dict[str, Any] = planner(chosen, memory).invoke(
            {"goal": GOAL}, {"configurable": {"thread_id": "plan"}, "recursion_limit": 400}
        )
    for session, answer in state["conclusions"].items():
        print(f"{session}: {answer}")
    print(state["messages"][-1].text)
    return state


if __name__ == "__main__":
    main(model_option(__doc__))

"""Nodes in graphs of one's own, with TypedDict and pydantic states, do what `build_agent`'s graph does."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from pydantic import BaseModel
from typing_extensions import TypedDict

from headwater import Memory, SubAgent, WindowPolicy, build_agent
from headwater.graph.compose import Parts, parts
from headwater.lab.provider import Reply, StrictProvider
from headwater.nodes import State, onward, route
from tests.graph.world import (
    TIGHT,
    UNCACHED,
    WINDOW,
    Recorder,
    calls_then,
    config,
    delegating,
    inspector,
    last_text,
    memory_in,
    results,
    says,
    turns_of,
)

POLICY = WindowPolicy(window=WINDOW)
REMEDIES = ("offload", "summarize", "reclaim")


class Plain(TypedDict, total=False):
    """A user's TypedDict."""

    messages: Annotated[list[AnyMessage], add_messages]
    visits: int


class Model(BaseModel):
    """A user's pydantic model."""

    messages: Annotated[list[AnyMessage], add_messages] = []
    visits: int = 0


class Grown(State, total=False):
    """A user's state that is ours and more."""

    visits: int


def visit(state: Any) -> dict[str, int]:
    """A node of the user's, which sees the user's own state."""
    seen = state.visits if isinstance(state, Model) else state.get("visits", 0)
    return {"visits": seen + 1}


def composed(made: Parts, schema: type, context_schema: Any = None) -> Any:
    graph: Any = StateGraph(schema, context_schema=context_schema)
    graph.add_node("visit", visit)
    for name, node in made.nodes().items():
        graph.add_node(name, node)
    graph.add_edge(START, "visit")
    graph.add_edge("visit", "intake")
    graph.add_edge("intake", "watermark")
    graph.add_conditional_edges("watermark", route, ["agent", *REMEDIES, "halt"])
    for remedy in REMEDIES:
        graph.add_edge(remedy, "watermark")
    graph.add_conditional_edges("agent", onward(made.engine), ["tools", "subagent", "remember", "watermark"])
    graph.add_edge("tools", "intake")
    graph.add_edge("subagent", "intake")
    graph.add_edge("remember", END)
    graph.add_edge("halt", END)
    return graph.compile(checkpointer=InMemorySaver())


SCHEMAS = pytest.mark.parametrize("schema", [Plain, Model, Grown], ids=lambda schema: schema.__name__)


def asked_by(make: Callable[[Any, Memory], Any], root: Path, rounds: int) -> tuple[list[Any], Any]:
    """What the model is sent in some rounds, and the last state."""
    script = Recorder(turns_of(rounds))
    with StrictProvider(script, window=WINDOW) as provider, memory_in(root) as memory:
        agent = make(provider.openai(), memory)
        for number in range(rounds):
            state = agent.invoke(says(f"Check {number}. Never open valve V-{number}."), config())
        assert provider.violations == []
        assert provider.totals().over_window == 0
    return [request.raw["messages"] for request in script.requests], state


@SCHEMAS
def test_a_composed_graph_sends_what_the_built_one_sends(schema: type, tmp_path: Path) -> None:
    """Byte for byte, through offloads and summaries."""
    kw: Any = {"tools": [inspector(400)], "policy": TIGHT, "prices": UNCACHED, "system_prompt": "You check."}
    saver = InMemorySaver()
    built, _ = asked_by(
        lambda model, memory: build_agent(model, memory=memory, checkpointer=saver, **kw), tmp_path / "a", 12
    )
    own, state = asked_by(
        lambda model, memory: composed(parts(model, memory=memory, **kw), schema), tmp_path / "b", 12
    )
    assert own == built
    assert state["visits"] == 12
    assert len(state["messages"]) < 48, "told history has left the user's own channel"


@SCHEMAS
async def test_a_composed_graph_works_asynchronously_too(schema: type, memory: Memory) -> None:
    with StrictProvider(calls_then(8), window=WINDOW) as provider:
        made = parts(provider.openai(), tools=[inspector()], policy=POLICY, memory=memory)
        state = await composed(made, schema).ainvoke(says("Check eight."), config())
        assert provider.violations == []
    assert last_text(state) == "All done."
    assert len(list(results(state["messages"]))) == 8


@SCHEMAS
def test_a_composed_graph_delegates(schema: type, memory: Memory) -> None:
    script = delegating(lambda request: Reply("All is well."), answer="Concluded.")
    with StrictProvider(script, window=WINDOW) as provider:
        scout = SubAgent("scout", "looks", prompt="You scout.")
        made = parts(provider.openai(), subagents=[scout], policy=POLICY, memory=memory)
        state = composed(made, schema).invoke(says("Look."), config())
    (found,) = results(state["messages"])
    assert found.artifact["status"] == "done"
    assert last_text(state) == "Concluded."


LONG: list[AnyMessage] = [
    message
    for n in range(40)
    for message in (HumanMessage(f"{n} " + "word " * 150), AIMessage(f"{n} " + "answer " * 50))
]


@pytest.mark.parametrize("schema", [Plain, Model], ids=lambda schema: schema.__name__)
@pytest.mark.parametrize("name", [*REMEDIES, "halt", "agent", "remember"])
def test_each_node_stands_alone_behind_its_intake(schema: type, name: str, memory: Memory) -> None:
    """In a graph with nothing but what numbers and measures; what it returns lands in its channels."""
    with StrictProvider([Reply("Yes.")], window=200_000) as provider:
        made = parts(provider.openai(), policy=POLICY, memory=memory, context_tools=False)
        nodes = made.nodes()
        graph: Any = StateGraph(schema)
        for each in ("intake", "watermark", name):
            graph.add_node(each, nodes[each])
        graph.add_edge(START, "intake")
        graph.add_edge("intake", "watermark")
        graph.add_edge("watermark", name)
        agent = graph.compile(checkpointer=InMemorySaver())
        log = [*LONG, HumanMessage("Is it so?")]
        agent.invoke({"messages": log[-1:] if name in ("agent", "remember") else log}, config())
        values = agent.get_state(config()).values
    assert values["frame"]["session"] == "t"
    if name == "summarize":
        assert values["frame"]["boundary"] > 0
        assert len(values["messages"]) < len(log)
    elif name == "agent":
        assert values["messages"][-1].text == "Yes."
    elif name == "halt":
        assert values["messages"][-1].response_metadata == {"headwater": "halt"}
    elif name == "remember":
        assert values["facts"] == []
    else:
        assert name in values["step"]["tried"]

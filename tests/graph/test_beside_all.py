"""Governance beside all at once: approval, retries, a fallback, structured output, streams, time travel.

One agent as people have it, and the one line of ours; each part has a test of its own, here none may be in
another's way.
"""

from typing import Any

import pytest
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    ModelFallbackMiddleware,
    ToolRetryMiddleware,
)
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.types import Command
from pydantic import BaseModel

from headwater.lab.provider import ModelSpec, Refuse, Reply, Request, StrictProvider, ToolCall, by_model
from headwater.memory import Memory
from headwater.nodes.event_types import event_of
from tests.graph.beside import ORDERS, WAYS, agent_beside, archived, each_once, messages_of, streamed
from tests.graph.hosts import numbered_once
from tests.graph.world import IN_LINE, WINDOW, Recorder, body, client, config, of, says, shown

RULE = "Never restart the database."
DOWN = {"error": {"message": "The server is overloaded.", "type": "server_error"}}
APPROVED: Command[Any] = Command(resume={"decisions": [{"type": "approve"}]})


class Report(BaseModel):
    """What an inspection comes to."""

    unit: int
    well: bool


def works(request: Request) -> Reply:
    """Inspects the unit that the newest user names, then reports in the form that is asked for."""
    newest = max(i for i, row in enumerate(request.messages) if row["role"] == "user")
    said = request.messages[newest]["text"].rpartition("## The last request so far")[2]
    unit = int(said.partition("Look at unit ")[2].split(".")[0])
    if not any(row["role"] == "tool" for row in request.messages[newest:]):
        return Reply("", (ToolCall("inspect", {"number": unit}),))
    report = {"unit": unit, "well": True}
    if "Report" in request.tools:
        return Reply("", (ToolCall("Report", report),))
    return Reply(str(report).replace("'", '"').replace("True", "true"))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("wire", "form"), [("openai", ProviderStrategy), ("anthropic", ToolStrategy)])
def test_m11_m14_m25_the_promises_hold_beside_everything_at_once(
    wire: str, form: Any, order: str, way: str, memory: Memory
) -> None:
    tries: dict[int, int] = {}
    calls = 0

    @tool
    def inspect(number: int) -> str:
        """Inspect one unit."""
        tries[number] = tries.get(number, 0) + 1
        if tries[number] % 2:
            raise ConnectionError(f"unit {number} does not answer")
        return body(number, 400)

    def main(request: Request) -> Reply:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            raise Refuse(503, DOWN)
        return works(request)

    script = Recorder(by_model({"main": main, "spare": works}))
    others = [
        HumanInTheLoopMiddleware(interrupt_on={"inspect": True}),
        ToolRetryMiddleware(max_retries=2, initial_delay=0.0, jitter=False),
    ]
    with StrictProvider(script, models={"main": ModelSpec(WINDOW), "spare": ModelSpec(WINDOW)}) as provider:
        model, spare = (client(provider, wire, model=n, max_tokens=500) for n in ("main", "spare"))
        agent = agent_beside(
            model,
            memory,
            [*others, ModelFallbackMiddleware(spare)],
            order=order,
            policy=IN_LINE,
            tools=[inspect],
            response_format=form(Report),
        )
        events: list[Any] = []

        def round_of(unit: int, at: Any = None) -> None:
            """A round, its one call approved; it ends with the report in the state."""
            said = says(f"Look at unit {unit}. {RULE if unit == 1 else ''}")
            modes = ["messages", "custom"]
            parts = streamed(agent, said, way, mode=modes, config=at or config())
            assert agent.get_state(config()).interrupts
            parts += streamed(agent, APPROVED, way, mode=modes)
            shown_live = [part[0] for mode, part in parts if mode == "messages"]
            assert any(isinstance(message, AIMessage) for message in shown_live)
            events.extend(part for mode, part in parts if mode == "custom")
            assert agent.get_state(config()).values["structured_response"] == Report(unit=unit, well=True)

        ends = []
        for unit in range(1, 13):
            round_of(unit)
            ends.append(agent.get_state(config()).config)
        begun = len(script.requests)
        round_of(21, ends[4])
        round_of(22)
        for request in script.requests[begun:]:
            assert not [n for n in range(6, 13) if f"Look at unit {n}." in shown(request)]
        assert provider.violations == []
        assert not any(x.over_window for x in provider.requests)
        assert {x.model for x in provider.requests if x.status == 200} == {"main", "spare"}
        answered = sum(x.status == 200 for x in provider.requests)
    assert len(of(events, "request")) == answered == 28
    assert of(events, "summarize")
    for event in events:
        event_of(event)
    assert set(tries.values()) == {2}
    assert all(RULE in shown(request) for request in script.requests)
    results = [str(m.content) for m in archived(memory) if m.type == "tool" and m.name == "inspect"]
    assert results == [body(n, 400) for n in (*range(1, 13), 21, 22)]
    numbered_once(messages_of(agent))
    each_once(memory)

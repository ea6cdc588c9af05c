"""Agents of `create_agent` that have governance and other middleware, in either order, sync and async."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from headwater.graph import GovernanceMiddleware
from headwater.lab.provider import StrictProvider
from headwater.memory import Memory
from headwater.window.policy import WindowPolicy
from tests.graph.world import IN_LINE, UNCACHED, Agent, config, says

ORDERS = ("last", "first")
WAYS = ("sync", "async")


def agent_beside(
    model: Any,
    memory: Memory,
    others: Sequence[AgentMiddleware[Any, Any, Any]],
    *,
    order: str = "last",
    policy: WindowPolicy = IN_LINE,
    **kw: Any,
) -> Agent:
    """An agent with governance last in the list of middleware, or first."""
    own = GovernanceMiddleware(memory=memory, policy=policy, prices=UNCACHED)
    row = [*others, own] if order == "last" else [own, *others]
    kw.setdefault("checkpointer", InMemorySaver())
    made: Agent = create_agent(model, middleware=row, **kw)
    return made


def streamed(agent: Agent, inputs: Any, way: str, mode: Any = "custom", **kw: Any) -> list[Any]:
    """All that a run streams."""
    kw = {"config": config(), "stream_mode": mode, **kw}
    if way == "sync":
        return list(agent.stream(inputs, **kw))

    async def run() -> list[Any]:
        return [part async for part in agent.astream(inputs, **kw)]

    return asyncio.run(run())


def asked(agent: Agent, text: str, way: str, **kw: Any) -> list[Any]:
    """A round; what it streams."""
    return streamed(agent, says(text), way, **kw)


def messages_of(agent: Agent) -> list[BaseMessage]:
    """The messages in the agent's state."""
    return list(agent.get_state(config()).values["messages"])


def archived(memory: Memory, session: str = "t") -> list[BaseMessage]:
    """The session's whole log."""
    return [m for _, m in memory.archive.read(session, 1, memory.archive.last(session))]


def each_once(memory: Memory, session: str = "t") -> None:
    """The log has every message once, and every call one result."""
    log = archived(memory, session)
    ids = [m.id for m in log]
    assert len(ids) == len(set(ids)), "a message was taken in twice"
    calls = [c["id"] for m in log if isinstance(m, AIMessage) for c in m.tool_calls]
    answers = [m.tool_call_id for m in log if isinstance(m, ToolMessage)]
    assert sorted(map(str, calls)) == sorted(answers)


def never_refused_twice(provider: StrictProvider, *, whoever: bool) -> None:
    """M19: what was refused as too long is not sent again: to the same model or, with `whoever`, to any."""
    refused: set[str] = set()
    for exchange in provider.requests:
        body = json.loads(exchange.raw or b"{}")
        if whoever:
            del body["model"]
        key = json.dumps(body, sort_keys=True)
        assert key not in refused
        if exchange.over_window:
            refused.add(key)

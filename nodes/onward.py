"""Onward: where an answer leads, the conditional edge behind `agent`."""

from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Send

from headwater.nodes.delegation import orders
from headwater.nodes.engine import Engine, live
from headwater.nodes.state import NodeState
from headwater.nodes.tools import DELEGATE


def onward(engine: Engine) -> Callable[[NodeState, RunnableConfig], list[Any] | str]:
    """Each delegation goes to a `subagent` of its own, other calls to `tools`, an answer to `remember`; what
    was refused as too long goes back to `watermark`. A `path_map` of the edge may name other nodes for the
    strings.
    """

    def after(state: NodeState, config: RunnableConfig) -> list[Any] | str:
        newest = live(state)[-1]
        if (state.get("step") or {}).get("refused"):
            return "watermark"
        if not isinstance(newest, AIMessage) or not newest.tool_calls:
            return "remember"
        targets: list[Any] = [
            Send("subagent", order)
            for order in orders(engine, state, engine.frame(state, config), newest, config)
        ]
        if any(call["name"] != DELEGATE for call in newest.tool_calls):
            targets.append("tools")
        return targets

    return after

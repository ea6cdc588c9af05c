"""How governance shows in traces: names, tags and metadata of its runs, and whose callbacks hear of them.

LangSmith and OpenTelemetry make a span of every run; what is not named here would look like the agent's own.
"""

from typing import Any

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda

from headwater.nodes.state import Node, State, Update

KEY = "headwater"
"""The key in a run's metadata: a name of `_AGENTS` where the agent itself works, "governance" elsewhere."""
_AGENTS = ("agent", "tools", "subagent")


def role(node: str) -> dict[str, str]:
    """The metadata of a node by its name."""
    return {KEY: node if node in _AGENTS else "governance"}


def asking(name: str, config: RunnableConfig | None) -> RunnableConfig:
    """The config of a call of a governance model within a step: its own span, under the step's.

    Its tokens are nobody's answer, so they stay out of `stream_mode="messages"`.
    """
    given = config or {}
    return {
        **given,
        "run_name": name,
        "tags": [*(given.get("tags") or ()), "nostream", f"headwater:{name}"],
        "metadata": {**(given.get("metadata") or {}), KEY: name},
    }


def asking_alone(name: str, config: RunnableConfig | None) -> RunnableConfig:
    """The config of a call that may outlive its step: nothing of the step's but its callbacks."""
    return {**asking(name, None), "callbacks": lasting(config)}


def lasting(config: RunnableConfig | None) -> Any:
    """The callbacks of a run, without LangGraph's own: those write into a stream that may have ended."""
    given = (config or {}).get("callbacks")
    if isinstance(given, BaseCallbackManager):
        found = given.copy()
        for handler in {id(h): h for h in [*found.handlers, *found.inheritable_handlers]}.values():
            if _streams(handler):
                found.remove_handler(handler)
        return found
    return [h for h in given or () if not _streams(h)] or None


def spanned(name: str, node: Node) -> Runnable[State, Update]:
    """A node as a run of its own, for whoever calls it outside a graph."""
    made: Runnable[State, Update] = RunnableLambda(node, name=name)
    return made.with_config(run_name=name, metadata=role(name))


def _streams(handler: BaseCallbackHandler) -> bool:
    return type(handler).__module__.startswith("langgraph.")

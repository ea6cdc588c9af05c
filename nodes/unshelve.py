"""A fork that begins, or a session that is taken up again: its state is put before what is new."""

from typing import Any

from langchain_core.messages import BaseMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig

from headwater.nodes.engine import Engine, live
from headwater.nodes.state import State


def unshelved(engine: Engine, state: State, config: RunnableConfig) -> dict[str, Any] | None:
    """The state on the shelf for a thread that has none of its own; None for all others."""
    if state.get("frame"):
        return None
    session = engine.frame(state, config).session
    return engine.memory.shelf.get(session)


def joined(values: dict[str, Any], state: State) -> State:
    """The state as if the session had never been set aside."""
    return {**state, **values, "messages": [*values["messages"], *live(state)]}  # type: ignore[typeddict-item]


def in_order(values: dict[str, Any], state: State, taken: dict[str, Any]) -> dict[str, Any]:
    """What intake returns, with the tail before the new messages and the other channels beside."""
    new: list[BaseMessage] = live(state)
    gone = [RemoveMessage(id=m.id) for m in new if m.id]
    messages = [*gone, *values["messages"], *taken.get("messages", new)]
    hints = {**values.get("hints", {}), **taken.get("hints", {})}
    kept = {name: values[name] for name in ("edits", "purse", "pins", "facts") if values.get(name)}
    return {**kept, **taken, "messages": messages, "hints": hints}

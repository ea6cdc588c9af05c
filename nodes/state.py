"""The state of the graph: the live tail, the frame, and what one step hands to the next."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NotRequired, Protocol, TypedDict

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel

# Public through this module only; it is the one reducer for which LangGraph also assigns missing ids.
from langgraph.graph.message import _messages_delta_reducer

append_messages = _messages_delta_reducer
Update = dict[str, Any]


def merge_tags(known: Mapping[int, str] | None, writes: Sequence[Mapping[int, str | None]]) -> dict[int, str]:
    """Reducer of a channel keyed by tag: later writes win, None takes a tag out."""
    merged: dict[int, str] = dict(known or {})
    for write in writes:
        for tag, value in write.items():
            if value is None:
                merged.pop(int(tag), None)
            else:
                merged[int(tag)] = value
    return merged


class _Governance(TypedDict):
    """The channels beside `messages`."""

    edits: NotRequired[Annotated[dict[int, str], DeltaChannel(merge_tags)]]
    hints: NotRequired[Annotated[dict[int, str], DeltaChannel(merge_tags)]]
    frame: NotRequired[dict[str, Any]]
    step: NotRequired[dict[str, Any]]
    facts: NotRequired[list[dict[str, Any]]]
    pins: NotRequired[list[str]]
    purse: NotRequired[dict[str, Any]]


class State(_Governance):
    """Channels of the governed graph.

    `messages`, `edits` and `hints` store what each step adds, so that a checkpoint does not grow with
    the session. `pins` is the caller's way to add to the task note; the others belong to the nodes.
    """

    messages: Annotated[list[AnyMessage], DeltaChannel(append_messages)]


class NodeState(_Governance):
    """What the nodes read of a graph's state, whatever its own schema is: a TypedDict or a pydantic model.

    LangGraph adds to a graph the channels that a node names and the graph has not. So a state of one's own
    needs `messages` only, with `add_messages` or with `State`'s channel; where it names one of the others it
    must do so as `State` does.
    """

    messages: list[AnyMessage]


class Node(Protocol):
    """A node as LangGraph calls it."""

    def __call__(self, state: State, config: RunnableConfig) -> Update:
        """What the node changes."""

"""LangGraph: threads from its API or a saved state as JSON, and from a checkpointer."""

from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.messages import BaseMessage, message_to_dict
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver

from headwater.lab.document import Document
from headwater.lab.message_rows import extend, is_talk
from headwater.lab.recording import NotASession, Recording, listed, mapped

EXPECTS = (
    'a LangGraph thread: {"values": {"messages": [...]}}, its history, or a checkpoint\'s channel values'
)
_HOLDERS = ("values", "channel_values", "checkpoint", "state", "thread", "data")


def read(document: Document) -> Recording | None:
    """The thread, None where it is none; of a history the state with the most messages is read."""
    value = document.value
    states = value if isinstance(value, list) else [value] if isinstance(value, dict) else document.events
    found = [(state, messages) for state in states if isinstance(state, dict) and (messages := _held(state))]
    # A thread's first states have no message yet.
    if not found or not all(isinstance(s, dict) and any(k in s for k in _HOLDERS) for s in states):
        return None
    recording = Recording("langgraph")
    state, messages = max(found, key=lambda pair: len(pair[1]))
    recording.name = _thread(state)
    extend(recording, messages)
    _stamp(recording, found)
    for task in listed(state.get("tasks")):
        inner = task.get("state") if isinstance(task, dict) else None
        held = _held(inner) if isinstance(inner, dict) else None
        if held:
            child = Recording("langgraph", name=str(task.get("name") or task.get("id")))
            extend(child, held)
            recording.children.append(child)
    return recording if recording.rows else None


def load_recording(
    checkpointer: BaseCheckpointSaver[Any], config: RunnableConfig, key: str = "messages"
) -> Recording:
    """A thread out of a checkpointer: every message that any of its checkpoints held, in order.

    A governed thread keeps only its live tail in the newest checkpoint; the older ones have the rest.

    Args:
        checkpointer: Any.
        config: Names the thread, as for the graph: `{"configurable": {"thread_id": …}}`.
        key: The state's key that holds the messages.

    Raises:
        NotASession: No checkpoint of the thread holds messages.
    """
    recording = Recording("langgraph", name=str(config.get("configurable", {}).get("thread_id")))
    held: dict[str, tuple[BaseMessage, str]] = {}
    for saved in reversed(list(checkpointer.list(config))):
        channels = saved.checkpoint["channel_values"]
        written = [value for _, channel, value in saved.pending_writes or () if channel == key]
        for value in (channels.get(key), *written):
            for message in _messages_in(value):
                held.setdefault(str(message.id or id(message)), (message, saved.checkpoint["ts"]))
    if not held:
        raise NotASession(
            f"thread {config.get('configurable', {}).get('thread_id')!r} has no checkpoint with messages "
            f"under {key!r}; expected a thread that was run with this checkpointer"
        )
    for message, stamp in held.values():
        before = len(recording.rows)
        extend(recording, [message_to_dict(message)])
        for row in recording.rows[before:]:
            row["_meta"] = {"ts": stamp, **(row.get("_meta") or {})}
    return recording


def _messages_in(value: Any) -> Iterator[BaseMessage]:
    """Messages in a channel's value; a delta channel wraps its list."""
    if isinstance(value, BaseMessage):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _messages_in(item)
    elif value is not None and hasattr(value, "value"):
        yield from _messages_in(value.value)


def _held(state: Mapping[str, Any]) -> list[Any] | None:
    """The longest list of messages among a state's values."""
    for holder in _HOLDERS:
        inner = state.get(holder)
        if isinstance(inner, dict) and (found := _held(inner)):
            return found
    lists = [v for v in state.values() if isinstance(v, list) and is_talk(v)]
    named = state.get("messages")
    return named if named in lists else max(lists, key=len, default=None)


def _thread(state: Mapping[str, Any]) -> str | None:
    for holder in (
        state,
        state.get("metadata"),
        state.get("checkpoint"),
        mapped(state.get("config")).get("configurable"),
    ):
        if isinstance(holder, dict) and holder.get("thread_id"):
            return str(holder["thread_id"])
    return None


def _stamp(recording: Recording, states: list[tuple[dict[str, Any], list[Any]]]) -> None:
    """In a history a message is as old as the first state that has it."""
    if len(states) < 2:
        return
    first: dict[int, str] = {}
    for state, messages in states:
        stamp = state.get("created_at")
        if isinstance(stamp, str):
            for number in range(len(messages)):
                first[number] = min(stamp, first.get(number, stamp))
    for number, row in enumerate(recording.rows):
        if number in first:
            row["_meta"] = {"ts": first[number], **(row.get("_meta") or {})}

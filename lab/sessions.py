"""Recorded sessions of any kind: which format a file is in is found by its content."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver

from headwater.lab import (
    load_claude,
    load_codex,
    load_copilot,
    load_events,
    load_langgraph,
    load_langsmith,
    load_messages,
    load_opencode,
    load_plain,
)
from headwater.lab.anomalies import call_ids, find_anomalies
from headwater.lab.cut import beginnings
from headwater.lab.document import Document, read_document
from headwater.lab.recording import NotASession, Recording, Session, session_of

__all__ = [
    "FORMATS",
    "NotASession",
    "Session",
    "Turn",
    "find_anomalies",
    "load_session",
    "load_thread",
    "turns",
]


class Format(NamedTuple):
    """A format: `read` gives the recording, or None for a file that is in another format."""

    read: Callable[[Document], Recording | None]
    expects: str


# In the order they are tried: the first that knows a file reads it.
FORMATS = MappingProxyType(
    {
        "plain": Format(load_plain.read, load_plain.EXPECTS),
        "claude-code": Format(load_claude.read, load_claude.EXPECTS),
        "codex": Format(load_codex.read, load_codex.EXPECTS),
        "copilot": Format(load_copilot.read, load_copilot.EXPECTS),
        "opencode": Format(load_opencode.read, load_opencode.EXPECTS),
        "langsmith": Format(load_langsmith.read, load_langsmith.EXPECTS),
        "langgraph": Format(load_langgraph.read, load_langgraph.EXPECTS),
        "messages": Format(load_messages.read, load_messages.EXPECTS),
        "events": Format(load_events.read, load_events.EXPECTS),
    }
)


@dataclass(frozen=True)
class Turn:
    """What came in, and each assistant message that answered with the tool results it got."""

    inputs: list[BaseMessage] = field(default_factory=list)
    replies: list[tuple[AIMessage, list[ToolMessage]]] = field(default_factory=list)


def load_session(path: str | Path) -> Session:
    """Read a recorded session of any of `FORMATS`, with its sub-agents.

    Args:
        path: The file. Nothing is repaired; what is odd is kept, and named in `anomalies`.

    Returns:
        The session.

    Raises:
        NotASession: The file is none; the text says what was found and what was expected.
        OSError: The file cannot be read.
    """
    path = Path(path)
    document = read_document(path)
    try:
        return _read(document)
    except NotASession as error:
        refused = error
    session = _beginning(document)
    if session is None:
        raise refused
    return session


def _read(document: Document) -> Session:
    """The session in a document.

    Raises:
        NotASession: It holds none.
    """
    for known in FORMATS.values():
        try:
            recording = known.read(document)
            if recording is not None:
                return session_of(recording, document.path.stem)
        except NotASession as error:
            raise NotASession(f"{document.path}: {error}; expected {known.expects}") from None
    raise NotASession(f"{document.path}: {_found(document)}; expected {_expected()}")


def _beginning(document: Document) -> Session | None:
    """Of a file that ends in the middle, the session with the most messages that is complete in it."""
    found: Session | None = None
    for whole in beginnings(document):
        try:
            session = _read(whole)
        except NotASession:
            continue
        if found is None or _size(session) > _size(found):
            found = session
    if found is None:
        return None
    odd = f"cut_file: row {len(found.messages)}: the file ends in the middle; what is complete in it was read"
    return replace(found, anomalies=[odd, *found.anomalies])


def _size(session: Session) -> int:
    return len(session.messages) + sum(map(_size, session.children))


def load_thread(
    checkpointer: BaseCheckpointSaver[Any], config: RunnableConfig, *, messages_key: str = "messages"
) -> Session:
    """Read a LangGraph thread out of its checkpointer.

    Args:
        checkpointer: The one the graph ran with.
        config: As for the graph: `{"configurable": {"thread_id": …}}`.
        messages_key: The state's key that holds the messages.

    Raises:
        NotASession: The thread has no checkpoint with messages.
    """
    recording = load_langgraph.load_recording(checkpointer, config, messages_key)
    return session_of(recording, recording.name or "thread")


def _found(document: Document) -> str:
    if document.value is None and not document.lines:
        if not document.broken:
            return "no rows"
        number, error, text = document.broken[0]
        return f"line {number} is not JSON ({error}): {text}"
    if document.broken and document.broken[0][0] == 1:
        return f"neither one JSON value ({document.error}) nor one a line ({document.broken[0][1]} in line 1)"
    if document.lines and not isinstance(document.value, list):
        number, value = document.lines[0]
        return f"line {number} is no message: {document.text(number)}{_keys(value)}"
    return f"the JSON in it holds no conversation in a known form{_keys(document.value)}"


def _keys(value: Any) -> str:
    return f", an object with the keys {sorted(map(str, value))[:12]!r}" if isinstance(value, dict) else ""


def _expected() -> str:
    return "; or ".join(known.expects for known in FORMATS.values())


def turns(session: Session) -> list[Turn]:
    """Cut a session for a replayer: what to feed in, and what the model and tools then answered.

    Every message stands in exactly one place and in order, but for a result that came after a new input: it
    goes with the call it answers, or, when there is none, with the inputs.
    """
    out: list[Turn] = []
    owner: dict[str, list[ToolMessage]] = {}
    results: list[ToolMessage] | None = None
    for message in session.messages:
        if isinstance(message, ToolMessage):
            home = owner.get(message.tool_call_id, results)
            if home is not None:
                home.append(message)
                continue
        if isinstance(message, AIMessage):
            if not out:
                out.append(Turn())
            results = []
            out[-1].replies.append((message, results))
            owner.update(dict.fromkeys(call_ids(message), results))
            continue
        if not out or out[-1].replies:
            out.append(Turn())
        out[-1].inputs.append(message)
        results = None
    return out

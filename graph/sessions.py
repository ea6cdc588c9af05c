"""Sessions of an agent: forked, concluded, undone, set aside, taken up, listed and deleted (M25, E18)."""

import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from headwater.graph.build import engine_of
from headwater.memory.kinship import delete_session
from headwater.nodes.conclusion import Conclusion, evidence_in, last_answer
from headwater.nodes.engine import revised
from headwater.nodes.recall import compartments, fold
from headwater.window.blocks import newest_tag
from headwater.window.face import text_of
from headwater.window.frame import Frame
from headwater.window.marks import stamp, tag_of

LINE_CHARS = 100
_RESTING = "remember"


class SessionError(LookupError):
    """What was asked of a session cannot be done; the message says why."""


class SessionLine(NamedTuple):
    """A session in a list: its newest tag, whether it is set aside, and what it is about."""

    name: str
    last: int
    suspended: bool
    line: str


def thread(session: str) -> RunnableConfig:
    """The config under which an agent works on a session."""
    return {"configurable": {"thread_id": session}}


def fork(agent: Any, session: str, at: int | None = None, name: str | None = None) -> RunnableConfig:
    """Branch a session off at a tag; the trunk is untouched, and its past is shared by reference.

    The branch shows exactly what the trunk showed when that tag was its newest. Where the tag stands within
    an arc, the branch begins before the arc.

    Args:
        agent: What `build_agent` returned, with a checkpointer.
        session: The trunk.
        at: A tag; None for the newest.
        name: The branch's; None makes one.

    Returns:
        The config to work on the branch with.

    Raises:
        SessionError: There is no checkpointer, or no state at or before the tag.
        SessionExists: The name is taken.
    """
    memory = engine_of(agent).memory
    values = _state_at(agent, session, at)
    if values is None:
        raise SessionError(f"session {session!r} has no state at or before tag {at!r}: work on it first")
    point = max(map(tag_of, values["messages"]), default=int(values["frame"]["boundary"]))
    branch = name or f"{session}~{point}-{uuid.uuid4().hex[:8]}"
    memory.archive.fork(values["frame"]["session"], branch, at=point)
    frame = {**values["frame"], "session": branch}
    memory.shelf.put(branch, {**values, "frame": frame}, _line(values))
    return thread(branch)


def conclude(agent: Any, branch: str, into: str | None = None) -> Conclusion:
    """Bring a branch back as a conclusion, its evidence open to the trunk.

    Args:
        agent: As for `fork`.
        branch: The session to conclude.
        into: The session that gets the conclusion as a message for its next step; None for none.

    Raises:
        SessionError: The branch has no message of its own.
    """
    memory = engine_of(agent).memory
    ancestry = memory.archive.ancestry(branch)
    shared = ancestry[0][1] if ancestry else 0
    log = memory.archive.read(branch, shared + 1, memory.archive.last(branch))
    if not log:
        raise SessionError(f"session {branch!r} has nothing of its own to conclude")
    answer = last_answer([m for _, m in log])
    steps = sum(isinstance(m, AIMessage) for _, m in log)
    found = Conclusion(
        "done" if answer else "partial",
        answer or "The branch has no answer yet.",
        branch,
        evidence_in(log),
        usage={"steps": steps},
    )
    if into is not None:
        memory.delegations.adopt(into, branch, memory.archive.last(into) + 1)
        note = HumanMessage(f"[conclusion of {branch}]\n{found.text()}", id=uuid.uuid4().hex)
        agent.update_state(thread(into), {"messages": [note]}, as_node=_RESTING)
    return found


def undo(agent: Any, session: str) -> int:
    """Take the newest compaction back: what it told stands in the tail again, word for word.

    Returns:
        The number of messages that came back; 0 when nothing was told.
    """
    engine = engine_of(agent)
    values = agent.get_state(thread(session)).values
    frame = Frame.from_state(values.get("frame"), values.get("edits"), values.get("hints"))
    told = compartments(engine, frame)
    if not told:
        return 0
    first = told[-1].first
    log = engine.memory.archive.read(frame.session, max(first, frame.lead + 1), frame.boundary)
    back = [stamp(message, tag) for tag, message in log]
    frame = frame.with_(boundary=first - 1, told=frame.told[:-1], zone=min(frame.zone, first - 1))
    frame = fold(engine, frame)
    frame = frame.with_(revision=revised(frame, "undo", first))
    everything: list[BaseMessage] = [RemoveMessage(id=REMOVE_ALL_MESSAGES), *back, *values["messages"]]
    update = {"frame": frame.to_state(), "messages": everything}
    agent.update_state(thread(session), update, as_node=_RESTING)
    return len(back)


def suspend(agent: Any, session: str) -> str:
    """Fold a session to one line and set it aside; its checkpoints are freed. Returns the line."""
    memory = engine_of(agent).memory
    values = _state_at(agent, session, None)
    if values is None:
        known = memory.shelf.line(session)
        if known is None:
            raise SessionError(f"there is no session {session!r} to suspend")
        return known
    line = _line(values)
    memory.shelf.put(session, values, line)
    _saver(agent).delete_thread(session)
    return line


def resume(agent: Any, session: str) -> RunnableConfig:
    """Take a session up again exactly as it was; returns the config to work on it with.

    Raises:
        SessionError: It is neither set aside nor at work.
    """
    shelf = engine_of(agent).memory.shelf
    if agent.get_state(thread(session)).values.get("frame"):
        return thread(session)
    values = shelf.get(session)
    if values is None:
        raise SessionError(f"there is no session {session!r} to resume")
    agent.update_state(thread(session), values, as_node=_RESTING)
    shelf.drop(session)
    return thread(session)


def switch(agent: Any, current: str, to: str) -> RunnableConfig:
    """Set one task aside and take another up, which may be new (E18)."""
    suspend(agent, current)
    memory = engine_of(agent).memory
    return resume(agent, to) if memory.archive.last(to) else thread(to)


def list_sessions(agent: Any) -> list[SessionLine]:
    """All sessions of the agent's memory but those of sub-agents, oldest first."""
    memory = engine_of(agent).memory
    found = []
    for name in memory.archive.sessions():
        if memory.delegations.concluded(name) or memory.delegations.parents(name):
            continue
        line = memory.shelf.line(name)
        first = memory.archive.read(name, 1, 1) if line is None else []
        about = line if line is not None else _short(text_of(first[0][1]) if first else "")
        found.append(SessionLine(name, memory.archive.last(name), line is not None, about))
    return found


def delete(agent: Any, session: str) -> list[str]:
    """Forget a session; frees exactly what no other session refers to, and returns the names freed."""
    saver = agent.checkpointer
    if isinstance(saver, BaseCheckpointSaver):
        saver.delete_thread(session)
    return delete_session(engine_of(agent).memory, session)


def _state_at(agent: Any, session: str, at: int | None) -> dict[str, Any] | None:
    """The newest state whose messages are all numbered, up to a tag, with no arc open.

    Tags only grow along a thread, so the place is found by halving.
    """
    newest = agent.get_state(thread(session))
    if at is None:
        if newest.values.get("frame"):
            return _resting(newest.values, None)
        return engine_of(agent).memory.shelf.get(session)
    ids = [c.config for c in _lineage(_saver(agent), newest.config)]
    low, high = 0, len(ids) - 1
    while low < high:  # the first, newest first, that shows nothing after the tag
        middle = (low + high) // 2
        shown = newest_tag(agent.get_state(ids[middle]).values.get("messages") or [])
        low, high = (low, middle) if shown <= at else (middle + 1, high)
    for config in ids[low:]:
        found = _resting(agent.get_state(config).values, at)
        if found is not None:
            return found
    return None


def _resting(values: dict[str, Any], at: int | None) -> dict[str, Any] | None:
    """The state if a request could begin from it: all numbered, every call answered."""
    messages = list(values.get("messages") or [])
    if not values.get("frame") or not messages or not all(map(tag_of, messages)):
        return None
    if at is not None and newest_tag(messages) > at:
        return None
    calls = {c["id"] for m in messages if isinstance(m, AIMessage) for c in m.tool_calls}
    answered = {getattr(m, "tool_call_id", None) for m in messages}
    return dict(values) if calls <= answered else None


def _lineage(saver: BaseCheckpointSaver[Any], config: RunnableConfig) -> Iterator[Any]:
    """The checkpoints a state came from, newest first; other branches of the thread are left out."""
    own = {"configurable": {"thread_id": config["configurable"]["thread_id"]}}
    wanted = config["configurable"].get("checkpoint_id")
    for found in saver.list(own):  # type: ignore[arg-type]
        if found.config["configurable"]["checkpoint_id"] == wanted:
            yield found
            parent = found.parent_config
            wanted = parent["configurable"]["checkpoint_id"] if parent else None


def _saver(agent: Any) -> BaseCheckpointSaver[Any]:
    if not isinstance(agent.checkpointer, BaseCheckpointSaver):
        raise SessionError("the agent has no checkpointer; build it with build_agent(..., checkpointer=...)")
    return agent.checkpointer


def _line(values: dict[str, Any]) -> str:
    """What a session is about and where it stands, in one line."""
    pins = values["frame"].get("pins") or []
    goal = next((text for kind, text, *_ in pins if kind == "goal"), "")
    return f"{_short(goal)} → {_short(last_answer(values['messages'])) or '…'}"


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LINE_CHARS else flat[: LINE_CHARS - 1] + "…"

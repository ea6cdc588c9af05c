"""Handover: an agent within somebody else's graph, which starts it anew with the messages and nothing else.

A supervisor or a swarm keeps the conversation, not the channels of its agents. All of its agents write one
log, the thread's; each sees it by a frame of its own. That frame is kept at every answer, by the answer's id,
and taken up again where the messages still begin as they did then.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig

from headwater.memory import StorageError
from headwater.nodes.engine import Engine, live
from headwater.nodes.events import emit
from headwater.nodes.state import State, Update, merge_tags
from headwater.window.frame import Frame
from headwater.window.marks import stamp, tag_of, unstamped

_CHANNELS = ("frame", "edits", "hints", "purse", "facts")


class Handed(NamedTuple):
    """What a turn begins with.

    Attributes:
        values: The channels as the agent's last turn left them.
        tail: The messages that it has seen, numbered.
        fresh: Those it has not; what another agent has numbered keeps its number.
        gone: Those that the frame tells.
        newest: Whether this is where the agent's last request ended. Where the graph above took its last turn
            out of the conversation (a supervisor keeps the last message of one only, a fork goes back), it
            goes on from an earlier one.
    """

    values: Mapping[str, Any]
    tail: list[BaseMessage]
    fresh: list[BaseMessage]
    gone: list[BaseMessage]
    newest: bool


def place_of(config: RunnableConfig) -> str:
    """Where an agent stands within other graphs, by the names of their nodes; "" for one on its own."""
    above = str((config.get("configurable") or {}).get("checkpoint_ns") or "").split("|")[:-1]
    return "|".join(part.partition(":")[0] for part in above)


def keep(engine: Engine, state: State, update: Update, config: RunnableConfig) -> None:
    """Keep the frame of a step that was answered, for an agent that another graph may start anew."""
    place = place_of(config)
    (answer,) = update["messages"]
    if not place or engine.delegated or not answer.id:
        return
    frame = update["frame"]
    tail = [m.id for m in live(state) if tag_of(m) > frame["boundary"]]
    values = {
        "frame": frame,
        "edits": merge_tags(state.get("edits"), [update.get("edits") or {}]),
        "hints": dict(state.get("hints") or {}),
        "facts": list(state.get("facts") or []),
        "purse": dict(update.get("purse") or {}),
        "tail": [*tail, answer.id],
    }
    try:
        engine.memory.frames.keep(frame["session"], place, answer.id, values)
    except StorageError as error:
        # The answer stands; the agent's next turn begins anew.
        emit("frame_lost", session=frame["session"], error=str(error))


def handed(engine: Engine, state: State, config: RunnableConfig) -> Handed | None:
    """What the agent's last turn left, where the messages go on from there; None where it begins anew."""
    place = place_of(config)
    messages = live(state)
    if not place or engine.delegated or state.get("frame") or not messages:
        return None
    session = engine.frame(state, config).session
    answers = [m.id for m in messages if isinstance(m, AIMessage) and m.id]
    numbered: list[tuple[int, BaseMessage]] | None = None
    for values, newest in engine.memory.frames.find(session, place, answers):
        if numbered is None:
            known = confirmed(engine, session, messages)
            tags = engine.memory.archive.append(session, [unstamped(m) for m in known if not tag_of(m)])
            rest = iter(tags)
            numbered = [(tag_of(m) or next(rest), m) for m in known]
        boundary = Frame.from_state(values["frame"]).boundary
        shown = [(tag, m) for tag, m in numbered if tag > boundary]
        seen = values["tail"]
        if [m.id for _, m in shown[: len(seen)]] == seen:
            # The answer is taken in like any other: nobody has cleaned it yet.
            at = len(seen) - 1
            tail = [m if tag_of(m) else stamp(m, tag) for tag, m in shown[:at]]
            gone = [m for tag, m in numbered if tag <= boundary]
            return Handed(values, tail, [m for _, m in shown[at:]], gone, newest)
    return None


def taken_up(found: Handed, state: State) -> State:
    """The state as if the agent had never been left."""
    own = {name: found.values[name] for name in _CHANNELS if found.values.get(name)}
    return {**state, **own, "messages": [*found.tail, *found.fresh]}  # type: ignore[typeddict-item]


def brought(found: Handed, taken: Update) -> Update:
    """What intake returns: told messages leave the state, the others carry their numbers."""
    own = {name: found.values[name] for name in _CHANNELS if name != "frame" and found.values.get(name)}
    hints = {**found.values["hints"], **taken.get("hints", {})}
    gone = [RemoveMessage(id=m.id) for m in found.gone if m.id]
    return {**own, **taken, "hints": hints, "messages": [*gone, *found.tail, *taken.get("messages", ())]}


def confirmed(engine: Engine, session: str, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages, without the numbers that are not of this session but of one they came from."""
    numbers = [tag for m in messages if (tag := tag_of(m))]
    if not numbers:
        return list(messages)
    log = dict(engine.memory.archive.read(session, min(numbers), max(numbers)))
    return [m if tag_of(m) in log and _same(log[tag_of(m)], m) else unstamped(m) for m in messages]


def numbers_of(engine: Engine, session: str, fresh: Sequence[BaseMessage], after: int) -> list[int]:
    """The tags of messages in the order they stand in, archived where they are new.

    Args:
        engine: Its archive is written.
        session: The log.
        fresh: Messages; one that carries a number has it in this session.
        after: The tag before the first of them.

    Returns:
        Tags that grow. Where those of the archive do not (a message was edited, another agent spoke in
        between), what follows is archived once more, in the order it has here.
    """
    archive = engine.memory.archive
    rest = iter(archive.append(session, [m for m in fresh if not tag_of(m)]))
    tags = [tag_of(m) or next(rest) for m in fresh]
    mark = "@"
    while (at := _disordered(tags, after)) is not None:
        before = tags[at - 1] if at else after
        again = [
            unstamped(m).model_copy(update={"id": f"{m.id}{mark}{before}" if m.id else None})
            for m in fresh[at:]
        ]
        tags[at:] = archive.append(session, again)
        mark += "@"
    return tags


def _disordered(tags: Sequence[int], after: int) -> int | None:
    """The first place at which tags do not grow."""
    for at, tag in enumerate(tags):
        if tag <= after:
            return at
        after = tag
    return None


def _same(archived: BaseMessage, message: BaseMessage) -> bool:
    """Whether a message is the archived one; its text may have been cleaned or become a stub since."""
    return archived.id == message.id or str(archived.id).partition("@")[0] == str(message.id)

"""Intake: archive and number what is new, clean it, and keep what is too large out of the window.

Reads `messages`, `frame`, `pins`; returns the new messages numbered, and the frame. Nothing that was sent
before is touched: a result over the arrival limit becomes an artifact before any model sees it.
"""

from collections.abc import Sequence
from contextlib import suppress

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from headwater.memory import ArtifactError, StorageError
from headwater.nodes.engine import Engine, live, revised, saved
from headwater.nodes.events import emit
from headwater.nodes.handover import brought, confirmed, handed, numbers_of, place_of, taken_up
from headwater.nodes.hint import hint_for
from headwater.nodes.recall import fold
from headwater.nodes.reminder import reminder_for
from headwater.nodes.restore import restored
from headwater.nodes.state import Node, NodeState, State, Update
from headwater.nodes.tool_names import READING, words_of
from headwater.nodes.unshelve import in_order, joined, unshelved
from headwater.window.clean import clean
from headwater.window.cues import language_of
from headwater.window.face import text_of
from headwater.window.frame import Frame, Pass, Pin
from headwater.window.marks import TagError, parse_ranges, stamp, strip_echo, tag_of
from headwater.window.pins import add_pins, pins_of
from headwater.window.stubs import is_only_stub, stub
from headwater.window.tokens import count_text
from headwater.window.view import PAGE_CALLS

PREVIEW_TOKENS = 500
PINS_SHARE = 0.05
CLEAN_CHARS = 2_000_000


def intake(engine: Engine) -> Node:
    """A node that takes in what is new since the last step."""

    def node(state: NodeState, config: RunnableConfig) -> Update:
        if (shelved := unshelved(engine, state, config)) is not None:
            frame, taken = take_in(engine, joined(shelved, state), config)
            taken = in_order(shelved, state, taken)
        elif (found := handed(engine, state, config)) is not None:
            frame, taken = take_in(engine, taken_up(found, state), config, len(found.fresh))
            taken = brought(found, taken)
            if not found.newest:
                # What its last request added is not sent again: the prefix ends before it.
                return saved(frame.with_(answered=""), step={"pass": str(Pass.FOLD)}, **taken)
        else:
            frame, taken = take_in(engine, state, config)
            if place_of(config) and not state.get("frame"):
                # An earlier turn of this agent may have sent another prefix: this one is built anew.
                return saved(frame, step={"pass": str(Pass.FOLD)}, **taken)
        return saved(frame, step={}, **taken)

    return node


def take_in(
    engine: Engine, state: State, config: RunnableConfig, new: int | None = None
) -> tuple[Frame, Update]:
    """Archive and number what is new; the frame, and the channels that carry it.

    Args:
        engine: Whose archive it goes to.
        state: The agent's.
        config: The run's.
        new: How many messages at the end are new to this agent; None for those without a number.
    """
    messages = live(state)
    frame = engine.frame(state, config)
    begins = not frame.revision
    frame = _begin(engine, frame, messages) if begins else _healed(engine, restored(engine, frame, messages))
    # Without a checkpointer a caller hands in the messages again: they are read as at the first time.
    if begins:
        fresh = confirmed(engine, frame.session, messages)
    else:
        fresh = messages[len(messages) - new :] if new is not None else _unnumbered(messages)
    if not fresh:
        return frame, {}
    older = messages[: len(messages) - len(fresh)]
    tags = numbers_of(engine, frame.session, fresh, max(map(tag_of, older), default=frame.boundary))
    _claim(engine, frame)
    numbered = [
        m if tag_of(m) == tag else _received(engine, m, tag, frame.session)
        for m, tag in zip(fresh, tags, strict=True)
    ]
    frame = _lead(engine, frame, messages, numbered)
    frame = _reduce(frame, messages, numbered)
    frame, hints = _pin(engine, frame, numbered, state.get("pins") or [])
    for said in () if begins else (hint_for, reminder_for):
        if shown := said(engine, frame, messages, numbered):
            tag, text = shown
            hints[tag] = f"{hints[tag]}\n{text}" if tag in hints else text
    ended = engine.background.notes(engine, frame.session, frame.language) if engine.subagents else []
    newest = next((tag_of(m) for m in reversed(numbered) if not isinstance(m, AIMessage)), 0)
    if ended and newest:
        # Behind a message that no request has shown: nothing that was sent moves.
        hints[newest] = "\n".join([*filter(None, [hints.get(newest)]), *ended])
    emit("intake", first=tags[0], last=tags[-1], session=frame.session)
    return frame, {"messages": numbered, "hints": hints}


def _claim(engine: Engine, frame: Frame) -> None:
    """The session is of this project, so that later ones find it; it goes on if that cannot be written."""
    try:
        engine.memory.sessions.claim(frame.session)
    except StorageError as error:
        emit("claim_failed", session=frame.session, error=str(error))


def _unnumbered(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages at the end that have no tag yet."""
    fresh: list[BaseMessage] = []
    for message in reversed(messages):
        if tag_of(message):
            break
        fresh.append(message)
    fresh.reverse()
    return fresh


def _healed(engine: Engine, frame: Frame) -> Frame:
    """The frame, its texts told again from the archive where the disk has lost or damaged one."""
    try:
        engine.texts(frame)
    except ArtifactError as error:
        emit("text_lost", session=frame.session, error=str(error))
    else:
        return frame
    leading = [m for _, m in engine.memory.archive.read(frame.session, 1, frame.lead) if m.type == "system"]
    frame = frame.with_(contract=engine.store_text("\n\n".join(text_of(m) for m in leading), frame))
    return fold(engine, frame)


def _begin(engine: Engine, frame: Frame, messages: Sequence[BaseMessage]) -> Frame:
    """A session's first fold: what earlier sessions left is in the first request (G39)."""
    engine.check()
    goal = next((text_of(m) for m in messages if isinstance(m, HumanMessage)), "")
    language = "zh" if language_of(goal) == "zh" else "en"
    frame = frame.with_(language=language, identity=engine.identity)
    frame = fold(engine, frame, goal)
    return frame.with_(revision=revised(frame, "begin", frame.session, frame.baseline))


def _received(engine: Engine, message: BaseMessage, tag: int, session: str) -> BaseMessage:
    """A message as the state keeps it: numbered, cleaned, and small enough."""
    if isinstance(message, AIMessage):
        return stamp(strip_echo(message), tag)
    if not isinstance(message, ToolMessage):
        return stamp(message, tag)
    if isinstance(message.content, str):
        text = message.content
    elif all(isinstance(b, str) or b.get("type") == "text" for b in message.content):
        text = text_of(message)
    else:
        return stamp(message, tag)
    # What is this long becomes an artifact in any case, as it came; to clean it first would take minutes.
    cleaned = text if message.name in PAGE_CALLS or len(text) > CLEAN_CHARS else clean(text)
    if _too_large(engine, message, cleaned):
        # The bytes as they came are the artifact; what is shown of them is clean.
        try:
            name = engine.memory.artifacts.put(text, session=session, tag=tag)
        except ArtifactError as error:
            # No stub may name a file that was not written: the text stays (case 66).
            emit("offload_failed", session=session, tag=tag, error=str(error))
        else:
            emit("arrival", session=session, tag=tag, tool=message.name, artifact=name, chars=len(text))
            cleaned = stub(tag, text, preview_tokens=PREVIEW_TOKENS)
    if cleaned == message.content:
        return stamp(message, tag)
    return stamp(message.model_copy(update={"content": cleaned}), tag)


def _too_large(engine: Engine, message: ToolMessage, text: str) -> bool:
    if message.name in PAGE_CALLS or is_only_stub(text):
        return False
    quarter = engine.lines.window // 4
    limit = min(engine.policy.arrival, quarter)
    if words_of(message.name or "") & READING:
        # What was asked for to be read stays, unless it would fill a quarter of the window.
        limit = quarter
    # A token is at least a fifth of a character and mostly several: short texts need no count.
    return len(text) > limit // 4 and (len(text) > limit * 64 or count_text(text) > limit)


def _lead(
    engine: Engine, frame: Frame, messages: Sequence[BaseMessage], numbered: Sequence[BaseMessage]
) -> Frame:
    """Leading system messages of the log belong to the contract: there is one system message, first."""
    if frame.lead or frame.boundary or not isinstance(messages[0], SystemMessage):
        return frame
    leading: list[BaseMessage] = []
    for message in numbered:
        if not isinstance(message, SystemMessage):
            break
        leading.append(message)
    if not leading:
        return frame
    name = engine.store_text("\n\n".join(text_of(m) for m in leading), frame)
    return frame.with_(contract=name, lead=tag_of(leading[-1]), revision=revised(frame, "lead", name))


def _pin(
    engine: Engine, frame: Frame, numbered: Sequence[BaseMessage], asked: Sequence[str]
) -> tuple[Frame, dict[int, str]]:
    """Add what the new messages pin; the caller's own pins are shown at once, behind the newest message."""
    pins = frame.pins
    said = [tag_of(m) for m in numbered if isinstance(m, HumanMessage) and text_of(m).strip()]
    if said:
        frame = frame.with_(task=said[-1])
    limit = int(PINS_SHARE * engine.lines.window)
    for message in numbered:
        first = not any(pin.kind == "goal" for pin in pins)
        pins = add_pins(pins, pins_of(message, tag_of(message), first=first), limit)
    hints: dict[int, str] = {}
    shown = next((tag_of(m) for m in reversed(numbered) if not isinstance(m, AIMessage)), 0)
    if asked and shown:
        known = {pin.text for pin in pins}
        new = [Pin("note", text, shown) for text in asked if text not in known]
        pins = (*pins, *new)
        if new:
            hints[shown] = "\n".join(f"[task note] {pin.text}" for pin in new)
    return (frame if pins == frame.pins else frame.with_(pins=pins)), hints


def _reduce(frame: Frame, messages: Sequence[BaseMessage], numbered: Sequence[BaseMessage]) -> Frame:
    """Queue the tags that the model asked to let go of (G9); what its tool refused is left out."""
    asked: list[int] = []
    for message in numbered:
        for call in message.tool_calls if isinstance(message, AIMessage) else ():
            if call["name"] == "ctx_reduce":
                with suppress(TagError):
                    asked += parse_ranges(str(call["args"].get("tags", "")), map(tag_of, messages))
    return frame.with_(reduce=tuple(dict.fromkeys([*frame.reduce, *asked]))) if asked else frame

"""Adopt: what a background run has told enters the frame, at a pass that breaks the prefix anyway (G35).

A run only appends rows to the archive, each with the tags that it read. The frame takes a row in when those
are exactly the oldest messages of its own tail: what another branch of the thread has told, or a run that
the session has overtaken, is no business of this frame.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage, RemoveMessage, ToolMessage

from headwater.nodes.engine import Engine
from headwater.nodes.events import emit
from headwater.nodes.recall import fold, outgrown, publish
from headwater.nodes.state import State, Update
from headwater.window.compartments import Compartment
from headwater.window.frame import Frame
from headwater.window.marks import spans, tag_of
from headwater.window.tokens import count_tokens


class Row(NamedTuple):
    """A compartment in the archive, by id, with the facts that came with it."""

    id: int
    part: Compartment
    facts: Sequence[dict[str, Any]] = ()


class Adopted(NamedTuple):
    """A frame that has taken something in, the messages that stand for it no longer, and the facts."""

    frame: Frame
    gone: Sequence[BaseMessage] = ()
    facts: Sequence[dict[str, Any]] = ()


def put(
    engine: Engine, session: str, part: Compartment, tags: Sequence[int], facts: Sequence[dict[str, Any]] = ()
) -> Row:
    """Append a told stretch to the archive, with the tags that were read for it."""
    data = {**part.to_dict(), "tags": spans(tags), "facts": list(facts)}
    row = Row(engine.memory.archive.put_compartment(session, data), part, facts)
    engine.memory.compartments.published()
    return row


def finished(engine: Engine, frame: Frame, tags: Sequence[int]) -> list[Row]:
    """Rows that tell the oldest of these tags of the tail, one behind the other, and that no frame has yet.

    Costs a look into the archive: not for the path on which nothing moves.
    """
    newest = max(frame.told, default=0)
    rows = engine.memory.archive.compartments(frame.session, newest)
    found: list[Row] = []
    at = 0
    for number, data in rows:
        told = _told(data, tags[at:])
        if told:
            found.append(Row(number, Compartment.from_dict(data), data.get("facts") or ()))
            at += told
    return found


def stretch_to_tell(
    engine: Engine, frame: Frame, messages: list[BaseMessage]
) -> list[tuple[int, BaseMessage]]:
    """The tail before the protected zone, ending where no arc is split."""
    with engine.view(frame, messages) as view:
        end = view.protected(engine.policy, engine.lines.window, engine.room(view))
    hidden = max(frame.boundary, frame.lead)
    tail = [(tag, m) for m in messages if (tag := tag_of(m)) > hidden]
    cut = sum(1 for tag, _ in tail if tag < end)
    while 0 < cut < len(tail) and isinstance(tail[cut][1], ToolMessage):
        cut -= 1
    return tail[:cut]


def adopt(engine: Engine, frame: Frame, messages: list[BaseMessage]) -> Adopted:
    """Take in all that has been told before the protected zone; the frame as it is where there is nothing."""
    if not engine.works_ahead:
        return Adopted(frame)
    tail = stretch_to_tell(engine, frame, messages)
    rows = finished(engine, frame, [tag for tag, _ in tail])
    if not rows:
        return Adopted(frame)
    gone = [m for tag, m in tail if tag <= rows[-1].part.last]
    before = frame
    frame, shown, folded = moved(engine, frame, messages, rows)
    emit("summarize", **account(before, rows, gone, shown), ahead=True, calls=0, spent=0, folded=folded)
    return Adopted(frame, gone, [fact for row in rows for fact in row.facts])


def moved(
    engine: Engine, frame: Frame, messages: list[BaseMessage], rows: Sequence[Row]
) -> tuple[Frame, int, bool]:
    """The frame with its boundary behind the told rows, the tokens they replace, and whether it folded."""
    last = rows[-1].part.last
    with engine.view(frame, messages) as view:
        shown = view.span(rows[0].part.first, last)
    frame = frame.with_(
        boundary=last,
        told=(*frame.told, *(row.id for row in rows)),
        zone=max(frame.zone, last),
        pending={tag: p for tag, p in frame.pending.items() if tag > last},
        busts=frame.busts + 1,
    )
    frame = publish(engine, frame)
    cold = engine.prices.is_cold(frame.asked, engine.clock())
    folded = cold or outgrown(engine, frame) or not frame.baseline
    return (fold(engine, frame) if folded else frame), shown, folded


def account(frame: Frame, rows: Sequence[Row], gone: Sequence[BaseMessage], shown: int) -> dict[str, Any]:
    """What an event says of a stretch that is told from now on."""
    return {
        "session": frame.session,
        "first": rows[0].part.first,
        "last": rows[-1].part.last,
        "tokens": count_tokens(gone),
        "shown": shown,
        "compartments": len(rows),
        "sources": [row.part.source for row in rows],
        "rejected": [],
    }


def channels(state: State, adopted: Adopted) -> Update:
    """The channels beside the frame: told messages leave the state, with their edits and hints."""
    if not adopted.gone:
        return {}
    boundary = adopted.frame.boundary
    return {
        "messages": [RemoveMessage(id=m.id) for m in adopted.gone if m.id],
        "edits": dict.fromkeys(_up_to(adopted.frame.edits, boundary)),
        "hints": dict.fromkeys(_up_to(adopted.frame.hints, boundary)),
        "facts": [*(state.get("facts") or []), *adopted.facts],
    }


def _up_to(tagged: Mapping[int, str], boundary: int) -> Iterator[int]:
    return (tag for tag in tagged if tag <= boundary)


def _told(data: Mapping[str, Any], tags: Sequence[int]) -> int:
    """How many of the tags a row tells: all that it has read, from the first on, or none."""
    read = data.get("tags")
    if not read:
        return 0
    count = sum(last - first + 1 for first, last in read)
    return count if spans(tags[:count]) == [list(span) for span in read] else 0

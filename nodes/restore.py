"""Restore: a session whose state outlived its archive, or went on in another folder, gets its log back.

The state has the tail, the archive had everything. What the tail holds is put back under the numbers it has;
what was told before it is gone with its folder, and that is said, to the caller and to the model.
"""

from collections.abc import Sequence
from typing import NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage

from headwater.memory import ArtifactError
from headwater.memory.artifacts import PathRefused
from headwater.nodes.adopt import put
from headwater.nodes.engine import Engine
from headwater.nodes.events import emit
from headwater.window.compartments import Compartment
from headwater.window.context import history_in
from headwater.window.face import text_of
from headwater.window.frame import Edit, Frame
from headwater.window.marks import spans, tag_of, unstamped
from headwater.window.stubs import stored_as

_WORDS = {
    "en": (
        "Before this folder",
        "§{first}§ to §{last}§ are not in this memory folder: they cannot be opened or searched here.",
        "What had been told of them:",
    ),
    "zh": ("此目录之前", "§{first}§ 至 §{last}§ 不在此记忆目录中：在这里无法展开或搜索。", "此前的概述："),
}


class _Texts(NamedTuple):
    """Artifacts that were written again, and those that are not here."""

    written: list[str]
    missing: list[str]


def restored(engine: Engine, frame: Frame, messages: Sequence[BaseMessage]) -> Frame:
    """The frame, its log put back where the archive ends before the newest number of the state.

    Args:
        engine: Whose archive and artifacts are written.
        frame: The session's.
        messages: The live tail.

    Raises:
        ArchiveError: The archive cannot be written.
    """
    archive = engine.memory.archive
    tail = {tag: m for m in messages if (tag := tag_of(m))}
    highest = max([frame.boundary, frame.sent, frame.lead, *tail])
    last = archive.last(frame.session)
    if last >= highest:
        return frame
    texts = _put_artifacts(engine, frame, tail)
    rows = {tag: _as_it_came(engine, m) for tag, m in tail.items() if tag > last}
    # A number that was given stays taken, even where its message has left the state.
    rows.setdefault(highest, SystemMessage("⟦lost⟧"))
    there = archive.restore(frame.session, rows)
    known = {tag for first, end in archive.tags(frame.session) for tag in range(first, end + 1)}
    lost = [tag for tag in range(1, highest + 1) if tag not in known or (tag == highest and tag not in tail)]
    emit(
        "log_restored",
        session=frame.session,
        restored=spans(tag for tag in there if tag in tail),
        lost=spans(lost),
        artifacts=texts.written,
        missing=texts.missing,
    )
    return _told(engine, frame)


def _put_artifacts(engine: Engine, frame: Frame, tail: dict[int, BaseMessage]) -> _Texts:
    """Write again what the tail still has in full, and look for what it only names."""
    artifacts = engine.memory.artifacts
    found = _Texts([], [])
    for tag, message in tail.items():
        name = stored_as(text_of(message))
        try:
            if name:
                artifacts.retain(name, frame.session, tag)
            elif frame.edits.get(tag) == Edit.OFFLOAD and not isinstance(message, AIMessage):
                found.written.append(artifacts.put(text_of(message), session=frame.session, tag=tag))
        except (ArtifactError, PathRefused):
            found.missing.append(name or artifacts.name_of(text_of(message)))
    return found


def _as_it_came(engine: Engine, message: BaseMessage) -> BaseMessage:
    """A message for the archive: in full where only a stub of it is left and its artifact is here."""
    name = stored_as(text_of(message))
    if name:
        try:
            return unstamped(message).model_copy(update={"content": engine.memory.artifacts.read_text(name)})
        except (ArtifactError, PathRefused):
            pass
    return unstamped(message)


def _told(engine: Engine, frame: Frame) -> Frame:
    """The frame with what this folder has of its told history, and a word on the rest.

    Ids of another folder's rows may be here as well, of something else: those that are taken stand one behind
    the other and end at the boundary.
    """
    if not frame.boundary:
        return frame
    rows = engine.told.read(engine.memory.archive, frame.session, frame.told)
    ends = [row.part.last for row in rows]
    joined = all(after.part.first > end for end, after in zip(ends, rows[1:], strict=False))
    if rows and len(rows) == len(frame.told) and joined and ends[-1] == frame.boundary:
        return frame
    title, gone, before = _WORDS.get(frame.language, _WORDS["en"])
    shown = "\n\n".join(filter(None, (_history(engine, name, frame) for name in _blocks(frame))))
    text = gone.format(first=frame.lead + 1, last=frame.boundary)
    part = Compartment(
        first=frame.lead + 1,
        last=frame.boundary,
        title=title,
        p1=f"{text}\n{before}\n{shown}" if shown else text,
        p4=text,
        importance=100,
        source="digest",
    )
    row = put(engine, frame.session, part, [])
    return frame.with_(told=(row.id,))


def _blocks(frame: Frame) -> tuple[str, ...]:
    return tuple(filter(None, (frame.baseline, frame.delta)))


def _history(engine: Engine, name: str, frame: Frame) -> str:
    """The told history of a block of the last request, where its text is here."""
    try:
        return history_in(engine.text(name), frame.language)
    except ArtifactError:
        return ""

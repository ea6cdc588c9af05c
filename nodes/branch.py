"""Which of a session's numbers a state may open: its own, never those of another branch of the same thread.

A thread that goes on from an earlier checkpoint, or two runs on it at once, append to one log. What a frame
has told names the tags that were read for it, and the tail carries its own: the rest is another branch's.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from headwater.memory import Memory
from headwater.nodes.told import ToldRows
from headwater.window.frame import Frame
from headwater.window.marks import tag_of


class Reader(Protocol):
    """Who asks."""

    @property
    def memory(self) -> Memory:
        """Where the log is."""

    @property
    def told(self) -> ToldRows:
        """What was read of told history."""


def own_tags(reader: Reader, frame: Frame, state: Mapping[str, Any]) -> Callable[[int], bool]:
    """Whether a tag is of the branch that a state stands on.

    Where the state has no numbered message there is no telling branches apart, and all are its own; so are
    those of a stretch that was told without its tags, and of leading system messages.
    """
    tail = {tag for message in state.get("messages") or () if (tag := tag_of(message))}
    if not tail:
        return lambda tag: True
    rows = reader.told.read(reader.memory.archive, frame.session, frame.told)
    runs = [run for row in rows for run in (row.tags or [[row.part.first, row.part.last]])]

    # What a caller took out at the start was in nobody else's hands; a gap further on is another branch's.
    start = min([*tail, *(first for first, _ in runs)])

    def owned(tag: int) -> bool:
        known = tag <= frame.lead or tag < start or tag in tail
        return known or any(first <= tag <= last for first, last in runs)

    return owned

"""What the archive's compartments say, read once a process instead of once a pass.

A row is never changed once it is written, so what was read of it stays true; only what a frame names is kept.
"""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple

from headwater.memory.archive import Archive
from headwater.window.compartments import Compartment

_MOST = 4_096


class ToldRow(NamedTuple):
    """A compartment, and the tags that were read for it as [first, last] runs; none where it was written
    without them.
    """

    part: Compartment
    tags: Sequence[Sequence[int]] = ()


class ToldRows:
    """The rows that were read last, by id."""

    def __init__(self) -> None:
        # By session too: a frame that comes from another folder names rows that are others' here.
        self._known: OrderedDict[tuple[str, int], ToldRow] = OrderedDict()
        self._lock = Lock()

    def read(self, archive: Archive, session: str, ids: Sequence[int]) -> list[ToldRow]:
        """The rows of these ids, in this order; those that the session does not have are left out.

        Costs a look into the archive only where one of them was not read before, and decodes none that is
        older than the first of those.
        """
        with self._lock:
            known = {number: self._known.get((session, number)) for number in ids}
        found = {number: row for number, row in known.items() if row is not None}
        missing = {number for number in ids if number not in found}
        if missing:
            rows = archive.compartments(session, min(missing) - 1)
            fresh = {
                number: ToldRow(Compartment.from_dict(data), data.get("tags") or ())
                for number, data in rows
                if number in missing
            }
            found |= fresh
            with self._lock:
                self._known |= {(session, number): row for number, row in fresh.items()}
                while len(self._known) > _MOST:
                    self._known.popitem(last=False)
        return [found[number] for number in ids if number in found]

"""Keeping indexes in step with the store they were made from, through kills, lost files and changed models.

The store holds, beside the rows, a mark for each row that is not indexed yet, and an epoch for each index. A
row's mark is written in the same batch as the row. An index that was built whole carries the epoch and the
signature of what it was built with; one that carries anything else is built anew when it is opened.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence

from langgraph.store.base import BaseStore, PutOp

from headwater.memory.index import Entry, Hit, Index, IndexBroken

_log = logging.getLogger(__name__)
_AT_ONCE = 1_000


class Upkeep:
    """The indexes of one space of a store. The caller holds a lock around every call.

    Args:
        store: Gives the open store.
        space: (tenant, project, kind), the rows' namespace.
        indexes: Of different classes: the class name is the index's name in the store.
        rows: All rows that should be found.
        rows_of: Those of the given ids that should be found.
    """

    def __init__(
        self,
        store: Callable[[], BaseStore],
        space: tuple[str, str, str],
        indexes: Sequence[Index],
        *,
        rows: Callable[[], Sequence[Entry]],
        rows_of: Callable[[Sequence[str]], Sequence[Entry]],
    ) -> None:
        self._store = store
        self._space = space
        self._indexes = tuple(indexes)
        self._rows = rows
        self._rows_of = rows_of
        self._marks = (*space[:2], "unindexed", space[2])
        self._epochs = (*space[:2], "indexes", space[2])
        self._usable: list[Index] | None = None

    def marks(self, ids: Sequence[str]) -> list[PutOp]:
        """What to put into the store in the same batch as changed rows."""
        return [PutOp(self._marks, key, {"changed": True}, index=False) for key in ids]

    def catch_up(self) -> None:
        """Tell the usable indexes about all marked rows."""
        usable = self._ready()
        while marked := [item.key for item in self._store().search(self._marks, limit=_AT_ONCE)]:
            entries = self._rows_of(marked)
            gone = sorted(set(marked) - {entry.id for entry in entries})
            for index in usable.copy():
                try:
                    _update(index, self._space, entries, gone)
                except IndexBroken as error:
                    self._heal(index, str(error))
            self._store().batch([PutOp(self._marks, key, None) for key in marked])

    def rankings(self, query: str, k: int) -> list[tuple[float, list[Hit]]]:
        """The weight and the answer of each usable index; one that fails is built anew and asked again."""
        self.catch_up()
        found: list[tuple[float, list[Hit]]] = []
        for index in self._ready().copy():
            try:
                found.append((index.weight, index.search(self._space, query, k)))
            except IndexBroken as error:
                if self._heal(index, str(error)):
                    found.append((index.weight, self._second_try(index, query, k)))
        return found

    def rebuild(self) -> None:
        """Build every index anew.

        Raises:
            IndexBroken: One of them could not be built. The others were.
        """
        self._usable = []
        failures: list[IndexBroken] = []
        for index in self._indexes:
            try:
                self._build(index)
                self._usable.append(index)
            except IndexBroken as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def close(self) -> None:
        """Let the indexes go; the next use checks them again."""
        self._usable = None
        for index in self._indexes:
            try:
                index.close()
            except IndexBroken as error:
                _log.debug("closing %s: %s", type(index).__name__, error)

    def _ready(self) -> list[Index]:
        if self._usable is None:
            self._usable = [*self._indexes]
            rows = self._rows()
            for index in self._indexes:
                known = self._store().get(self._epochs, type(index).__name__) is not None
                if reason := self._reason_to_build(index, rows):
                    self._heal(index, reason, quiet=not known)
        return self._usable

    def _reason_to_build(self, index: Index, rows: Sequence[Entry]) -> str:
        try:
            if index.stamp(self._space) != self._stamp(index):
                return "it is missing, or was made from another store or by another model"
            complete = index.size(self._space) == sum(index.pieces(row.text) for row in rows)
        except IndexBroken as error:
            return str(error)
        # While rows are marked the numbers may differ; catching up will settle it.
        if not complete and not self._store().search(self._marks, limit=1):
            return "it does not hold what the store holds"
        return ""

    def _heal(self, index: Index, reason: str, quiet: bool = False) -> bool:
        name = type(index).__name__
        try:
            self._build(index)
        except IndexBroken as error:
            # A new epoch: rows that it misses from now on need no marks, it will be built whole.
            self._new_epoch(index)
            if self._usable is not None and index in self._usable:
                self._usable.remove(index)
            _log.warning(
                "%s is out of use until the next opening (%s): search goes on without it", name, error
            )
            return False
        if not quiet:
            _log.warning("%s was built anew (%s); no fact was lost", name, reason)
        return True

    def _build(self, index: Index) -> None:
        index.reset(self._space)
        # Rows are read after the reset: a row that another process writes from here on, it also indexes from
        # here on.
        rows = self._rows()
        for start in range(0, len(rows), _AT_ONCE):
            index.upsert(self._space, rows[start : start + _AT_ONCE])
        index.seal(self._space, self._stamp(index))

    def _second_try(self, index: Index, query: str, k: int) -> list[Hit]:
        try:
            return index.search(self._space, query, k)
        except IndexBroken as error:
            _log.warning(
                "%s fails as soon as it is built (%s): search goes on without it", type(index).__name__, error
            )
            self._new_epoch(index)
            if self._usable is not None and index in self._usable:
                self._usable.remove(index)
            return []

    def _stamp(self, index: Index) -> str:
        item = self._store().get(self._epochs, type(index).__name__)
        epoch = self._new_epoch(index) if item is None else item.value["epoch"]
        return f"{epoch}/{index.signature()}"

    def _new_epoch(self, index: Index) -> str:
        epoch = uuid.uuid4().hex
        self._store().put(self._epochs, type(index).__name__, {"epoch": epoch}, index=False)
        return epoch


def _update(index: Index, space: tuple[str, ...], entries: Sequence[Entry], gone: Sequence[str]) -> None:
    # A text that became shorter would leave pieces behind, so long ones go before they come.
    stale = [*gone, *(entry.id for entry in entries if index.pieces(entry.text) > 1)]
    if stale:
        index.delete(space, stale)
    if entries:
        index.upsert(space, entries)

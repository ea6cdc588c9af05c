"""What the indexes of one space are made from, and how one of them is made whole: rows and their marks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from headwater.memory.index import Entry, Index, IndexBroken
from headwater.memory.marks import Epochs, Marks

AT_ONCE = 1_000
"""Rows that an index is told of in one call."""


@dataclass(frozen=True)
class IndexSource:
    """The rows of one space, and what the store holds about the indexes over them.

    Attributes:
        space: (tenant, project, kind), the rows' namespace.
        rows, rows_of: All rows that should be found, and those of the given ids.
        marks: Of rows that an index may lack.
        epochs: What an index that was built whole carries.
        exclusive: Held while marks are taken away, so that no newer mark goes with them.
    """

    space: tuple[str, str, str]
    rows: Callable[[], Sequence[Entry]]
    rows_of: Callable[[Sequence[str]], Sequence[Entry]]
    marks: Marks
    epochs: Epochs
    exclusive: Callable[[], AbstractContextManager[Any]]

    def reason_to_build(self, index: Index, rows: Sequence[Entry], missed: bool) -> str:
        """Why an index cannot be used as it is; "" where it can.

        Args:
            index: Opened afresh.
            rows: All rows, as `rows` gives them.
            missed: Whether rows may have changed without a mark for this folder.
        """
        try:
            if index.stamp(self.space) != self.epochs.stamp(index):
                return "it is missing, or was made from another store or by another model"
            if missed and not getattr(index, "shared", False):
                return "this folder has not been told of all changes"
            complete = self._holds(index, rows)
            if not complete:
                # Another process may have been writing: with its turn over, what has no mark was told.
                with self.exclusive():
                    complete = self.marks.any() or self._holds(index, self.rows())
        except IndexBroken as error:
            return str(error)
        return "" if complete else "it does not hold what the store holds"

    def is_whole(self, index: Index, missed: bool) -> bool:
        """Whether it is in order when opened afresh. Some damage shows only when something is looked up."""
        try:
            index.close()
            if self.reason_to_build(index, self.rows(), missed):
                return False
            self._look_up(index)
        except IndexBroken:
            return False
        return True

    def build(self, index: Index) -> None:
        """Build an index whole, at once."""
        index.reset(self.space)
        # Rows are read after the reset: a row that another process writes from here on, it also indexes from
        # here on.
        rows = self.rows()
        for start in range(0, len(rows), AT_ONCE):
            index.upsert(self.space, rows[start : start + AT_ONCE])
        self._seal(index)

    def finish(self, index: Index) -> None:
        """End a build beside the work: the rows that changed meanwhile, then the stamp.

        Raises:
            IndexBroken: It is not whole.
        """
        marked = [item.key for item in self.marks.all()]
        self.update(index, *self.changed(marked))
        self._look_up(index)
        if not self._holds(index, self.rows()) and not self._marked_since(marked):
            raise IndexBroken(f"it has {index.size(self.space)} rows: another process was at it too")
        self._seal(index)

    def changed(self, ids: Sequence[str]) -> tuple[Sequence[Entry], list[str]]:
        """The rows of these ids that should be found, and the ids of the others."""
        entries = self.rows_of(ids)
        return entries, sorted(set(ids) - {entry.id for entry in entries})

    def update(self, index: Index, entries: Sequence[Entry], gone: Sequence[str]) -> None:
        """Tell an index of rows that changed and of ids that are gone."""
        # A text that became shorter would leave pieces behind, so long ones go before they come.
        stale = [*gone, *(entry.id for entry in entries if index.pieces(entry.text) > 1)]
        if stale:
            index.delete(self.space, stale)
        if entries:
            index.upsert(self.space, entries)

    def _holds(self, index: Index, rows: Sequence[Entry]) -> bool:
        return index.size(self.space) == sum(index.pieces(row.text) for row in rows)

    def _look_up(self, index: Index) -> None:
        index.search(self.space, "headwater", 1)

    def _marked_since(self, before: Sequence[str]) -> bool:
        return {item.key for item in self.marks.all()} > set(before)

    def _seal(self, index: Index) -> None:
        index.seal(self.space, self.epochs.stamp(index))
        self.epochs.sealed(index)

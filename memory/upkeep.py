"""Keeping indexes in step with the store they were made from, through kills, lost files and changed models.

The store holds, beside the rows, a mark for each row that is not in every index yet, and an epoch for each
index. A row's mark is written in the same batch as the row. An index that was built whole carries the epoch
and the signature of what it was built with; one that carries anything else is built anew: the one by words at
once, the others beside the work, while words serve.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from langgraph.store.base import BaseStore, Item, PutOp

from headwater.memory.index import Entry, Hit, Index, IndexBroken
from headwater.memory.rebuild import Rebuild

_log = logging.getLogger(__name__)
_AT_ONCE = 1_000
_FEW = 100
_PAUSE = 2.0
"""Seconds until an index that another process builds is looked at again."""
_RETRY = 60.0
"""Seconds until an index that could not be built is tried again."""


class Upkeep:
    """The indexes of one space of a store.

    Args:
        store: Gives the open store.
        space: (tenant, project, kind), the rows' namespace.
        words: The index that is built at once, since it needs no model.
        others: Built in the background. Of different classes: the class name is the name in the store.
        rows, rows_of: All rows that should be found, and those of the given ids.
        lock: Held by the caller around every call but `close`; background work takes it for its last step.
        exclusive: Held while marks are taken away, so that no newer mark goes with them.
        lease: One process at a time builds; enters with False where another is at it.
    """

    def __init__(
        self,
        store: Callable[[], BaseStore],
        space: tuple[str, str, str],
        words: Index,
        others: Sequence[Index],
        *,
        rows: Callable[[], Sequence[Entry]],
        rows_of: Callable[[Sequence[str]], Sequence[Entry]],
        lock: threading.RLock,
        exclusive: Callable[[], AbstractContextManager[Any]],
        lease: Callable[[], AbstractContextManager[bool]],
    ) -> None:
        self._store = store
        self._space = space
        self._words = words
        self._indexes = (*others, words)
        self._rows = rows
        self._rows_of = rows_of
        self._lock = lock
        self._exclusive = exclusive
        self._lease = lease
        self._marks = _marks_of(space)
        self._epochs = (*space[:2], "indexes", space[2])
        self._usable: list[Index] | None = None
        self._builds: dict[Index, Rebuild] = {}
        self._retry_at: dict[Index, float] = {}
        self._elsewhere: set[Index] = set()
        self._healed: set[Index] = set()
        self._told: dict[str, Any] = {}

    def marks(self, ids: Sequence[str]) -> list[PutOp]:
        """What to put into the store in the same batch as changed rows."""
        return marks_in(self._space, ids)

    def unindexed(self) -> list[str]:
        """Ids of the rows that are not yet in every index: all of them while one is out of use."""
        if len(self._ready()) < len(self._indexes):
            return [row.id for row in self._rows()]
        return [item.key for item in self._marked()]

    def catch_up(self) -> None:
        """Tell the usable indexes about all marked rows.

        Marks stay while an index is behind: it, or another process that builds it, must see them too.
        """
        usable = self._ready()
        marked = self._marked()
        new = [item for item in marked if self._told.get(item.key) != item.value]
        for start in range(0, len(new), _AT_ONCE):
            self._tell(usable, [item.key for item in new[start : start + _AT_ONCE]])
            self._told.update((item.key, item.value) for item in new[start : start + _AT_ONCE])
        if marked and not self._behind():
            with self._exclusive():
                done = [item.key for item in self._marked() if self._told.get(item.key) == item.value]
                self._store().batch([PutOp(self._marks, key, None) for key in done])
            self._told.clear()

    def rankings(self, query: str, k: int) -> list[tuple[float, list[Hit]]]:
        """The weight and the answer of each usable index. One that fails is built anew, and left out."""
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
        """Build every index anew, and wait for it.

        Raises:
            IndexBroken: One of them could not be built. The others were.
        """
        self._usable = []
        self._elsewhere.clear()
        failures: list[IndexBroken] = []
        for index in self._indexes:
            try:
                self._build(index)
                self._usable.append(index)
                self._retry_at.pop(index, None)
            except IndexBroken as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def settle(self, seconds: float) -> bool:
        """Wait for background work; whether none is left. To be called without the lock."""
        deadline = time.monotonic() + seconds
        for build in [*self._builds.values()]:
            build.join(max(0.0, deadline - time.monotonic()))
        return not any(build.alive for build in self._builds.values())

    def stop(self) -> None:
        """End background work. To be called without the lock."""
        for build in [*self._builds.values()]:
            build.stop()

    def close(self) -> None:
        """Let the indexes go; the next use checks them again. To be called without the lock."""
        self.stop()
        with self._lock:
            self._usable = None
            self._builds.clear()
            self._elsewhere.clear()
            self._healed.clear()
            self._retry_at.clear()
            self._told.clear()
            for index in self._indexes:
                try:
                    index.close()
                except IndexBroken as error:
                    _log.debug("closing %s: %s", type(index).__name__, error)

    def _marked(self) -> list[Item]:
        found: list[Item] = []
        while page := self._store().search(self._marks, limit=_AT_ONCE, offset=len(found)):
            found += page
            if len(page) < _AT_ONCE:
                break
        return found

    def _tell(self, usable: Sequence[Index], marked: Sequence[str]) -> None:
        entries = self._rows_of(marked)
        gone = sorted(set(marked) - {entry.id for entry in entries})
        for index in [*usable]:
            try:
                _update(index, self._space, entries, gone)
            except IndexBroken as error:
                self._heal(index, str(error))

    def _behind(self) -> bool:
        """Whether an index is being built, here or elsewhere. One that failed has a new epoch, and needs no
        marks.
        """
        return bool(self._elsewhere) or any(build.alive for build in self._builds.values())

    def _ready(self) -> list[Index]:
        if self._usable is None:
            self._usable = [*self._indexes]
            self._check(self._indexes)
        due = [index for index, at in self._retry_at.items() if time.monotonic() >= at]
        if due:
            for index in due:
                del self._retry_at[index]
                self._elsewhere.discard(index)
                self._healed.discard(index)
            self._usable += due
            self._told.clear()
            self._check(due, again=True)
        return self._usable

    def _check(self, indexes: Sequence[Index], again: bool = False) -> None:
        rows = self._rows()
        for index in indexes:
            known = self._store().get(self._epochs, type(index).__name__) is not None
            if reason := self._reason_to_build(index, rows):
                self._heal(index, reason, quiet=again or not known, again=again)

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

    def _heal(self, index: Index, reason: str, *, quiet: bool = False, again: bool = False) -> bool:
        """Build an index anew; whether it can be used at once."""
        name = self._name(index)
        if index in self._healed:
            # It fails soon after it was built: building it at every search would help nobody.
            self._give_up(index, reason, told=again)
            return False
        self._healed.add(index)
        rows = len(self._rows()) if index is not self._words else 0
        # A first build of a few rows is no repair, and takes no longer than telling it of them.
        if rows > (_FEW if quiet and not again else 0):
            self._drop(index)
            if not quiet:
                _log.warning("%s is built anew beside the work (%s): words serve until then", name, reason)
            self._begin(index, told=again or not quiet)
            return False
        try:
            self._build(index)
        except IndexBroken as error:
            if index is self._words:
                self._give_up(index, str(error), told=again)
            else:
                # Another process may have been making it as well: they take turns in the background.
                self._drop(index)
                if not again:
                    _log.warning("%s cannot be used yet (%s): words serve until then", name, error)
                self._begin(index, told=True)
            return False
        if not quiet:
            _log.warning("%s was built anew (%s); nothing was lost", name, reason)
        return True

    def _begin(self, index: Index, told: bool) -> None:
        def done(error: IndexBroken | None, busy: bool) -> None:
            if busy:
                self._elsewhere.add(index)
                self._retry_at[index] = time.monotonic() + _PAUSE
            elif error is not None:
                self._give_up(index, str(error), told=told)
            elif self._usable is not None and index not in self._usable:
                # Marks that came after its last step are told once more: it may have missed them.
                self._told.clear()
                self._usable.insert(0, index)
                _log.info("%s is in use again", self._name(index))

        self._builds[index] = Rebuild(
            whole=lambda: self._is_whole(index),
            reset=lambda: index.reset(self._space),
            rows=self._rows,
            put=lambda entries: index.upsert(self._space, entries),
            finish=lambda: self._finish(index),
            done=done,
            lock=self._lock,
            lease=self._lease,
        )
        self._builds[index].start()

    def _is_whole(self, index: Index) -> bool:
        """Whether it is in order when opened afresh. Some damage shows only when something is looked up."""
        try:
            index.close()
            if self._reason_to_build(index, self._rows()):
                return False
            index.search(self._space, "headwater", 1)
        except IndexBroken:
            return False
        return True

    def _finish(self, index: Index) -> None:
        """The rows that changed while the index was built, then its stamp. The lock is held."""
        marked = [item.key for item in self._marked()]
        entries = self._rows_of(marked)
        _update(index, self._space, entries, sorted(set(marked) - {entry.id for entry in entries}))
        index.search(self._space, "headwater", 1)
        wanted = sum(index.pieces(row.text) for row in self._rows())
        if (size := index.size(self._space)) != wanted and not self._marked_since(marked):
            raise IndexBroken(f"{size} of {wanted} rows arrived: another process was at it too")
        index.seal(self._space, self._stamp(index))

    def _marked_since(self, before: Sequence[str]) -> bool:
        return {item.key for item in self._marked()} > set(before)

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
            self._give_up(index, str(error))
            return []

    def _give_up(self, index: Index, reason: str, told: bool = False) -> None:
        # A new epoch: rows that it misses from now on need no marks, it will be built whole.
        self._new_epoch(index)
        self._drop(index)
        self._retry_at[index] = time.monotonic() + _RETRY
        level = logging.INFO if told else logging.WARNING
        _log.log(level, "%s is out of use for now (%s): search goes on without it", self._name(index), reason)

    def _name(self, index: Index) -> str:
        return f"{type(index).__name__} of {self._space[2]}"

    def _drop(self, index: Index) -> None:
        if self._usable is not None and index in self._usable:
            self._usable.remove(index)

    def _stamp(self, index: Index) -> str:
        item = self._store().get(self._epochs, type(index).__name__)
        epoch = self._new_epoch(index) if item is None else item.value["epoch"]
        return f"{epoch}/{index.signature()}"

    def _new_epoch(self, index: Index) -> str:
        epoch = uuid.uuid4().hex
        self._store().put(self._epochs, type(index).__name__, {"epoch": epoch}, index=False)
        return epoch


def marks_in(space: tuple[str, str, str], ids: Sequence[str]) -> list[PutOp]:
    """What to put into the store so that whoever keeps this space's indexes looks at these rows again."""
    return [PutOp(_marks_of(space), key, {"change": uuid.uuid4().hex}, index=False) for key in ids]


def _marks_of(space: tuple[str, str, str]) -> tuple[str, ...]:
    return (*space[:2], "unindexed", space[2])


def _update(index: Index, space: tuple[str, ...], entries: Sequence[Entry], gone: Sequence[str]) -> None:
    # A text that became shorter would leave pieces behind, so long ones go before they come.
    stale = [*gone, *(entry.id for entry in entries if index.pieces(entry.text) > 1)]
    if stale:
        index.delete(space, stale)
    if entries:
        index.upsert(space, entries)

"""Keeping indexes in step with the store they were made from, through kills, lost files and changed models.

`marks` has what the store holds about them. An index that was built whole carries its epoch and the signature
of what it was built with; one that carries anything else is built anew: the one by words at once, the others
beside the work, while words serve.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

from langgraph.store.base import BaseStore, PutOp

from headwater.memory.database import StorageError
from headwater.memory.index import Entry, Hit, Index, IndexBroken
from headwater.memory.marks import Epochs, Marks
from headwater.memory.places import Places
from headwater.memory.rebuild import Rebuild
from headwater.memory.warming import Warming

_log = logging.getLogger(__name__)
_AT_ONCE = 1_000
_FEW = 100
_PAUSE = 2.0
"""Seconds until an index that another process builds is looked at again."""
_LOOK = 0.05
"""Seconds between two looks of who waits for that."""
_TURN = 1.0
"""Seconds that a build of a few rows waits for another of that kind."""
_SILENCE = 3_600.0
"""Seconds from a warning of an index until the next one."""
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
        places: The folders that share the store; None where it is this folder's own.
        said: When an index was last warned of, shared by all that use it: one warning says it for all.
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
        places: Places | None = None,
        said: dict[Index, float] | None = None,
    ) -> None:
        self._space = space
        self._words = words
        self._indexes = (*others, words)
        self._rows = rows
        self._rows_of = rows_of
        self._lock = lock
        self._exclusive = exclusive
        self._lease = lease
        self._marks = Marks(store, space, exclusive, places)
        self._epochs = Epochs(store, space)
        self._usable: list[Index] = []
        self._unopened: list[Index] = [*self._indexes]
        self._loaded = False
        self._warming: Warming | None = None
        self._builds: dict[Index, Rebuild] = {}
        self._retry_at: dict[Index, float] = {}
        self._elsewhere: set[Index] = set()
        self._healed: set[Index] = set()
        self._said = {} if said is None else said
        self._missed: set[Index] = set()
        self._told: dict[str, Any] = {}

    def marks(self, ids: Sequence[str]) -> list[PutOp]:
        """What to put into the store in the same batch as changed rows."""
        return self._marks.puts(ids)

    def marked(self, ids: Sequence[str]) -> None:
        """To be called when that batch was put."""
        self._marks.put(ids)

    def unindexed(self) -> list[str]:
        """Ids of the rows that are not yet in every index: all of them while one is out of use."""
        if len(self._ready()) < len(self._indexes):
            return [row.id for row in self._rows()]
        return [item.key for item in self._marks.all()]

    def load(self) -> None:
        """Load what the indexes need, which may take seconds the first time. Touches no file of theirs; to be
        called without the lock.
        """
        if not self._loaded:
            for index in self._indexes:
                # One that cannot be loaded is told about when it is opened.
                with suppress(IndexBroken):
                    index.signature()
            self._loaded = True

    def catch_up(self, *, later: bool = False) -> None:
        """Tell the usable indexes about all marked rows.

        Marks stay while an index is behind: it, or another process that builds it, must see them too.

        Args:
            later: Wait for nothing that has to be loaded first: words are told now, the others in a thread.
        """
        waits = later and not self._loaded
        usable = self._ready([self._words] if waits else None)
        if waits and (self._warming is None or not self._warming.alive):
            self._warming = Warming(self.load, self.catch_up, self._lock)
        marked = self._marks.all()
        new = [item for item in marked if self._told.get(item.key) != item.value]
        for start in range(0, len(new), _AT_ONCE):
            self._tell(usable, [item.key for item in new[start : start + _AT_ONCE]])
            self._told.update((item.key, item.value) for item in new[start : start + _AT_ONCE])
        if marked and not self._behind():
            self._marks.clear(self._told)
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
        self._usable, self._unopened = [], []
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
        """Wait for background work, here and elsewhere; whether none is left. To be called without the
        lock.
        """
        deadline = time.monotonic() + seconds
        while True:
            if self._warming is not None:
                self._warming.join(max(0.0, deadline - time.monotonic()))
            for build in [*self._builds.values()]:
                build.join(max(0.0, deadline - time.monotonic()))
            with self._lock:
                if self._elsewhere and not self._at_work():
                    self._ready([self._words])
                if not self._elsewhere and not self._at_work():
                    return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK)

    def stop(self) -> None:
        """End background work. To be called without the lock."""
        if self._warming is not None:
            self._warming.stop()
        for build in [*self._builds.values()]:
            build.stop()

    def close(self) -> None:
        """Let the indexes go; the next use checks them again. To be called without the lock."""
        self.stop()
        with self._lock:
            begun = [*self._builds.values()]
        for build in begun:
            # What was being loaded may have begun it meanwhile.
            build.stop()
        with self._lock:
            self._usable, self._unopened = [], [*self._indexes]
            self._warming = None
            self._loaded = False
            self._marks.close()
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
        return bool(self._elsewhere or self._unopened) or any(b.alive for b in self._builds.values())

    def _at_work(self) -> bool:
        warming = self._warming is not None and self._warming.alive
        return warming or any(build.alive for build in self._builds.values())

    def _ready(self, wanted: Iterable[Index] | None = None) -> list[Index]:
        """The usable indexes, once those that are wanted (by default all) have been opened."""
        if self._marks.missed():
            self._missed.update(self._indexes)
            self._unopened = [*self._indexes]
        if self._unopened and (unopened := [i for i in wanted or self._indexes if i in self._unopened]):
            self._unopened = [index for index in self._unopened if index not in unopened]
            self._usable = [i for i in self._indexes if i in self._usable or i in unopened]
            self._told.clear()
            self._check(unopened)
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
        built = {index for index in indexes if self._epochs.built(index)}
        for index in indexes:
            if reason := self._reason_to_build(index, rows):
                quiet = again or index not in built or index in self._missed
                self._heal(index, reason, quiet=quiet, again=again)
            else:
                self._missed.discard(index)

    def _reason_to_build(self, index: Index, rows: Sequence[Entry]) -> str:
        try:
            if index.stamp(self._space) != self._epochs.stamp(index):
                return "it is missing, or was made from another store or by another model"
            if index in self._missed and not getattr(index, "shared", False):
                return "this folder has not been told of all changes"
            complete = self._holds(index, rows)
            if not complete:
                # Another process may have been writing: with its turn over, what has no mark was told.
                with self._exclusive():
                    complete = self._marks.any() or self._holds(index, self._rows())
        except IndexBroken as error:
            return str(error)
        return "" if complete else "it does not hold what the store holds"

    def _holds(self, index: Index, rows: Sequence[Entry]) -> bool:
        return index.size(self._space) == sum(index.pieces(row.text) for row in rows)

    def _heal(self, index: Index, reason: str, *, quiet: bool = False, again: bool = False) -> bool:
        """Build an index anew; whether it can be used at once."""
        if index in self._healed:
            # It fails soon after it was built: building it at every search would help nobody.
            self._give_up(index, reason, told=again)
            return False
        self._healed.add(index)
        if index is self._words:
            built = self._build_words(told=again)
        else:
            # A first build of a few rows is no repair, and takes no longer than telling it of them.
            few = len(self._rows()) <= (_FEW if quiet and not again else 0)
            built = few and self._build_few(index)
        if built and not quiet:
            self._warn(index, f"was built anew ({reason}); nothing was lost")
        elif not built and index is not self._words:
            self._drop(index)
            if not quiet:
                self._warn(index, f"is built anew beside the work ({reason}): words serve until then")
            self._begin(index, told=again or not quiet)
        return built

    def _build_words(self, told: bool) -> bool:
        try:
            self._build(self._words)
        except IndexBroken as error:
            self._give_up(self._words, str(error), told=told)
            return False
        return True

    def _build_few(self, index: Index) -> bool:
        """Build an index at once, unless another process is at it or it cannot be done: then it is done, or
        tried again, in the background.
        """
        deadline = time.monotonic() + _TURN
        try:
            while True:
                with self._lease() as ours:
                    if ours and not self._is_whole(index):
                        self._build(index)
                if ours or time.monotonic() > deadline:
                    return ours
                time.sleep(_TURN / 20)
        except (IndexBroken, StorageError, sqlite3.Error):
            return False

    def _begin(self, index: Index, told: bool) -> None:
        def done(error: IndexBroken | None, busy: bool) -> None:
            if busy:
                self._elsewhere.add(index)
                self._retry_at[index] = time.monotonic() + _PAUSE
            elif error is not None:
                self._give_up(index, str(error), told=told)
            elif index not in self._usable and index not in self._unopened:
                # Marks that came after its last step are told once more: it may have missed them.
                self._told.clear()
                self._usable.insert(0, index)
                _log.info("%s is in use again", self._name(index))

        build = Rebuild(
            whole=lambda: self._is_whole(index),
            reset=lambda: index.reset(self._space),
            rows=self._rows,
            put=lambda entries: index.upsert(self._space, entries),
            finish=lambda: self._finish(index),
            done=done,
            lock=self._lock,
            lease=self._lease,
        )
        build.start()
        self._builds[index] = build

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
        marked = [item.key for item in self._marks.all()]
        entries = self._rows_of(marked)
        _update(index, self._space, entries, sorted(set(marked) - {entry.id for entry in entries}))
        index.search(self._space, "headwater", 1)
        if not self._holds(index, self._rows()) and not self._marked_since(marked):
            raise IndexBroken(f"it has {index.size(self._space)} rows: another process was at it too")
        self._seal(index)

    def _marked_since(self, before: Sequence[str]) -> bool:
        return {item.key for item in self._marks.all()} > set(before)

    def _build(self, index: Index) -> None:
        index.reset(self._space)
        # Rows are read after the reset: a row that another process writes from here on, it also indexes from
        # here on.
        rows = self._rows()
        for start in range(0, len(rows), _AT_ONCE):
            index.upsert(self._space, rows[start : start + _AT_ONCE])
        self._seal(index)

    def _seal(self, index: Index) -> None:
        index.seal(self._space, self._epochs.stamp(index))
        self._epochs.sealed(index)
        self._missed.discard(index)

    def _second_try(self, index: Index, query: str, k: int) -> list[Hit]:
        try:
            return index.search(self._space, query, k)
        except IndexBroken as error:
            self._give_up(index, str(error))
            return []

    def _give_up(self, index: Index, reason: str, told: bool = False) -> None:
        # A new epoch: rows that it misses from now on need no marks, it will be built whole.
        self._epochs.renew(index)
        self._drop(index)
        self._retry_at[index] = time.monotonic() + _RETRY
        self._warn(index, f"is out of use for now ({reason}): search goes on without it", told=told)

    def _warn(self, index: Index, text: str, told: bool = False) -> None:
        told = told or time.monotonic() < self._said.get(index, 0.0) + _SILENCE
        if not told:
            self._said[index] = time.monotonic()
        _log.log(logging.INFO if told else logging.WARNING, "%s %s", self._name(index), text)

    def _name(self, index: Index) -> str:
        return f"{type(index).__name__} of {self._space[2]}"

    def _drop(self, index: Index) -> None:
        if index in self._usable:
            self._usable.remove(index)


def _update(index: Index, space: tuple[str, ...], entries: Sequence[Entry], gone: Sequence[str]) -> None:
    # A text that became shorter would leave pieces behind, so long ones go before they come.
    stale = [*gone, *(entry.id for entry in entries if index.pieces(entry.text) > 1)]
    if stale:
        index.delete(space, stale)
    if entries:
        index.upsert(space, entries)

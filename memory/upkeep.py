"""Keeping indexes in step with the store they were made from, through kills, lost files and changed models.

`marks` has what the store holds about them. An index that was built whole carries its epoch and the signature
of what it was built with; one that carries anything else is built anew (`repairs`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

from langgraph.store.base import BaseStore, PutOp

from headwater.memory.index import Entry, Hit, Index, IndexBroken
from headwater.memory.index_source import AT_ONCE, IndexSource
from headwater.memory.marks import Epochs, Marks
from headwater.memory.places import Places
from headwater.memory.repairs import Repairs, Standing, State
from headwater.memory.warming import Warming

_log = logging.getLogger(__name__)
_LOOK = 0.05
"""Seconds between two looks of who waits for a build elsewhere."""


class Upkeep:
    """The indexes of one space of a store.

    Args:
        store: Gives the open store.
        space: (tenant, project, kind), the rows' namespace.
        words: The index that is built at once, since it needs no model.
        others: Built in the background. Of different classes: the class name is the name in the store.
        rows, rows_of: All rows that should be found, and those of the given ids.
        lock: Held by the caller around every call but `load`, `settle`, `stop` and `close`; background work
            takes it for its last step.
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
        self._lock = lock
        self._marks = Marks(store, space, exclusive, places)
        self._source = IndexSource(space, rows, rows_of, self._marks, Epochs(store, space), exclusive)
        self._words = Standing(words)
        self._standings = (*map(Standing, others), self._words)
        # Marks that all indexes in use were told of.
        self._told: dict[str, Any] = {}
        self._repairs = Repairs(
            self._source,
            words,
            lock=lock,
            lease=lease,
            said={} if said is None else said,
            retell=self._told.clear,
        )
        self._loaded = False
        self._warming: Warming | None = None

    def marks(self, ids: Sequence[str]) -> list[PutOp]:
        """What to put into the store in the same batch as changed rows."""
        return self._marks.puts(ids)

    def marked(self, ids: Sequence[str]) -> None:
        """To be called when that batch was put."""
        self._marks.put(ids)

    def unindexed(self) -> list[str]:
        """Ids of the rows that are not yet in every index: all of them while one is out of use."""
        if len(self._in_use()) < len(self._standings):
            return [row.id for row in self._source.rows()]
        return [item.key for item in self._marks.all()]

    def load(self) -> None:
        """Load what the indexes need, which may take seconds the first time. Touches no file of theirs; to be
        called without the lock.
        """
        if not self._loaded:
            for standing in self._standings:
                # One that cannot be loaded is told about when it is opened.
                with suppress(IndexBroken):
                    standing.index.signature()
            self._loaded = True

    def catch_up(self, *, later: bool = False) -> None:
        """Tell the usable indexes about all marked rows.

        Marks stay while an index is behind: it, or another process that builds it, must see them too.

        Args:
            later: Wait for nothing that has to be loaded first: words are told now, the others in a thread.
        """
        waits = later and not self._loaded
        usable = self._in_use([self._words] if waits else None)
        if waits and (self._warming is None or not self._warming.alive):
            self._warming = Warming(self.load, self.catch_up, self._lock)
        marked = self._marks.all()
        new = [item for item in marked if self._told.get(item.key) != item.value]
        for start in range(0, len(new), AT_ONCE):
            self._tell(usable, [item.key for item in new[start : start + AT_ONCE]])
            self._told.update((item.key, item.value) for item in new[start : start + AT_ONCE])
        if marked and not self._behind():
            self._marks.clear(self._told)
            self._told.clear()

    def rankings(self, query: str, k: int) -> list[tuple[float, list[Hit]]]:
        """The weight and the answer of each usable index. One that fails is built anew, and left out."""
        self.catch_up()
        found: list[tuple[float, list[Hit]]] = []
        for standing in self._in_use():
            index = standing.index
            try:
                found.append((index.weight, index.search(self._source.space, query, k)))
            except IndexBroken as error:
                if self._repairs.mend(standing, str(error)):
                    found.append((index.weight, self._second_try(standing, query, k)))
        return found

    def rebuild(self) -> None:
        """Build every index anew, and wait for it.

        Raises:
            IndexBroken: One of them could not be built. The others were.
        """
        failures: list[IndexBroken] = []
        for standing in self._standings:
            try:
                self._repairs.build(standing)
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
            for standing in self._standings:
                if standing.build is not None:
                    standing.build.join(max(0.0, deadline - time.monotonic()))
            with self._lock:
                if self._elsewhere() and not self._at_work():
                    self._in_use([self._words])
                if not self._elsewhere() and not self._at_work():
                    return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK)

    def stop(self) -> None:
        """End background work. To be called without the lock."""
        if self._warming is not None:
            self._warming.stop()
        for standing in self._standings:
            if standing.build is not None:
                standing.build.stop()

    def close(self) -> None:
        """Let the indexes go; the next use checks them again. To be called without the lock."""
        self.stop()
        with self._lock:
            begun = [standing.build for standing in self._standings if standing.build is not None]
        for build in begun:
            # What was being loaded may have begun it meanwhile.
            build.stop()
        with self._lock:
            self._warming = None
            self._loaded = False
            self._marks.close()
            self._told.clear()
            for standing in self._standings:
                standing.state, standing.build, standing.mended = State.UNOPENED, None, False
                try:
                    standing.index.close()
                except IndexBroken as error:
                    _log.debug("closing %s: %s", type(standing.index).__name__, error)

    def _tell(self, usable: Sequence[Standing], marked: Sequence[str]) -> None:
        entries, gone = self._source.changed(marked)
        for standing in usable:
            try:
                self._source.update(standing.index, entries, gone)
            except IndexBroken as error:
                self._repairs.mend(standing, str(error))

    def _second_try(self, standing: Standing, query: str, k: int) -> list[Hit]:
        try:
            return standing.index.search(self._source.space, query, k)
        except IndexBroken as error:
            self._repairs.give_up(standing, str(error))
            return []

    def _in_use(self, wanted: Sequence[Standing] | None = None) -> list[Standing]:
        """The indexes in use, once those that are wanted (by default all) have been opened."""
        if self._marks.missed():
            for standing in self._standings:
                standing.missed += 1
                if not standing.building:
                    standing.state = State.UNOPENED
        if unopened := [one for one in wanted or self._standings if one.state is State.UNOPENED]:
            self._told.clear()
            self._repairs.check(unopened)
        waiting = (one for one in self._standings if one.state in (State.ELSEWHERE, State.OUT))
        if due := [one for one in waiting if time.monotonic() >= one.look_at]:
            for standing in due:
                standing.mended = False
            self._told.clear()
            self._repairs.check(due, again=True)
        return [one for one in self._standings if one.state is State.IN_USE]

    def _behind(self) -> bool:
        """Whether an index is being built, here or elsewhere, or was not looked at. One that failed has a new
        epoch, and needs no marks.
        """
        waits = any(one.state is State.UNOPENED or one.building for one in self._standings)
        return waits or self._elsewhere()

    def _elsewhere(self) -> bool:
        return any(one.state is State.ELSEWHERE for one in self._standings)

    def _at_work(self) -> bool:
        warming = self._warming is not None and self._warming.alive
        return warming or any(one.building for one in self._standings)

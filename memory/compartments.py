"""Told history found again by meaning and by words: an index over the compartments of one tenant's project.

The truth is the archive, which knows no tenants; a session's project says whose its compartments are. What is
not in the indexes yet needs no mark of its own: the store keeps the id up to which rows were taken over, and
what the archive has above it is new. A step only says that there is something new. It is indexed in a thread,
a moment later, so that what comes together is embedded together.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from langgraph.store.base import BaseStore, PutOp

from headwater.memory.database import StorageError
from headwater.memory.facts import label
from headwater.memory.index import CANDIDATES, Entry, Hit, Index, IndexBroken, by_identifiers, fuse
from headwater.memory.marks import marks_in
from headwater.memory.upkeep import Upkeep

if TYPE_CHECKING:
    from headwater.memory.archive import Archive
    from headwater.memory.compartment_rows import CompartmentRow
    from headwater.memory.sessions import Sessions
    from headwater.memory.stretches import Stretch

_log = logging.getLogger(__name__)
_KIND = "compartments"
QUIET = 1.0
"""Seconds from the first new compartment until those that came meanwhile are indexed."""
_GRACE = 30.0
"""Seconds that closing waits for a batch under way: embeddings may hang, and closing must not."""
_PAGE = 500

PATIENCE = 3.0
"""Seconds that a search waits while a batch is embedded; afterwards it asks the words alone."""

EntryList = list[Entry]
Rankings = list[tuple[float, list[Hit]]]


class CompartmentsError(StorageError):
    """The store beside the index could not be read or written. The archive has all that was told."""


class FoundCompartment(NamedTuple):
    """A stretch of told history that answers a query."""

    id: int
    session: str
    first: int
    last: int
    title: str
    text: str
    """Its fullest tier."""
    tags: tuple[tuple[int, int], ...]
    """The runs of tags that were read for it."""
    score: float
    """A share: at most 1."""


class Compartments:
    """The index over what was told in the sessions of one tenant's project.

    Args:
        archive: Has the compartments.
        sessions: Says which sessions are of this project.
        store: Opens the store of the indexes' marks.
        words, indexes: As in `Facts`.
        tenant, project: Whose sessions.
        exclusive, lease, said: As in `Facts`.
    """

    def __init__(
        self,
        archive: Archive,
        sessions: Sessions,
        store: Callable[[], BaseStore],
        words: Index,
        indexes: Sequence[Index],
        *,
        tenant: str,
        project: str,
        exclusive: Callable[[], AbstractContextManager[Any]],
        lease: Callable[[], AbstractContextManager[bool]],
        said: dict[Index, float] | None = None,
    ) -> None:
        self._archive = archive
        self._sessions = sessions
        self._store = store
        self._words = words
        self._space = _space(tenant, project)
        self._taken = (*self._space[:2], "taken", _KIND)
        self._exclusive = exclusive
        self._lock = threading.RLock()
        self._upkeep = Upkeep(
            store,
            self._space,
            words,
            indexes,
            rows=self._entries,
            rows_of=self._entries_of,
            lock=self._lock,
            exclusive=exclusive,
            lease=lease,
            said=said,
        )
        self._news = threading.Condition()
        self._due: float | None = None
        self._closing = False
        self._worker: threading.Thread | None = None

    def published(self) -> None:
        """Say that the archive has a new compartment. Costs nothing here: it is indexed in a moment, beside
        the work.
        """
        with self._news:
            if self._closing:
                return
            if self._due is None:
                self._due = time.monotonic() + QUIET
            if self._worker is None:
                # A daemon: a program that ends leaves the rest to the next one: the archive has it.
                self._worker = threading.Thread(target=self._work, name="headwater-told", daemon=True)
                self._worker.start()

    def search(self, session: str, query: str, k: int = 10) -> list[FoundCompartment]:
        """At most `k` compartments for a query, best first: of the session with the past it was forked from,
        and of the project's other sessions.

        Rankings by meaning, by words and by the identifiers in the query are joined by score. An index that
        fails is built anew, and left out while it cannot be.

        Raises:
            CompartmentsError: The store failed.
            ArchiveError: The archive cannot be read.
        """
        if k < 1 or not query.strip() or not self._archive.newest_compartment():
            return []
        asked = max(4 * k, CANDIDATES)
        rankings = self._rankings(query, asked)
        ids = dict.fromkeys(hit.id for _, ranking in rankings for hit in ranking)
        rows = {str(row.id): row for row in self._archive.compartment_rows(map(int, ids))}
        past = self._archive.stretches(session)
        names: dict[str, str] = {}
        for key, row in rows.items():
            if (name := self._seen_from(session, past, row)) is not None:
                names[key] = name
        shown = [(weight, [hit for hit in ranking if hit.id in names]) for weight, ranking in rankings]
        named = by_identifiers([Entry(key, rows[key].text()) for key in names], query)
        fused = fuse([*shown, (1.0, named)] if named else shown, asked)
        return [_found(rows[hit.id], names[hit.id], hit.score) for hit in fused[:k]]

    def gone(self, session: str, ids: Sequence[int]) -> None:
        """Take compartments of a forgotten session out of the indexes. What the project still has of them,
        through a fork, stays; another project that had the session finds out when it next uses its indexes.
        """
        with self._lock, _stored():
            kept = {entry.id for entry in self._entries_of([str(number) for number in ids])}
            left = [str(number) for number in ids if str(number) not in kept]
            spaces = [_space(*other) for other in self._sessions.others(session)]
            self._store().batch([op for space in [self._space, *spaces] for op in marks_in(space, left)])
            self._upkeep.catch_up()

    def unindexed(self) -> list[str]:
        """Ids of the compartments that an index does not hold yet."""
        with self._lock, _stored():
            self._take_over()
            return self._upkeep.unindexed()

    def settle(self, seconds: float = 60.0) -> bool:
        """Wait until what was published is indexed and indexes that are built are whole; whether they are."""
        deadline = time.monotonic() + seconds
        with self._news:
            if self._due is not None:
                self._due = time.monotonic()
            self._news.notify_all()
            if not self._news.wait_for(lambda: self._worker is None, seconds):
                return False
        return self._upkeep.settle(max(0.0, deadline - time.monotonic()))

    def rebuild(self) -> int:
        """Build every index anew from the archive, and wait for it; the number of compartments in them.

        Raises:
            IndexBroken: An index could not be built even so. The others were.
        """
        self._upkeep.stop()
        with self._lock, _stored():
            self._upkeep.rebuild()
            return len(self._entries())

    def close(self) -> None:
        """Let the indexes go; the next use opens and checks them again."""
        with self._news:
            self._closing = True
            worker = self._worker
            self._news.notify_all()
        if worker is not None:
            worker.join(_GRACE)
        if worker is None or not worker.is_alive():
            self._upkeep.close()
        with self._news:
            self._closing = False
            self._due = None

    def _rankings(self, query: str, asked: int) -> Rankings:
        if not self._lock.acquire(timeout=PATIENCE):
            # What was published is being embedded, and takes long.
            try:
                return [(self._words.weight, self._words.search(self._space, query, asked))]
            except IndexBroken:
                return []
        try:
            with _stored():
                self._take_over()
                return self._upkeep.rankings(query, asked)
        finally:
            self._lock.release()

    def _work(self) -> None:
        """Index what is due, until nothing is."""
        while True:
            with self._news:
                while self._due is not None and not self._closing:
                    wait = self._due - time.monotonic()
                    if wait <= 0:
                        break
                    self._news.wait(wait)
                if self._due is None or self._closing:
                    self._worker = None
                    self._news.notify_all()
                    return
                self._due = None
            self._upkeep.load()
            try:
                with self._lock, _stored():
                    self._take_over()
                    self._upkeep.catch_up()
            except StorageError as error:
                # What is above the mark is taken over by the next search or publication.
                _log.debug("compartments are not indexed yet: %s", error)

    def _take_over(self) -> None:
        """Mark what the archive has above the last row that was taken over, and what it had already of
        sessions that have come to the project since.
        """
        item = self._store().get(self._taken, "newest", refresh_ttl=False)
        taken = self._begin() if item is None else item.value
        after, number = int(taken["id"]), int(taken["session"])
        if late := self._sessions.since(number):
            number = late[-1][0]
            rows = [row for _, name in late for row in self._brought(name, after)]
            self._mark(rows, {"id": after, "session": number})
        while rows := self._archive.compartments_above(after, _PAGE):
            after = rows[-1].id
            self._mark([*self._ours(rows)], {"id": after, "session": number})

    def _mark(self, rows: Iterable[CompartmentRow], taken: dict[str, int]) -> None:
        puts = self._upkeep.marks([str(row.id) for row in rows])
        with self._exclusive():
            self._store().batch([*puts, PutOp(self._taken, "newest", taken, index=False)])

    def _brought(self, session: str, upto: int) -> list[CompartmentRow]:
        """What was told of a session, and of a past that nobody here had, before it came to the project."""
        told = [number for number, _ in self._archive.compartments(session) if number <= upto]
        rows = self._archive.compartment_rows(told)
        return [row for row in rows if row.session == session or row.session not in self._sessions]

    def _begin(self) -> dict[str, Any]:
        """The first time nothing is marked: the indexes are yet to be built, of all there is.

        One process does it, or a late one would pass over what came after another had built them.
        """
        with self._exclusive():
            item = self._store().get(self._taken, "newest", refresh_ttl=False)
            if item is not None:
                return item.value
            late = self._sessions.since(0)
            taken = {
                "id": self._archive.newest_compartment(),
                "session": late[-1][0] if late else 0,
            }
            self._store().put(self._taken, "newest", taken, index=False)
            return taken

    def _entries(self) -> EntryList:
        found: EntryList = []
        after = 0
        while rows := self._archive.compartments_above(after, _PAGE):
            after = rows[-1].id
            found += [Entry(str(row.id), row.text()) for row in self._ours(rows)]
        return found

    def _entries_of(self, ids: Sequence[str]) -> EntryList:
        rows = self._archive.compartment_rows(map(int, ids))
        return [Entry(str(row.id), row.text()) for row in self._ours(rows)]

    def _ours(self, rows: Iterable[CompartmentRow]) -> Iterator[CompartmentRow]:
        """Those of this project's sessions, and of deleted ones that they were forked from."""
        known: dict[int, bool] = {}
        for row in rows:
            if row.owner not in known:
                known[row.owner] = row.session in self._sessions or any(
                    name in self._sessions for name in self._archive.forks_of(row.owner)
                )
            if known[row.owner]:
                yield row

    def _seen_from(self, session: str, past: Sequence[Stretch], row: CompartmentRow) -> str | None:
        """The session under which a row may be shown; None where it may not."""
        for stretch in past:
            if row.owner == stretch.owner and row.last <= stretch.last and row.id <= stretch.compartments:
                return session
        if row.session is None or row.session == session or row.session not in self._sessions:
            return None
        return row.session


def _space(tenant: str, project: str) -> tuple[str, str, str]:
    return label(tenant), label(project), _KIND


def _found(row: CompartmentRow, session: str, score: float) -> FoundCompartment:
    value = row.value()
    read = value.get("tags") or [[row.first, row.last]]
    return FoundCompartment(
        id=row.id,
        session=session,
        first=row.first,
        last=row.last,
        title=str(value.get("title") or ""),
        text=str(value.get("p1") or ""),
        tags=tuple((int(first), int(last)) for first, last in read),
        score=score,
    )


@contextmanager
def _stored() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise CompartmentsError(
            f"the store beside the index of compartments failed: {error}; check its disk and its permissions"
        ) from error

"""Long-term facts: one way in, one truth, and indexes that can be thrown away (E19, G21, G22).

The truth is a LangGraph store. A write puts the fact and a mark "not indexed yet" there in one batch, and
only then tells the indexes; a kill in between leaves the mark, and the next opening does the rest.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from langgraph.store.base import BaseStore, GetOp, Item, PutOp

from headwater.memory.aliases import Aliases
from headwater.memory.database import StorageError
from headwater.memory.fact import Category, Fact, FactRefused, Scope, Source, Status, Trust, fact
from headwater.memory.index import CANDIDATES, Entry, Index, by_identifiers, fuse
from headwater.memory.places import Places
from headwater.memory.upkeep import Upkeep
from headwater.memory.uses import Uses

_PAGE = 10_000

# Named here, since inside the class `list` is a method.
FactList = list[Fact]
EntryList = list[Entry]
UnindexedIds = list[str]
FoundFacts = list[tuple[Fact, float]]


class FactsError(StorageError):
    """The store of facts could not be read or written."""


class UnknownFact(LookupError):
    """No fact of this id in this tenant's project."""


class Facts:
    """The facts of one tenant's project.

    Args:
        store: Opens the store; called once, on first use.
        words: The index by words, which serves while others are built.
        indexes: Where facts are looked up as well. None of them is needed for a fact to be kept.
        tenant, project: Whose facts. Never empty in the store, whatever is given.
        exclusive: Held while a fact is read, changed and written, so that processes take turns.
        lease: Entered with True by the one process that may build indexes.
        place: Gives this folder's name where others share the store.
        said: See `Upkeep`.
    """

    def __init__(
        self,
        store: Callable[[], BaseStore],
        words: Index,
        indexes: Sequence[Index],
        *,
        tenant: str,
        project: str,
        exclusive: Callable[[], AbstractContextManager[Any]],
        lease: Callable[[], AbstractContextManager[bool]],
        place: Callable[[], str] | None = None,
        said: dict[Index, float] | None = None,
    ) -> None:
        self._open_store = store
        self._space = (label(tenant), label(project), "facts")
        self._exclusive = exclusive
        self._lock = threading.RLock()
        self._upkeep = Upkeep(
            self._opened,
            self._space,
            words,
            indexes,
            rows=self._entries,
            rows_of=self._entries_of,
            lock=self._lock,
            exclusive=exclusive,
            lease=lease,
            places=None if place is None else Places(self._opened, self._space, place),
            said=said,
        )
        self._store: BaseStore | None = None
        self._aliases = Aliases(self._opened, self._space, exclusive=exclusive, facts=self._all)
        self.uses: Uses = Uses(self._opened, self._space, exclusive)

    def write(
        self,
        content: str,
        category: Category | str,
        *,
        scope: Scope = "project",
        importance: int = 50,
        source: Source | tuple[str, Sequence[int]] | None = None,
        trust: Trust = "agent",
        supersedes: str | None = None,
        valid_from: float | None = None,
        now: float | None = None,
    ) -> Fact:
        """Remember something: the one way in for the agent's tool, the historian and people.

        What is already known in this category, if in other words (see `purport`), counts one more sighting
        and keeps its words, source and trust. It is not revived if it was archived, unless `supersedes` says
        that it holds again. A superseded fact is archived and points at its successor; superseding a fact by
        other words for it rewords it.

        Args:
            content: At most 4,000 characters.
            category: One of the five.
            scope: Whom it concerns.
            importance: 1 to 100.
            source: Session and tags it was learned from.
            trust: Who says so.
            supersedes: Id of the fact it takes the place of.
            valid_from: Since when it holds, seconds since 1970; since `now` when not given.
            now: Seconds since 1970; the clock's when not given.

        Raises:
            SecretRefused, RecallBlockRefused, FactRefused: See `fact.fact`.
            UnknownFact: `supersedes` is no fact's id.
            FactsError: The embedded store failed; nothing was written.
        """
        moment = time.time() if now is None else now
        new = fact(
            content, category, scope=scope, importance=importance, source=source, trust=trust, now=moment
        )
        since = moment if valid_from is None else valid_from
        new = replace(new, valid_from=since)
        with self._lock, self._exclusive():
            old = None if supersedes is None else self.get(supersedes)
            known = self._known(new.id)
            if known is not None:
                new = replace(new, id=known.id, purport=known.purport)
            if known is not None:
                again = old is not None and old.id != known.id
                reworded = new.content if old is not None else known.content
                revived = replace(known, status="active", superseded_by=None, valid_from=since)
                new = replace(revived if again and not known.live else known, content=reworded)
                new = new if old is not None else replace(new, seen=known.seen + 1)
            changed = [new]
            if old is not None and old.id != new.id:
                changed.append(replace(old, status="archived", superseded_by=new.id))
            self._put(changed)
        self._catch_up()
        return new

    def supersede(self, old: str, content: str, **details: Any) -> Fact:
        """Write a fact in the place of another, in its category and scope unless told otherwise. See
        `write`.
        """
        before = self.get(old)
        details = {
            "category": before.category,
            "scope": before.scope,
            "importance": before.importance,
            **details,
        }
        return self.write(content, supersedes=old, **details)

    def get(self, key: str) -> Fact:
        """The fact with this id, archived or not.

        Raises:
            UnknownFact: There is none here.
        """
        found = self._get(key)
        if found is None:
            raise UnknownFact(f"no fact {key!r} in this project: list or search for the right id")
        return found

    def restore(self, kept: Fact) -> None:
        """Put a fact back just as it was exported or edited by a person; its id must be that of its content.

        Raises:
            SecretRefused, RecallBlockRefused, FactRefused: See `fact.fact`.
        """
        plain = fact(kept.content, kept.category, scope=kept.scope, importance=kept.importance,
                     source=kept.source, trust=kept.trust, now=kept.created)  # fmt: skip
        older = kept.purport != plain.purport
        if (plain.id != kept.id and not older) or plain.content != kept.content:
            raise FactRefused(f"id {kept.id!r} does not belong to {kept.content[:80]!r}: write it anew")
        with self._lock, self._exclusive():
            self._put([kept])
        self._catch_up()

    def swap(self, expected: Mapping[str, Fact | None], wanted: Mapping[str, Fact | None]) -> bool:
        """Put facts in the place of others, by id, in one batch; None for there being none.

        Returns:
            False, and nothing is changed, where one of them is neither what is expected nor what is wanted.
        """
        with self._lock, self._exclusive():
            keys = [*dict.fromkeys([*expected, *wanted])]
            there = {fact.id: fact for fact in self._get_many(keys)}
            if any(there.get(key) not in (expected.get(key), wanted.get(key)) for key in keys):
                return False
            new = [fact for fact in wanted.values() if fact and fact != there.get(fact.id)]
            self._put(new, gone=[key for key in there if wanted.get(key) is None])
        self._catch_up()
        return True

    def archive(self, key: str) -> Fact:
        """Take a fact out of recall. It is kept, and `get` still shows it."""
        return self._set_status(key, "archived")

    def keep(self, key: str) -> Fact:
        """Make a fact permanent: recalled first, archived by nobody but a person."""
        return self._set_status(key, "permanent")

    def forget(self, key: str) -> None:
        """Remove a fact for good, from the store and from the indexes."""
        with self._lock, self._exclusive():
            self.get(key)
            self._put([], gone=[key])
        self._catch_up()

    def list(
        self,
        status: Status | None = None,
        category: Category | str | None = None,
        limit: int = 1_000,
        *,
        live: bool = False,
    ) -> FactList:
        """Facts, oldest first; of every status and category unless one is named; `live`: no archived ones."""
        kind = None if category is None else Category.of(category)
        kept = [f for f in self._all() if status in (None, f.status) and kind in (None, f.category)]
        kept = [f for f in kept if f.live] if live else kept
        return sorted(kept, key=lambda f: (f.created, f.id))[:limit]

    def count(self, status: Status | None = None) -> int:
        """How many facts there are."""
        return sum(status in (None, f.status) for f in self._all())

    @property
    def empty(self) -> bool:
        """Whether nothing was ever remembered here; asks neither index."""
        with self._lock, _stored():
            return not self._opened().search(self._space, limit=1, refresh_ttl=False)

    def search(self, query: str, k: int = 10) -> FoundFacts:
        """At most `k` facts for a query, best first, with a score up to 1; archived ones are not among them.

        Rankings by meaning, by words and by the identifiers in the query are joined by score. An index that
        fails is built anew, and left out while it cannot be.
        """
        if k < 1 or not query.strip():
            return []
        self._upkeep.load()
        with self._lock, _stored():
            asked = max(4 * k, CANDIDATES)
            rankings = self._upkeep.rankings(query, asked)
            ids = dict.fromkeys(hit.id for _, ranking in rankings for hit in ranking)
            facts = {f.id: f for f in self._get_many([*ids]) if f.live}
        shown = [(weight, [hit for hit in ranking if hit.id in facts]) for weight, ranking in rankings]
        named = by_identifiers([Entry(f.id, f.content) for f in facts.values()], query)
        fused = fuse([*shown, (1.0, named)] if named else shown, asked)
        return [(facts[hit.id], hit.score) for hit in fused[:k]]

    def unindexed(self) -> UnindexedIds:
        """Ids of the facts that an index does not hold yet: they are found by words, or were just written."""
        with self._lock, _stored():
            return self._upkeep.unindexed()

    def settle(self, seconds: float = 60.0) -> bool:
        """Wait until what was written is in every index and those that are built are whole; whether it is."""
        with _stored():
            return self._upkeep.settle(seconds)

    def rebuild(self) -> int:
        """Build every index anew from the store, and wait for it; the number of facts in them.

        Raises:
            IndexBroken: An index could not be built even so. The others were.
        """
        self._upkeep.stop()
        with self._lock, _stored():
            self._upkeep.rebuild()
            return len(self._entries())

    def close(self) -> None:
        """Let the store and the indexes go; the next use opens and checks them again."""
        self.uses.close()
        self._aliases.close()
        self._upkeep.close()
        with self._lock:
            self._store = None

    def _opened(self) -> BaseStore:
        # Without the lock where it is open: this is asked by threads that have the store's turn, while
        # whoever has the lock may wait for the turn.
        if (opened := self._store) is not None:
            return opened
        with self._lock:
            if self._store is None:
                self._store = self._open_store()
            return self._store

    def _get(self, key: str) -> Fact | None:
        return next(iter(self._get_many([key])), None)

    def _known(self, key: str) -> Fact | None:
        """The fact with this id, or the one that older tables of purport have named otherwise."""
        with _stored():
            found = self._get(key)
            return self._get(self._aliases.of(key)) if found is None else found

    def _get_many(self, ids: Sequence[str]) -> FactList:
        # A key that UTF-8 cannot hold is nobody's id, and would fail in the store.
        gets = [GetOp(self._space, key, refresh_ttl=False) for key in ids if key.isascii()]
        with _stored():
            found = self._opened().batch(gets) if gets else []
        return [Fact.from_value(item.value) for item in found if isinstance(item, Item)]

    def _all(self) -> FactList:
        facts: dict[str, Fact] = {}
        offset = 0
        while True:
            with _stored():
                found = self._opened().search(self._space, limit=_PAGE, offset=offset, refresh_ttl=False)
            facts.update((item.key, Fact.from_value(item.value)) for item in found)
            offset += len(found)
            if len(found) < _PAGE:
                return [*facts.values()]

    def _put(self, facts: Sequence[Fact], gone: Sequence[str] = ()) -> None:
        before = {f.id: (f.content, f.live) for f in self._get_many([f.id for f in facts])}
        # A sighting changes nothing that is looked up.
        changed = [f.id for f in facts if before.get(f.id) != (f.content, f.live)]
        puts = [PutOp(self._space, f.id, f.to_value(), index=False) for f in facts]
        puts += [*(PutOp(self._space, key, None) for key in gone), *self.uses.gone(gone)]
        with _stored():
            puts += [*self._aliases.puts(facts), *self._aliases.gone(self._get_many(gone))]
            self._opened().batch([*puts, *self._upkeep.marks([*changed, *gone])])
            self._upkeep.marked([*changed, *gone])

    def _set_status(self, key: str, status: Status) -> Fact:
        with self._lock, self._exclusive():
            changed = replace(self.get(key), status=status)
            self._put([changed])
        self._catch_up()
        return changed

    def _catch_up(self) -> None:
        with self._lock, _stored():
            self._upkeep.catch_up(later=True)

    def _entries(self) -> EntryList:
        return [Entry(f.id, f.content) for f in self._all() if f.live]

    def _entries_of(self, ids: Sequence[str]) -> EntryList:
        return [Entry(f.id, f.content) for f in self._get_many(ids) if f.live]


def label(name: str) -> str:
    """A tenant's or project's name as one label of a namespace: never empty, no dots, and no two names alike.

    >>> label("alice@example.com"), label("记忆库"), label("")
    ('alice@example%2Ecom', '记忆库', '%')
    """
    if not name:
        return "%"
    escaped = "".join(
        c if c not in "%." and c.isprintable() else "".join(f"%{b:02X}" for b in _bytes(c)) for c in name
    )
    # The one root that LangGraph keeps for itself.
    return "%6C" + escaped[1:] if escaped == "langgraph" else escaped


def _bytes(character: str) -> bytes:
    return character.encode("utf-8", "surrogatepass")


@contextmanager
def _stored() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise FactsError(f"the store of facts failed: {error}; check its disk and its permissions") from error

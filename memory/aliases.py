"""Facts whose ids were made by older tables of purport are found by the ids that today's tables give.

An id stays what it was: people have noted it, other facts and exported files name it. Where the tables of
`purport` have changed since, an alias beside the facts leads from the id that the text would have now to the
id that it has. Aliases are made once, when a store that older tables have named is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from langgraph.store.base import BaseStore, GetOp, Item, PutOp

from headwater.memory import purport
from headwater.memory.database import StoreTooNew
from headwater.memory.fact import Fact, fact_id

_AT_ONCE = 500


class Aliases:
    """The aliases of one space of facts.

    Args:
        store: Gives the open store.
        space: The facts' namespace.
        exclusive: Held while aliases are made for a whole store.
        facts: All facts there are.
    """

    def __init__(
        self,
        store: Callable[[], BaseStore],
        space: tuple[str, str, str],
        *,
        exclusive: Callable[[], AbstractContextManager[Any]],
        facts: Callable[[], Sequence[Fact]],
    ) -> None:
        self._store = store
        self._space = (*space[:2], "aliases", space[2])
        self._tables = (*space[:2], "indexes", space[2])
        self._exclusive = exclusive
        self._facts = facts
        self._ready = False

    def of(self, key: str) -> str:
        """The id under which the fact is kept that would have this id now; the same one where there is
        none.
        """
        self._make()
        item = self._store().get(self._space, key, refresh_ttl=False)
        return key if item is None else str(item.value["id"])

    def puts(self, facts: Sequence[Fact]) -> list[PutOp]:
        """What to put into the store beside facts, so that they are found by their ids of today."""
        return [PutOp(self._space, now, {"id": fact.id}, index=False) for fact, now in _renamed(facts)]

    def gone(self, facts: Sequence[Fact]) -> list[PutOp]:
        """What to put into the store with the removal of facts."""
        named = {now: fact.id for fact, now in _renamed(facts)}
        gets = [GetOp(self._space, now, refresh_ttl=False) for now in named]
        found = self._store().batch(gets) if gets else []
        return [
            PutOp(self._space, item.key, None)
            for item in found
            if isinstance(item, Item) and item.value["id"] == named[item.key]
        ]

    def close(self) -> None:
        """The next use looks again at what made the store's ids."""
        self._ready = False

    def _make(self) -> None:
        """Make aliases for a store that older tables have named.

        Raises:
            StoreTooNew: Newer tables have named facts in it.
        """
        if self._ready:
            return
        if self._version() < purport.VERSION:
            with self._exclusive():
                puts = self.puts([fact for fact in self._facts() if fact.purport < purport.VERSION])
                for start in range(0, len(puts), _AT_ONCE):
                    self._store().batch(puts[start : start + _AT_ONCE])
                self._store().put(self._tables, "purport", {"version": purport.VERSION}, index=False)
        self._ready = True

    def _version(self) -> int:
        item = self._store().get(self._tables, "purport", refresh_ttl=False)
        # Stores without one are of the first tables.
        found = 1 if item is None else int(item.value["version"])
        if found > purport.VERSION:
            raise StoreTooNew(
                f"facts here are named by purport {found!r}, this program knows {purport.VERSION}: "
                "upgrade headwater"
            )
        return found


def _renamed(facts: Sequence[Fact]) -> Iterator[tuple[Fact, str]]:
    """Facts named by other tables than today's, with the ids that they would have now."""
    for fact in facts:
        if fact.purport != purport.VERSION and (now := fact_id(fact.content, fact.category)) != fact.id:
            yield fact, now

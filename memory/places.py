"""The folders that share one store, as processes on several machines do: each has indexes of its own."""

from __future__ import annotations

import time
from collections.abc import Callable

from langgraph.store.base import BaseStore

AWAY = 7 * 86_400.0
"""Seconds after which a folder that was not used is no longer told of changes; it builds its indexes anew."""
_FRESH = 3_600.0
"""Seconds until a folder in use says again that it is there."""


class Places:
    """Who is to be told of a change in one space of a shared store.

    Args:
        store: Gives the open store.
        space: (tenant, project, kind), the rows' namespace.
        here: Gives this folder's name, which no other has.
        clock: Seconds since 1970, nearly the same on all machines.
    """

    def __init__(
        self,
        store: Callable[[], BaseStore],
        space: tuple[str, str, str],
        here: Callable[[], str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._space = (*space[:2], "places", space[2])
        self._name = here
        self._here = ""
        self._clock = clock
        self._said = float("-inf")
        self._missed = False

    def here(self) -> str:
        """This folder's name."""
        self._here = self._here or self._name()
        return self._here

    def missed(self) -> bool:
        """Whether changes may have passed this folder by, since it is new or was not used for too long; asked
        once.
        """
        self._say()
        missed, self._missed = self._missed, False
        return missed

    def all(self) -> list[str]:
        """The folders to be told of a change, this one among them."""
        self._say()
        oldest = self._clock() - AWAY
        found = self._store().search(self._space, limit=1_000, refresh_ttl=False)
        return [item.key for item in found if float(item.value["seen"]) >= oldest]

    def leave(self) -> None:
        """The next use says anew that this folder is there."""
        self._said = float("-inf")

    def _say(self) -> None:
        now, here = self._clock(), self.here()
        if now - self._said < _FRESH:
            return
        item = self._store().get(self._space, here, refresh_ttl=False)
        self._store().put(self._space, here, {"seen": now}, index=False)
        self._said = now
        # An hour less than the others wait: their clocks may differ.
        if item is None or now - float(item.value["seen"]) >= AWAY - _FRESH:
            self._missed = True

"""How often facts were of use: found by a search that was asked for, or recalled at a fold.

Kept beside the facts and not in them, so that a count changes no fact that somebody else holds. Counting
writes nothing; what has come together is written a few seconds later by a thread, or when it is asked for. A
kill loses the counts of those seconds, and no more.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple

from langgraph.store.base import BaseStore, GetOp, Item, PutOp

from headwater.memory.database import StorageError

_log = logging.getLogger(__name__)
DELAY = 5.0
"""Seconds from the first count until it is written, with those that came meanwhile."""

Kind = Literal["found", "recalled"]


class Use(NamedTuple):
    """How often a fact was of use so far."""

    found: int = 0
    """Searches that somebody asked for and that showed it; hints count for nothing."""
    recalled: int = 0
    """Folds that put it before a model."""
    last_found: float = 0.0
    """Seconds since 1970; 0 where it never was."""


class Uses:
    """The counts of one tenant's project.

    Args:
        store: Gives the open store.
        space: The facts' namespace.
        exclusive: Held while counts are read, raised and written.
    """

    def __init__(
        self,
        store: Callable[[], BaseStore],
        space: tuple[str, str, str],
        exclusive: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self._store = store
        self._space = (*space[:2], "uses", space[2])
        self._exclusive = exclusive
        self._lock = threading.RLock()
        self._new: dict[str, Use] = {}
        self._timer: threading.Timer | None = None

    def count(self, kind: Kind, ids: Iterable[str]) -> None:
        """Count one use more of each of these facts. Asks no file."""
        now = time.time()
        with self._lock:
            for key in ids:
                use = self._new.get(key, Use())
                if kind == "found":
                    use = use._replace(found=use.found + 1, last_found=now)
                else:
                    use = use._replace(recalled=use.recalled + 1)
                self._new[key] = use
            if self._new and self._timer is None:
                self._timer = threading.Timer(DELAY, self._late)
                self._timer.name = "headwater-uses"
                self._timer.daemon = True
                self._timer.start()

    def of(self, key: str) -> Use:
        """The counts of one fact."""
        self.flush()
        item = self._store().get(self._space, key, refresh_ttl=False)
        return Use() if item is None else Use(**item.value)

    def flush(self) -> None:
        """Write what has been counted."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            new, self._new = self._new, {}
        if not new:
            return
        # Opened before its turn: who writes facts has opened the store and waits for the turn.
        store = self._store()
        with self._exclusive():
            gets = [GetOp(self._space, key, refresh_ttl=False) for key in new]
            known = {item.key: item.value for item in store.batch(gets) if isinstance(item, Item)}
            puts = []
            for key, use in new.items():
                old = Use(**known.get(key, {}))
                last = max(old.last_found, use.last_found)
                total = Use(old.found + use.found, old.recalled + use.recalled, last)
                puts.append(PutOp(self._space, key, total._asdict(), index=False))
            store.batch(puts)

    def gone(self, ids: Iterable[str]) -> list[PutOp]:
        """Forget what was counted of these facts; what to put into the store with their removal."""
        keys = [*ids]
        with self._lock:
            for key in keys:
                self._new.pop(key, None)
        return [PutOp(self._space, key, None) for key in keys]

    def close(self) -> None:
        """Write what is left."""
        self._late()

    def _late(self) -> None:
        try:
            self.flush()
        except (StorageError, sqlite3.Error) as error:
            _log.debug("counts of facts' use are lost: %s", error)

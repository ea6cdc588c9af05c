"""The embedded store of facts: LangGraph's `SqliteStore` in a file that several processes may open."""

from __future__ import annotations

import sqlite3
import threading
import uuid
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.memory.database import Database, StorageError, closes_with, connect

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore
    from langgraph.store.sqlite import SqliteStore

# One version without tables of ours: the store makes its own, the number is the fence for newer programs.
_MIGRATIONS: tuple[tuple[str, ...], ...] = ((),)
_PLACE = ("%", "place")


class OwnStore:
    """The store, and the lock by which processes take turns in it.

    Args:
        root: The folder of `memory.sqlite`.
    """

    def __init__(self, root: Path) -> None:
        self._path = root / "memory.sqlite"
        # A file of its own: a transaction in it writes nothing and holds up nobody who only reads.
        self._turn = Database(root / "turn.sqlite", _MIGRATIONS)
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._store: SqliteStore | None = None

    def exclusive(self) -> AbstractContextManager[sqlite3.Connection]:
        """Held by one process at a time; threads of this one take turns too."""
        return self._turn.write()

    def open(self) -> BaseStore:
        """The store over the file, which is made if it is missing; the same one until it is closed.

        Raises:
            StorageError: The file cannot be opened.
            StoreTooNew: A newer version of this program wrote it.
        """
        from langgraph.store.sqlite import SqliteStore

        if (opened := self._store) is not None:
            return opened
        try:
            # Its migrations are not made for two processes that start together. Taken before the lock, since
            # whoever has its turn may be about to open the store as well.
            with self.exclusive(), self._lock:
                if self._store is None:
                    self.close_file()
                    self._connection = connect(self._path, _MIGRATIONS)
                    closes_with(self, self._connection)
                    store = SqliteStore(self._connection)
                    store.setup()
                    self._store = store
                return self._store
        except (OSError, sqlite3.Error) as error:
            raise StorageError(
                f"cannot open the store of facts {str(self._path)!r}: {error}; "
                "check the path and its permissions"
            ) from error

    def place(self) -> str:
        """The name of this folder among those that share another store; made once."""
        store = self.open()
        with self.exclusive():
            item = store.get(_PLACE, "name", refresh_ttl=False)
            if item is None:
                store.put(_PLACE, "name", {"name": uuid.uuid4().hex}, index=False)
                item = store.get(_PLACE, "name", refresh_ttl=False)
            assert item is not None
            return str(item.value["name"])

    def close_file(self) -> None:
        """Close the store's file."""
        with self._lock:
            if self._connection is not None:
                # Not under a statement of another thread, which would go on in memory that is freed.
                with self._store.lock if self._store is not None else nullcontext():
                    self._connection.close()
            self._connection = self._store = None

    def close(self) -> None:
        """Close both files; the next use opens them again."""
        self.close_file()
        self._turn.close()

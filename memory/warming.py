"""Loading what an index needs beside the work, so that the first write does not wait for a model."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable

from headwater.memory.database import StorageError


class Warming:
    """Runs once, in a daemon thread: a program that ends leaves it to the next one.

    Args:
        load: Takes seconds, and touches no file of ours.
        then: What comes after it, with the lock held; not called when it was stopped.
        lock: The owner's.
    """

    def __init__(self, load: Callable[[], None], then: Callable[[], None], lock: threading.RLock) -> None:
        self._load, self._then, self._lock = load, then, lock
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="headwater-warming", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether it is at it."""
        return self._thread.is_alive()

    def join(self, seconds: float) -> None:
        """Wait for the end, at most so long. The lock must be free."""
        self._thread.join(seconds)

    def stop(self) -> None:
        """Let it end without what comes after; it is not waited for."""
        self._stopped = True

    def _run(self) -> None:
        self._load()
        with self._lock:
            if self._stopped:
                return
            try:
                self._then()
            except (StorageError, sqlite3.Error):
                # The store is failing as well: its next use says so to whoever asked for it.
                return

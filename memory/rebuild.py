"""Building an index beside the work: a thread that can be stopped, one process at a time."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from headwater.memory.database import StorageError, private_folder
from headwater.memory.index import Entry, IndexBroken

_STEP = 200
"""Rows between two looks at whether to stop: under a second of embedding."""
_GRACE = 5.0
"""Seconds that closing waits for a build that is nearly done."""
_LONGEST = 30.0
"""Seconds that closing waits for one step: embeddings may hang, and closing must not."""


class Rebuild:
    """One build of one index, in a thread of its own.

    Args:
        whole: Whether another process has built it while this one waited for the lease.
        reset: Empties the index.
        rows: All rows to be found.
        put: Adds rows.
        finish: Adds what changed meanwhile and seals the index; called with the lock held.
        done: Told how it ended, with the lock held: the error if there was one, and whether another process
            holds the lease. Not called when the build was stopped.
        lock: The owner's lock, for the last step.
        lease: Enters with False where another process builds.
    """

    def __init__(
        self,
        *,
        whole: Callable[[], bool],
        reset: Callable[[], None],
        rows: Callable[[], Sequence[Entry]],
        put: Callable[[Sequence[Entry]], None],
        finish: Callable[[], None],
        done: Callable[[IndexBroken | None, bool], None],
        lock: threading.RLock,
        lease: Callable[[], AbstractContextManager[bool]],
    ) -> None:
        self._whole, self._reset, self._rows, self._put = whole, reset, rows, put
        self._finish, self._done = finish, done
        self._lock = lock
        self._lease = lease
        self._stopped = threading.Event()
        self._over = False
        self._thread = threading.Thread(target=self._run, name="headwater-rebuild", daemon=True)

    @property
    def alive(self) -> bool:
        """Whether the index still lacks rows because of this build."""
        return not self._over

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait for the end, at most so long. The lock must be free."""
        self._thread.join(seconds)

    def stop(self) -> None:
        """Wait a little, then stop it. What was built so far has no stamp, and is built again next time."""
        if self._stopped.is_set():
            return
        self.join(_GRACE)
        self._stopped.set()
        self.join(_LONGEST)

    def _run(self) -> None:
        error: IndexBroken | None = None
        try:
            with self._lease() as ours:
                if not ours:
                    self._end(None, busy=True)
                    return
                self._build()
        except IndexBroken as broken:
            error = broken
        except (StorageError, sqlite3.Error) as failed:
            error = IndexBroken(f"the store could not be read: {failed}")
        self._end(error, busy=False)

    def _build(self) -> None:
        if self._whole():
            return
        try:
            self._fill()
        except IndexBroken:
            # What stood in its way may be gone with the next reset, which leaves a spoilt folder.
            if not self._stopped.is_set():
                self._fill()

    def _fill(self) -> None:
        self._reset()
        # Rows are read after the reset: what is written from here on is marked, and `finish` sees the marks.
        rows = self._rows()
        for start in range(0, len(rows), _STEP):
            if self._stopped.is_set():
                return
            self._put(rows[start : start + _STEP])
        with self._lock:
            if not self._stopped.is_set():
                self._finish()

    def _end(self, error: IndexBroken | None, busy: bool) -> None:
        with self._lock:
            self._over = True
            if not self._stopped.is_set():
                try:
                    self._done(error, busy)
                except (StorageError, sqlite3.Error):
                    # The store is failing as well: its next use says so to whoever asked for it.
                    return


@contextmanager
def build_lease(path: Path) -> Iterator[bool]:
    """Whether this process may build: a lock on a file that goes with the process that holds it.

    Without waiting, and in a connection of its own, since threads of one process exclude each other too.
    """
    try:
        private_folder(path.parent)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = sqlite3.connect(path, timeout=0.0, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise StorageError(f"cannot open {str(path)!r}: {error}; check its permissions") from error
    try:
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            yield False
            return
        yield True
    finally:
        connection.close()

"""One way to open an SQLite file: private, write-ahead, shared by threads and processes, fenced by version.

Every store of this room goes through `Database`, so that a full disk, a foreign file or a newer schema is
told in one set of words.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

BUSY_SECONDS = 10.0
"""How long a writer waits for another process's transaction."""


class StorageError(RuntimeError):
    """A store on disk could not be opened, read or written. Nothing was half written."""


class StoreTooNew(StorageError):
    """The file was written by a newer version of this program; it was not touched."""


class Database:
    """One SQLite file with numbered migrations; opened on first use.

    Args:
        path: The file. Its folder is made with mode 0700, the file with mode 0600.
        migrations: One entry a schema version, each a sequence of single SQL statements.
        error: The exception that SQLite's errors are turned into.
    """

    def __init__(
        self, path: Path, migrations: Sequence[Sequence[str]], error: type[StorageError] = StorageError
    ) -> None:
        self.path = path
        self._migrations = migrations
        self._error = error
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._pid = 0

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """The connection, for queries; other threads wait."""
        with self._lock:
            try:
                yield self._open()
            except sqlite3.Error as error:
                raise self._error(self._explain(error)) from error

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of the body's statements, or none. Inside another, it is part of that."""
        with self.read() as connection:
            if connection.in_transaction:
                yield connection
                return
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file. The next use opens it again."""
        with self._lock:
            if self._connection is not None and self._pid == os.getpid():
                self._connection.close()
            self._connection = None

    def _open(self) -> sqlite3.Connection:
        # A connection must not cross a fork: the child opens its own and leaves the parent's alone.
        if self._connection is None or self._pid != os.getpid():
            try:
                self._connection = connect(self.path, self._migrations)
            except OSError as error:
                raise self._error(self._explain(error)) from error
            self._pid = os.getpid()
            # Who drops a memory without closing it has still closed its files.
            closes_with(self, self._connection)
        return self._connection

    def _explain(self, error: Exception) -> str:
        text = str(error)
        advice = "check that the path is right and that this user may read and write it"
        if "full" in text:
            advice = "free some space on the disk, then try again; nothing of this write was kept"
        elif "locked" in text or "busy" in text:
            advice = f"another process has been writing for over {BUSY_SECONDS:.0f} s; try again"
        elif "not a database" in text or "malformed" in text:
            advice = "the file is damaged or is not ours: put it aside, or restore a copy of it"
        return f"cannot use {str(self.path)!r}: {text}; {advice}"


def closes_with(owner: object, connection: sqlite3.Connection) -> None:
    """Close a connection when its owner is collected, in the process that opened it and in no other."""
    weakref.finalize(owner, _close, connection, os.getpid()).atexit = False


def _close(connection: sqlite3.Connection, pid: int) -> None:
    if pid == os.getpid():
        connection.close()


def connect(path: Path, migrations: Sequence[Sequence[str]]) -> sqlite3.Connection:
    """An open connection in autocommit mode, at the newest schema.

    Raises:
        StoreTooNew: The file's schema is newer than `migrations`.
        OSError, sqlite3.Error: The file cannot be made, opened or read.
    """
    private_folder(path.parent)
    # SQLite gives the write-ahead files the mode of the main file, so it is enough to create that one.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False, isolation_level=None)
    try:
        _set_up(connection, path, migrations)
    except BaseException:
        connection.close()
        raise
    return connection


def key_of(name: str) -> bytes:
    """A session's name as a key: bytes, since a name may hold what UTF-8 text cannot."""
    return name.encode("utf-8", "surrogatepass")


def name_of(key: bytes) -> str:
    """The name that `key_of` was given."""
    return key.decode("utf-8", "surrogatepass")


def private_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing, for this user only.

    Raises:
        OSError: It cannot be made, or something else stands there.
    """
    # `mkdir(parents=True)` gives its mode to the last folder alone.
    if not path.exists():
        private_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def _set_up(connection: sqlite3.Connection, path: Path, migrations: Sequence[Sequence[str]]) -> None:
    _use_write_ahead_log(connection)
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA foreign_keys=ON")
    if _version(connection) == len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    found = _version(connection)  # another process may have been first
    if found > len(migrations):
        connection.execute("ROLLBACK")
        raise StoreTooNew(
            f"{str(path)!r} has schema version {found}, this program knows up to {len(migrations)}: "
            "upgrade headwater, or use another directory"
        )
    for statements in migrations[found:]:
        for statement in statements:
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version={len(migrations)}")
    connection.execute("COMMIT")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    # The switch itself does not honour the busy timeout when two processes open a new file together.
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)

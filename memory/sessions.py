"""Which sessions belong to whose project: the archive numbers them all, and knows no tenants."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from headwater.memory.database import Database, key_of, name_of

_MIGRATIONS = (
    (
        "CREATE TABLE sessions(number INTEGER PRIMARY KEY, space TEXT NOT NULL, name BLOB NOT NULL, "
        "UNIQUE(space, name))",
    ),
)


class Sessions:
    """The sessions of one tenant's project. No other's is ever named here.

    Args:
        path: An SQLite file, shared by all projects of a folder; made on first use.
        tenant, project: Whose sessions.
    """

    def __init__(self, path: Path, *, tenant: str, project: str) -> None:
        self._db = Database(path, _MIGRATIONS)
        self._space = json.dumps([tenant, project])
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def claim(self, session: str) -> None:
        """Say that a session is of this project; it is remembered once.

        Raises:
            StorageError: The file cannot be written.
        """
        with self._lock:
            if session in self._known:
                return
        sql = "INSERT OR IGNORE INTO sessions(space, name) VALUES (?, ?)"
        with self._db.write() as db:
            db.execute(sql, (self._space, key_of(session)))
        with self._lock:
            self._known.add(session)

    def newest(self, limit: int = 200) -> list[str]:
        """The project's sessions, newest first."""
        sql = "SELECT name FROM sessions WHERE space = ? ORDER BY number DESC LIMIT ?"
        with self._db.read() as db:
            rows = db.execute(sql, (self._space, limit)).fetchall()
        return [name_of(row[0]) for row in rows]

    def since(self, number: int) -> list[tuple[int, str]]:
        """The project's sessions that were claimed after the one with this number, with their numbers."""
        sql = "SELECT number, name FROM sessions WHERE space = ? AND number > ? ORDER BY number"
        with self._db.read() as db:
            rows = db.execute(sql, (self._space, number)).fetchall()
        return [(int(row[0]), name_of(row[1])) for row in rows]

    def __contains__(self, session: object) -> bool:
        """Whether a session is of this project."""
        sql = "SELECT 1 FROM sessions WHERE space = ? AND name = ?"
        with self._db.read() as db:
            return db.execute(sql, (self._space, key_of(str(session)))).fetchone() is not None

    def forget(self, session: str) -> None:
        """The session is no more."""
        with self._lock:
            self._known.discard(session)
        with self._db.write() as db:
            db.execute("DELETE FROM sessions WHERE space = ? AND name = ?", (self._space, key_of(session)))

    def others(self, session: str) -> list[tuple[str, str]]:
        """Tenant and project of everyone else who has the session: two may have led one thread."""
        sql = "SELECT space FROM sessions WHERE name = ? AND space <> ?"
        with self._db.read() as db:
            rows = db.execute(sql, (key_of(session), self._space)).fetchall()
        return [(tenant, project) for tenant, project in (json.loads(row[0]) for row in rows)]

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._db.close()

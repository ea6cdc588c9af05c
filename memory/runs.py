"""What a session's background summaries stand at: the lease, the failures, the account, and the reports.

One row a session, in a file of its own, so that a run that ends writes nothing into a file on which a step
might wait. Two runs, in one process or in two, never hold the lease of one session together; the lease of a
holder that has died runs out.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from sqlite3 import Connection
from typing import Any, NamedTuple

from headwater.memory.database import Database, StorageError

FIRST_PAUSE, LONGEST_PAUSE = 30.0, 3_600.0
"""Seconds without a try after the first failure, doubled by each further one, up to an hour."""

_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE runs(
             session BLOB PRIMARY KEY,
             holder TEXT NOT NULL DEFAULT '',
             until REAL NOT NULL DEFAULT 0,
             failures INTEGER NOT NULL DEFAULT 0,
             retry_at REAL NOT NULL DEFAULT 0,
             spent INTEGER NOT NULL DEFAULT 0)""",
        "CREATE TABLE reports(id INTEGER PRIMARY KEY AUTOINCREMENT, session BLOB NOT NULL, data TEXT NOT NULL)",
        "CREATE INDEX reports_by_session ON reports(session)",
    ),
)


class RunsError(StorageError):
    """The file of background runs could not be used; no session depends on it."""


class Standing(NamedTuple):
    """One session: whether a run is under way, seconds until the next may start, failures in a row, and
    tokens spent.
    """

    held: bool = False
    pause: float = 0.0
    failures: int = 0
    spent: int = 0


class Runs:
    """Leases, back-off and spending of background runs, by session.

    Args:
        path: The SQLite file; made on first use.
        clock: Seconds, the same for all processes.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._db = Database(path, _MIGRATIONS, RunsError)
        self.clock = clock
        self.closings = 0
        """How often the file has been closed: a run that outlives a closing writes nothing."""

    def take(self, session: str, holder: str, seconds: float) -> bool:
        """Take the session's lease; False while another holds it, or while a failure's pause lasts."""
        now = self.clock()
        with self._db.write() as db:
            row = _row(db, session)
            if row.until > now or row.retry_at > now:
                return False
            if row.holder:
                _report(db, session, {"event": "historian_failed", "reason": "its process ended before it"})
            _set(db, session, holder=holder, until=now + seconds)
        return True

    def renew(self, session: str, holder: str, seconds: float, spent: int = 0) -> bool:
        """Hold on, and put what was spent since on the account; False where the lease is another's by now."""
        with self._db.write() as db:
            row = _row(db, session)
            mine = row.holder == holder
            until = self.clock() + seconds if mine else row.until
            _set(db, session, until=until, spent=row.spent + spent)
        return mine

    def end(
        self, session: str, holder: str, *, failed: bool, spent: int = 0, report: Mapping[str, Any] | None = None
    ) -> None:
        """Give the lease back with the run's outcome. A failure pauses the next try; a success forgets them."""
        with self._db.write() as db:
            row = _row(db, session)
            failures = row.failures + 1 if failed else 0
            retry_at = self.clock() + pause_after(failures) if failed else 0.0
            _set(db, session, failures=failures, retry_at=retry_at, spent=row.spent + spent)
            if row.holder == holder:
                _set(db, session, holder="", until=0.0)
            if report:
                _report(db, session, {**report, "failures": failures} if failed else report)

    def release(self, session: str, holder: str) -> None:
        """Give the lease back without an outcome: the run was called off."""
        with self._db.write() as db:
            if _row(db, session).holder == holder:
                _set(db, session, holder="", until=0.0)

    def standing(self, session: str) -> Standing:
        """How the session stands now."""
        now = self.clock()
        with self._db.read() as db:
            row = _row(db, session)
        return Standing(row.until > now, max(0.0, row.retry_at - now), row.failures, row.spent)

    def reports(self, session: str) -> list[dict[str, Any]]:
        """What has been reported since the last look, oldest first; each is given out once."""
        key = _key(session)
        with self._db.read() as db:
            if db.execute("SELECT 1 FROM reports WHERE session = ? LIMIT 1", (key,)).fetchone() is None:
                return []
        with self._db.write() as db:
            rows = db.execute("SELECT data FROM reports WHERE session = ? ORDER BY id", (key,)).fetchall()
            db.execute("DELETE FROM reports WHERE session = ?", (key,))
        return [json.loads(row[0]) for row in rows]

    def forget(self, session: str) -> None:
        """Erase all that is kept about a session."""
        with self._db.write() as db:
            db.execute("DELETE FROM runs WHERE session = ?", (_key(session),))
            db.execute("DELETE FROM reports WHERE session = ?", (_key(session),))

    def close(self) -> None:
        """Close the file, and tell runs under way to write no more; the next use opens it again."""
        self.closings += 1
        self._db.close()


def pause_after(failures: int) -> float:
    """Seconds without a try after so many failures in a row."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures - 1, 20)) if failures > 0 else 0.0


class _Row(NamedTuple):
    holder: str = ""
    until: float = 0.0
    failures: int = 0
    retry_at: float = 0.0
    spent: int = 0


def _key(session: str) -> bytes:
    return session.encode("utf-8", "surrogatepass")


def _row(db: Connection, session: str) -> _Row:
    found = db.execute(
        "SELECT holder, until, failures, retry_at, spent FROM runs WHERE session = ?", (_key(session),)
    ).fetchone()
    return _Row(*found) if found else _Row()


def _set(db: Connection, session: str, **values: Any) -> None:
    row = _row(db, session)._replace(**values)
    db.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?)", (_key(session), *row))


def _report(db: Connection, session: str, data: Mapping[str, Any]) -> None:
    text = json.dumps(dict(data), ensure_ascii=True)
    db.execute("INSERT INTO reports(session, data) VALUES (?, ?)", (_key(session), text))

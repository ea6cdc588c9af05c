"""What a session's background summaries stand at: the lease, the failures, the account, and the reports.

One row a session, in a file of its own, so that a run that ends writes nothing into a file on which a step
might wait. Two runs, in one process or in two, never hold the lease of one session together; the lease of a
holder that has died runs out.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from sqlite3 import Connection
from typing import Any, NamedTuple
from weakref import finalize

from headwater.memory.database import Database, StorageError, key_of

FIRST_PAUSE, LONGEST_PAUSE = 30.0, 3_600.0
"""Seconds without a try after the first failure, doubled by each further one, up to an hour."""

LOOK_AGAIN = 10.0
"""Seconds after which a lease that another process holds is looked at again."""

_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE runs(
             session BLOB PRIMARY KEY,
             holder TEXT NOT NULL DEFAULT '',
             until REAL NOT NULL DEFAULT 0,
             failures INTEGER NOT NULL DEFAULT 0,
             retry_at REAL NOT NULL DEFAULT 0,
             spent INTEGER NOT NULL DEFAULT 0)""",
        """CREATE TABLE reports(
             id INTEGER PRIMARY KEY AUTOINCREMENT, session BLOB NOT NULL, data TEXT NOT NULL)""",
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
        self._changed = threading.Condition(threading.RLock())
        self._live: dict[str, str] = {}
        self._hurried: set[str] = set()
        self._quiet: set[str] = set()
        self._rest: dict[str, float] = {}
        # What a program that ends without a word holds is given back, or the next one would wait for it.
        finalize(self, _give_back, self._db, self._live)

    def take(self, session: str, holder: str, seconds: float) -> bool:
        """Take the session's lease; False while another holds it, or while a failure's pause lasts."""
        now = self.clock()
        with self._changed, self._db.write() as db:
            row = _row(db, session)
            if row.until > now or row.retry_at > now:
                # Another's lease may end early, so it is looked at again soon.
                self._rest[session] = max(row.retry_at, min(row.until, now + LOOK_AGAIN))
                return False
            if row.holder:
                self._report(
                    db, session, {"event": "historian_failed", "reason": "its process ended before it"}
                )
            _set(db, session, holder=holder, until=now + seconds)
            self._live[session] = holder
        return True

    def renew(self, session: str, holder: str, seconds: float, spent: int = 0) -> bool:
        """Hold on, and put what was spent since on the account; False where the lease is another's by now."""
        with self.writing(session, holder) as mine:
            if not mine:
                return False
            with self._db.write() as db:
                row = _row(db, session)
                mine = row.holder == holder
                until = self.clock() + seconds if mine else row.until
                _set(db, session, until=until, spent=row.spent + spent)
        return mine

    def end(
        self,
        session: str,
        holder: str,
        *,
        failed: bool,
        spent: int = 0,
        report: Mapping[str, Any] | None = None,
    ) -> None:
        """Give the lease back with the outcome. A failure pauses the next try; a success forgets them."""
        with self.writing(session, holder) as mine:
            if not mine:
                return
            with self._let_go(session, holder), self._db.write() as db:
                row = _row(db, session)
                failures = row.failures + 1 if failed else 0
                retry_at = self.clock() + pause_after(failures) if failed else 0.0
                _set(db, session, failures=failures, retry_at=retry_at, spent=row.spent + spent)
                if row.holder == holder:
                    _set(db, session, holder="", until=0.0)
                if report:
                    self._report(db, session, {**report, "failures": failures} if failed else report)

    def release(self, session: str, holder: str, spent: int = 0) -> None:
        """Give the lease back without an outcome: the run was called off."""
        with self.writing(session, holder) as mine:
            if not mine:
                return
            with self._let_go(session, holder), self._db.write() as db:
                row = _row(db, session)
                _set(db, session, spent=row.spent + spent)
                if row.holder == holder:
                    _set(db, session, holder="", until=0.0)

    @contextmanager
    def writing(self, session: str, holder: str) -> Iterator[bool]:
        """Whether a run may still write; the memory is not closed before the body has ended."""
        with self._changed:
            yield self._live.get(session) == holder

    def live(self, session: str) -> bool:
        """Whether a run of this process is under way; asks no file."""
        return session in self._live

    def rests(self, session: str) -> bool:
        """Whether it is known that a run cannot start now; asks no file."""
        return self._rest.get(session, 0.0) > self.clock()

    def hurry(self, session: str) -> None:
        """Ask the session's run, if there is one, to end with the chunk it is at."""
        with self._changed:
            if session in self._live:
                self._hurried.add(session)

    def hurried(self, session: str) -> bool:
        """Whether the session's run has been asked to end soon."""
        return session in self._hurried

    def wait(self, seconds: float, session: str | None = None) -> bool:
        """Wait until no run of this process (of one session, if named) is under way; False when the time is
        up. A program may call it before it ends, to let finish what has been begun.
        """
        with self._changed:
            return self._changed.wait_for(
                lambda: session not in self._live if session is not None else not self._live, seconds
            )

    def standing(self, session: str) -> Standing:
        """How the session stands now."""
        now = self.clock()
        with self._db.read() as db:
            row = _row(db, session)
        return Standing(row.until > now, max(0.0, row.retry_at - now), row.failures, row.spent)

    def reports(self, session: str) -> list[dict[str, Any]]:
        """What has been reported since the last look, oldest first; each is given out once.

        The file is asked once a session and process, and after each report of this process.
        """
        if session in self._quiet:
            return []
        key = key_of(session)
        with self._changed, self._db.write() as db:
            rows = db.execute("SELECT data FROM reports WHERE session = ? ORDER BY id", (key,)).fetchall()
            if rows:
                db.execute("DELETE FROM reports WHERE session = ?", (key,))
            self._quiet.add(session)
        return [json.loads(row[0]) for row in rows]

    def forget(self, session: str) -> None:
        """Erase all that is kept about a session."""
        with self._db.write() as db:
            db.execute("DELETE FROM runs WHERE session = ?", (key_of(session),))
            db.execute("DELETE FROM reports WHERE session = ?", (key_of(session),))
        self._rest.pop(session, None)

    def close(self) -> None:
        """Call off the runs under way, which write no more, and close the file; the next use opens it again.

        It waits for a run that is writing, never for one that waits for a model.
        """
        with self._changed:
            _give_back(self._db, self._live)
            self._live.clear()
            self._quiet.clear()
            self._hurried.clear()
            self._db.close()
            self._changed.notify_all()

    @contextmanager
    def _let_go(self, session: str, holder: str) -> Iterator[None]:
        """The run is over when the body is, whatever became of its writing."""
        try:
            yield
        finally:
            if self._live.get(session) == holder:
                del self._live[session]
            self._hurried.discard(session)
            self._changed.notify_all()

    def _report(self, db: Connection, session: str, data: Mapping[str, Any]) -> None:
        text = json.dumps(dict(data), ensure_ascii=True)
        db.execute("INSERT INTO reports(session, data) VALUES (?, ?)", (key_of(session), text))
        self._quiet.discard(session)


def pause_after(failures: int) -> float:
    """Seconds without a try after so many failures in a row."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures - 1, 20)) if failures > 0 else 0.0


def _give_back(database: Database, live: Mapping[str, str]) -> None:
    """Give back every lease that is held. Where the file cannot be written they run out by themselves."""
    if not live:
        return
    with suppress(RunsError), database.write() as db:
        for session, holder in live.items():
            if _row(db, session).holder == holder:
                _set(db, session, holder="", until=0.0)


class _Row(NamedTuple):
    holder: str = ""
    until: float = 0.0
    failures: int = 0
    retry_at: float = 0.0
    spent: int = 0


def _row(db: Connection, session: str) -> _Row:
    found = db.execute(
        "SELECT holder, until, failures, retry_at, spent FROM runs WHERE session = ?", (key_of(session),)
    ).fetchone()
    return _Row(*found) if found else _Row()


def _set(db: Connection, session: str, **values: Any) -> None:
    row = _row(db, session)._replace(**values)
    db.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?)", (key_of(session), *row))

"""Delegated sessions: what each has concluded, and which sessions refer to which. Both outlive a crash."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headwater.memory import codec
from headwater.memory.database import Database, key_of, name_of

_MIGRATIONS = (
    (
        """CREATE TABLE accounts(
             key BLOB PRIMARY KEY,
             steps REAL NOT NULL, tokens REAL NOT NULL, cost REAL NOT NULL,
             seconds REAL NOT NULL, children REAL NOT NULL,
             spent_steps REAL NOT NULL DEFAULT 0, spent_tokens REAL NOT NULL DEFAULT 0,
             spent_cost REAL NOT NULL DEFAULT 0, ran REAL NOT NULL DEFAULT 0,
             begun INTEGER NOT NULL DEFAULT 0, overdrawn BLOB,
             over_tokens REAL NOT NULL DEFAULT 0, over_cost REAL NOT NULL DEFAULT 0) WITHOUT ROWID""",
        """CREATE TABLE holds(
             account BLOB NOT NULL, holder BLOB NOT NULL,
             steps REAL NOT NULL, tokens REAL NOT NULL, cost REAL NOT NULL,
             PRIMARY KEY (account, holder)) WITHOUT ROWID""",
        "CREATE INDEX holds_by_holder ON holds(holder)",
        """CREATE TABLE conclusions(
             session BLOB PRIMARY KEY, brief TEXT NOT NULL, data BLOB NOT NULL) WITHOUT ROWID""",
        """CREATE TABLE kin(
             parent BLOB NOT NULL, child BLOB NOT NULL, tag INTEGER NOT NULL,
             PRIMARY KEY (parent, child)) WITHOUT ROWID""",
        "CREATE INDEX kin_by_child ON kin(child)",
    ),
)


def delegations_in(path: Path) -> Database:
    """The file that holds conclusions, kinship and the ledger's accounts; made on first use."""
    return Database(path, _MIGRATIONS)


class Delegations:
    """Conclusions and kinship of delegated sessions.

    Args:
        database: The file of delegations, as `delegations_in` opens it.
    """

    def __init__(self, database: Database) -> None:
        self._db = database

    def conclude(self, session: str, brief: str, conclusion: Mapping[str, Any]) -> None:
        """Keep the conclusion of a session, and the digest of the brief it answers."""
        with self._db.write() as db:
            db.execute(
                "INSERT OR REPLACE INTO conclusions(session, brief, data) VALUES (?, ?, ?)",
                (key_of(session), brief, codec.encode(dict(conclusion))),
            )

    def concluded(self, session: str, brief: str | None = None) -> dict[str, Any] | None:
        """The conclusion of a session, if there is one and it answers this brief."""
        with self._db.read() as db:
            row = db.execute(
                "SELECT brief, data FROM conclusions WHERE session = ?", (key_of(session),)
            ).fetchone()
        if row is None or (brief is not None and row[0] != brief):
            return None
        found: dict[str, Any] = codec.decode(row[1])
        return found

    def adopt(self, parent: str, child: str, tag: int) -> bool:
        """Note that a session refers to another from a tag of its own on; False if it did already."""
        with self._db.write() as db:
            done = db.execute(
                "INSERT OR IGNORE INTO kin(parent, child, tag) VALUES (?, ?, ?)",
                (key_of(parent), key_of(child), tag),
            )
            return done.rowcount > 0

    def children(self, parent: str) -> list[tuple[str, int]]:
        """The sessions that one refers to, each with the tag from which on it does."""
        with self._db.read() as db:
            rows = db.execute(
                "SELECT child, tag FROM kin WHERE parent = ? ORDER BY tag, child", (key_of(parent),)
            ).fetchall()
        return [(name_of(child), tag) for child, tag in rows]

    def parents(self, child: str) -> list[str]:
        """The sessions that refer to one."""
        with self._db.read() as db:
            rows = db.execute(
                "SELECT parent FROM kin WHERE child = ? ORDER BY parent", (key_of(child),)
            ).fetchall()
        return [name_of(row[0]) for row in rows]

    def forget(self, session: str) -> None:
        """Erase what is known of a session as a parent, and its conclusion."""
        with self._db.write() as db:
            db.execute("DELETE FROM kin WHERE parent = ?", (key_of(session),))
            db.execute("DELETE FROM conclusions WHERE session = ?", (key_of(session),))

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._db.close()

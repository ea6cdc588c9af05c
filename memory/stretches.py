"""Where a session's tags are stored: its own stretch, then those of the past it was forked from."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection
from typing import NamedTuple

from headwater.memory.database import key_of


class Stretch(NamedTuple):
    """A run of tags that is stored under one session of a fork's ancestry."""

    owner: int
    first: int
    last: int
    compartments: int
    """Newest compartment row of the owner that is in sight."""


def owner_of(db: Connection, session: str) -> int | None:
    """The number of the session of this name, if there is one."""
    row = db.execute("SELECT id FROM sessions WHERE name = ?", (key_of(session),)).fetchone()
    return None if row is None else int(row[0])


def stretches_of(db: Connection, owner: int | None) -> list[Stretch]:
    """Where the session's tags are stored: its own stretch first, then its ancestors'. Empty for no
    session.
    """
    rows = db.execute(
        """WITH RECURSIVE line(depth, id, parent, forked_at, seen) AS (
             SELECT 0, id, parent, forked_at, compartments_seen FROM sessions WHERE id = ?
             UNION ALL
             SELECT depth + 1, s.id, s.parent, s.forked_at, s.compartments_seen
             FROM sessions s JOIN line ON s.id = line.parent
           ) SELECT id, forked_at, seen FROM line ORDER BY depth""",
        (owner,),
    ).fetchall()
    stretches: list[Stretch] = []
    high, visible = 0, 2**62
    for number, forked_at, seen in rows:
        if not stretches:
            newest = db.execute("SELECT max(tag) FROM messages WHERE session = ?", (number,)).fetchone()[0]
            high = max(newest or 0, forked_at)
        stretches.append(Stretch(number, forked_at + 1, high, visible))
        high, visible = min(high, forked_at), min(visible, seen)
    return stretches


def last_of(stretches: Sequence[Stretch]) -> int:
    """The newest tag; 0 where there is none."""
    return stretches[0].last if stretches else 0


def find(db: Connection, stretches: Sequence[Stretch], key: bytes) -> int | None:
    """The tag of the message with this key, the nearest stretch's first."""
    sql = "SELECT min(tag) FROM messages WHERE session = ? AND key = ? AND tag <= ?"
    for stretch in stretches:
        if stretch.first <= stretch.last and (
            found := db.execute(sql, (stretch.owner, key, stretch.last)).fetchone()[0]
        ):
            return int(found)
    return None

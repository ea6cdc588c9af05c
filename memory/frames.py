"""The frames of agents whose graph forgets them, as each answer left them.

A supervisor or a swarm starts the graph of an agent anew at every turn, with the messages and nothing else.
So what the frame was is kept by the message that ended the step: an earlier message finds an earlier frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from headwater.memory import codec
from headwater.memory.database import Database, key_of

KEPT = 64
"""Frames of one agent in one session; older ones are let go, and their place begins anew."""

_MIGRATIONS = (
    (
        """CREATE TABLE frames(
             number INTEGER PRIMARY KEY AUTOINCREMENT,
             session BLOB NOT NULL,
             agent BLOB NOT NULL,
             message BLOB NOT NULL,
             data BLOB NOT NULL,
             UNIQUE(session, agent, message))""",
        "CREATE INDEX frames_by_agent ON frames(session, agent, number)",
    ),
)
_TAGGED = ("edits", "hints")


class Frames:
    """Channels of governance by session, agent and message.

    Args:
        path: The SQLite file; made on first use.
    """

    def __init__(self, path: Path) -> None:
        self._db = Database(path, _MIGRATIONS)

    def keep(self, session: str, agent: str, message: str, values: dict[str, Any]) -> None:
        """Keep what the channels held when a message (by id) had ended the step."""
        plain = dict(values)
        for name in _TAGGED:
            plain[name] = {str(tag): text for tag, text in (values.get(name) or {}).items()}
        key = key_of(session), key_of(agent)
        with self._db.write() as db:
            db.execute(
                "INSERT OR REPLACE INTO frames(session, agent, message, data) VALUES (?, ?, ?, ?)",
                (*key, key_of(message), codec.encode(plain)),
            )
            db.execute(
                "DELETE FROM frames WHERE session = ? AND agent = ? AND number <= ("
                "SELECT number FROM frames WHERE session = ? AND agent = ? "
                "ORDER BY number DESC LIMIT 1 OFFSET ?)",
                (*key, *key, KEPT),
            )

    def find(
        self, session: str, agent: str, messages: Sequence[str]
    ) -> Iterator[tuple[dict[str, Any], bool]]:
        """What was kept by these messages, the last of them first, and whether nothing was kept since."""
        key = key_of(session), key_of(agent)
        with self._db.read() as db:
            rows = db.execute("SELECT message, number FROM frames WHERE session = ? AND agent = ?", key)
            numbers: dict[bytes, int] = dict(rows.fetchall())
        newest = max(numbers.values(), default=0)
        for message in reversed(messages):
            number = numbers.get(key_of(message))
            if number is None:
                continue
            with self._db.read() as db:
                row = db.execute("SELECT data FROM frames WHERE number = ?", (number,)).fetchone()
            if row is not None:
                values: dict[str, Any] = codec.decode(row[0])
                for name in _TAGGED:
                    values[name] = {int(tag): text for tag, text in values[name].items()}
                yield values, number == newest

    def forget(self, session: str) -> None:
        """Let go of all that is kept of a session."""
        with self._db.write() as db:
            db.execute("DELETE FROM frames WHERE session = ?", (key_of(session),))

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._db.close()

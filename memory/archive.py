"""The log: every message of every session, numbered, appended and never edited (M1, C15).

A session is a key in a database, never a path (case 64). A fork points at its parent and a tag; it copies
nothing. The database itself refuses to change a message or a compartment, whoever asks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from langchain_core.messages import BaseMessage

from headwater.memory import codec, compartment_rows, history
from headwater.memory.archive_schema import MIGRATIONS
from headwater.memory.compartment_rows import CompartmentRow
from headwater.memory.database import Database, StorageError, key_of, name_of
from headwater.memory.stretches import Stretch, find, last_of, owner_of, stretches_of
from headwater.window.marks import spans

BLOB_BYTES = 65_536
"""Contents above this are stored once, by their hash, however many messages carry them."""

_SELECT = (
    "SELECT m.tag, m.body, coalesce(m.content, b.data) FROM messages m LEFT JOIN blobs b ON b.hash = m.blob "
    "WHERE m.session = ? AND m.tag BETWEEN ? AND ? ORDER BY m.tag"
)


class ArchiveError(StorageError):
    """The archive could not be opened, read or written; what was there before is unchanged."""


class UnknownSession(LookupError):
    """No session of this name has been archived."""


class UnknownTag(LookupError):
    """A tag that this session does not have."""


class SessionExists(ValueError):
    """A fork was given a name that is taken."""


def heir_of(number: int) -> str:
    """What a deleted session is called, by its number, while forks share its past; no session has such a
    name.
    """
    return f"\x00{number}"


class Archive:
    """Raw messages by session and tag.

    Args:
        path: The SQLite file; made on first use.
    """

    def __init__(self, path: Path) -> None:
        self._db = Database(path, MIGRATIONS, ArchiveError)

    def append(self, session: str, messages: Sequence[BaseMessage]) -> list[int]:
        """Archive messages in one transaction and return their tags.

        Tags start at 1, grow by one and are never used twice in a session. A message with an id whose
        content was archived before in this session, or in the past it was forked from, gets the tag it has.
        A message without an id is always new: two people may say "yes".

        Raises:
            ArchiveError: The disk is full or read-only, or a message is not JSON. Nothing was archived.
        """
        if not messages:
            return []
        try:
            records = [codec.record(message) for message in messages]
        except (TypeError, ValueError) as error:
            raise ArchiveError(f"a message for session {session!r} cannot be written: {error}") from error
        with self._db.write() as db:
            owner = owner_of(db, session)
            if owner is None:
                owner = db.execute("INSERT INTO sessions(name) VALUES (?)", (key_of(session),)).lastrowid or 0
            past = stretches_of(db, owner)
            tag = last_of(past)
            tags: list[int] = []
            for message, record in zip(messages, records, strict=True):
                known = find(db, past, record.key) if message.id else None
                if known is None:
                    known = tag = tag + 1
                    _insert(db, owner, tag, record)
                    past[0] = past[0]._replace(last=tag)
                tags.append(known)
        return tags

    def restore(self, session: str, rows: Mapping[int, BaseMessage]) -> list[int]:
        """Put back messages at the tags that they have, where this archive ends before them: it was lost, or
        the session went on in another folder. What it has is left as it is.

        Returns:
            The tags that were put back. Those between that nobody has stay without a message; the next
            `append` counts on from the last.

        Raises:
            ArchiveError: As in `append`. Nothing was put back.
        """
        try:
            records = {tag: codec.record(rows[tag]) for tag in sorted(rows)}
        except (TypeError, ValueError) as error:
            raise ArchiveError(f"a message for session {session!r} cannot be written: {error}") from error
        with self._db.write() as db:
            owner = owner_of(db, session)
            if owner is None:
                # A past that is not here: its tags are taken, as a fork's are by its trunk.
                before = min(records, default=1) - 1
                sql = "INSERT INTO sessions(name, forked_at) VALUES (?, ?)"
                owner = db.execute(sql, (key_of(session), before)).lastrowid or 0
            last = last_of(stretches_of(db, owner))
            late = [tag for tag in records if tag > last]
            for tag in late:
                _insert(db, owner, tag, records[tag])
        return late

    def get(self, session: str, tag: int) -> BaseMessage:
        """The message with this tag, as it was archived.

        Raises:
            UnknownTag: The session has no such tag; the text names the tags it has.
        """
        found = self.read(session, tag, tag)
        if not found:
            raise UnknownTag(f"session {session!r} has no tag {tag!r}: {self._known(session, tag)}")
        return found[0][1]

    def read(self, session: str, first: int, last: int) -> list[tuple[int, BaseMessage]]:
        """The messages with tags from `first` to `last`, both included; those that do not exist are left
        out.
        """
        rows: list[tuple[int, bytes, bytes]] = []
        with self._db.read() as db:
            for stretch in reversed(stretches_of(db, owner_of(db, session))):
                low, high = max(first, stretch.first), min(last, stretch.last)
                if low <= high:
                    rows += db.execute(_SELECT, (stretch.owner, low, high)).fetchall()
        return [(tag, codec.message(body, content)) for tag, body, content in rows]

    def tags(self, session: str) -> list[list[int]]:
        """The tags whose messages are here, as [first, last] runs."""
        found: list[int] = []
        sql = "SELECT tag FROM messages WHERE session = ? AND tag BETWEEN ? AND ? ORDER BY tag"
        with self._db.read() as db:
            for owner, first, last, _ in reversed(stretches_of(db, owner_of(db, session))):
                found += [row[0] for row in db.execute(sql, (owner, first, last))]
        return spans(found)

    def last(self, session: str) -> int:
        """The newest tag of the session; 0 when there is none."""
        with self._db.read() as db:
            return last_of(stretches_of(db, owner_of(db, session)))

    def _known(self, session: str, tag: int) -> str:
        last = self.last(session)
        if not last:
            return "nothing was archived under this name"
        if not 0 < tag <= last:
            return f"it has tags 1 to {last}"
        shown = ", ".join(f"{a} to {b}" for a, b in self.tags(session)[-8:])
        return f"its text was lost, or is in another folder; here are {shown}"

    def fork(self, session: str, new_session: str, at: int | None = None) -> None:
        """Start a session whose past is this one's up to tag `at` (default: all of it), by reference.

        What either appends afterwards, the other does not see; both go on counting from their own last tag
        (M25).

        Raises:
            UnknownSession: There is no session of the first name.
            SessionExists: There is one of the second.
            UnknownTag: `at` is beyond the last tag, or negative.
        """
        with self._db.write() as db:
            parent = owner_of(db, session)
            if parent is None:
                raise UnknownSession(f"no session {session!r} to fork: append to it first")
            if owner_of(db, new_session) is not None:
                raise SessionExists(f"session {new_session!r} exists: choose another name for the fork")
            last = last_of(stretches_of(db, parent))
            point = last if at is None else at
            if not 0 <= point <= last:
                raise UnknownTag(f"session {session!r} cannot be forked at {at!r}: it has tags 1 to {last}")
            seen = db.execute("SELECT coalesce(max(id), 0) FROM compartments").fetchone()[0]
            db.execute(
                "INSERT INTO sessions(name, parent, forked_at, compartments_seen) VALUES (?, ?, ?, ?)",
                (key_of(new_session), parent, point, seen),
            )

    def sessions(self) -> list[str]:
        """The names of all sessions, oldest first."""
        with self._db.read() as db:
            rows = db.execute("SELECT name FROM sessions WHERE name IS NOT NULL ORDER BY id").fetchall()
        return [name_of(row[0]) for row in rows]

    def ancestry(self, session: str) -> list[tuple[str, int]]:
        """The sessions whose past a fork shares, nearest first, each with the last tag of it that it sees.

        A deleted one is named as `heir_of` names it.
        """
        with self._db.read() as db:
            found = []
            for stretch in stretches_of(db, owner_of(db, session))[1:]:
                name = db.execute("SELECT name FROM sessions WHERE id = ?", (stretch.owner,)).fetchone()[0]
                known = heir_of(stretch.owner) if name is None else name_of(name)
                found.append((known, stretch.last))
        return found

    def delete(self, session: str) -> list[tuple[int, int | None]]:
        """Forget a session: its name is free, and all that no fork refers to is erased. Unknown names are
        ignored.

        Returns:
            The number of the session, and of each deleted one above it, with the last tag that is kept of
            it for its forks; None where nothing is.
        """
        with self._db.write() as db:
            owner = owner_of(db, session)
            left: list[tuple[int, int | None]] = []
            if owner is None:
                return left
            db.execute("UPDATE sessions SET name = NULL WHERE id = ?", (owner,))
            while owner is not None:
                owner = _erase_unreferenced(db, owner, left)
            db.execute("DELETE FROM blobs WHERE NOT EXISTS (SELECT 1 FROM messages WHERE blob = blobs.hash)")
        return left

    def search(self, session: str, query: str, limit: int = 10) -> list[tuple[int, str]]:
        """Tags whose messages match the words of a query, best first, each with a snippet of ≤ 220 chars.

        Lexical: identifiers whole and in parts, Chinese by pairs. A fork searches the past it shares.
        """
        with self._db.read() as db:
            stretches = stretches_of(db, owner_of(db, session))
        found = history.search(self._db, stretches, query, limit) if stretches and limit > 0 else []
        return [(match.tag, history.snippet_of(self.get(session, match.tag), query)) for match in found]

    def search_beside(
        self, session: str, others: Sequence[str], query: str, limit: int = 10
    ) -> list[tuple[str, int, str]]:
        """What other sessions hold that this one does not share: session, tag and snippet, best first.

        A past that was forked off is looked at once, in the session that wrote it.
        """
        with self._db.read() as db:
            shared = {s.owner: s.last for s in stretches_of(db, owner_of(db, session))}
            places: dict[int, tuple[str, Stretch]] = {}
            for name in others:
                for own in stretches_of(db, owner_of(db, name))[:1]:
                    first = max(own.first, shared.get(own.owner, 0) + 1)
                    if name != session and first <= own.last:
                        places[own.owner] = name, own._replace(first=first)
        if not places or limit < 1:
            return []
        found = history.search(self._db, [stretch for _, stretch in places.values()], query, limit)
        return [
            (places[m.owner][0], m.tag, history.snippet_of(self.get(places[m.owner][0], m.tag), query))
            for m in found
        ]

    def put_compartment(self, session: str, data: Mapping[str, Any]) -> int:
        """Append a compartment and return its id; `first` and `last` are its tags (G35: only rows).

        Raises:
            UnknownTag: `first` and `last` are no range of archived tags.
        """
        first, last = data.get("first"), data.get("last")
        with self._db.write() as db:
            owner = owner_of(db, session)
            newest = last_of(stretches_of(db, owner))
            if not isinstance(first, int) or not isinstance(last, int) or not 1 <= first <= last <= newest:
                raise UnknownTag(
                    f"a compartment of {session!r} from {first!r} to {last!r}: tags are 1 to {newest}"
                )
            row = (owner, first, last, codec.encode(dict(data)))
            sql = "INSERT INTO compartments(session, first, last, data) VALUES (?, ?, ?, ?)"
            return db.execute(sql, row).lastrowid or 0

    def compartments(self, session: str, newer_than: int = 0) -> list[tuple[int, dict[str, Any]]]:
        """The compartments of the session with ids above `newer_than`, by id. A fork sees those that lay
        wholly before its fork when it was made.
        """
        sql = "SELECT id, data FROM compartments WHERE session = ? AND last <= ? AND id <= ? AND id > ?"
        rows: list[tuple[int, bytes]] = []
        with self._db.read() as db:
            for stretch in stretches_of(db, owner_of(db, session)):
                rows += db.execute(
                    sql, (stretch.owner, stretch.last, stretch.compartments, newer_than)
                ).fetchall()
        return [(number, codec.decode(data)) for number, data in sorted(rows)]

    def compartments_above(self, number: int, limit: int) -> list[CompartmentRow]:
        """The compartments of all sessions with ids above `number`, by id."""
        with self._db.read() as db:
            return compartment_rows.rows_above(db, number, limit)

    def compartment_rows(self, numbers: Iterable[int]) -> list[CompartmentRow]:
        """The compartments with these ids; those that do not exist are left out."""
        with self._db.read() as db:
            return compartment_rows.rows_of(db, [*numbers])

    def newest_compartment(self) -> int:
        """The id of the newest compartment of all; 0 where there is none."""
        with self._db.read() as db:
            return int(db.execute("SELECT coalesce(max(id), 0) FROM compartments").fetchone()[0])

    def forks_of(self, owner: int) -> list[str]:
        """The names of the sessions that descend from the one with this number."""
        with self._db.read() as db:
            return compartment_rows.forks_of(db, owner)

    def stretches(self, session: str) -> list[Stretch]:
        """Where the session's tags and compartments are stored: its own stretch first, then its past's."""
        with self._db.read() as db:
            return stretches_of(db, owner_of(db, session))

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._db.close()


def _insert(db: Connection, owner: int, tag: int, record: codec.Record) -> None:
    content: bytes | None = record.content
    blob: bytes | None = None
    if len(record.content) > BLOB_BYTES:
        blob, content = hashlib.blake2b(record.content, digest_size=32).digest(), None
        db.execute("INSERT OR IGNORE INTO blobs(hash, data) VALUES (?, ?)", (blob, record.content))
    db.execute(
        "INSERT INTO messages(session, tag, key, body, content, blob) VALUES (?, ?, ?, ?, ?, ?)",
        (owner, tag, record.key, record.body, content, blob),
    )


def _erase_unreferenced(db: Connection, owner: int, left: list[tuple[int, int | None]]) -> int | None:
    """Erase a nameless session's rows beyond its forks' need; the parent to look at next when nothing is
    left.
    """
    parent, alive = db.execute(
        "SELECT parent, name IS NOT NULL FROM sessions WHERE id = ?", (owner,)
    ).fetchone()
    if alive:
        return None
    needed = db.execute(
        "SELECT max(forked_at), max(compartments_seen) FROM sessions WHERE parent = ?", (owner,)
    ).fetchone()
    keep, seen = needed[0], needed[1]
    left.append((owner, keep))
    history.forget(db, owner, after=keep or 0)
    db.execute(
        "DELETE FROM compartments WHERE session = ? AND (last > ? OR id > ?)", (owner, keep or 0, seen or 0)
    )
    db.execute("DELETE FROM messages WHERE session = ? AND tag > ?", (owner, keep or 0))
    if keep is not None:
        # What its forks do not need of its own ancestors is no longer needed through it either.
        db.execute("UPDATE sessions SET forked_at = min(forked_at, ?) WHERE id = ?", (keep, owner))
        return None if parent is None else int(parent)
    db.execute("DELETE FROM sessions WHERE id = ?", (owner,))
    return None if parent is None else int(parent)

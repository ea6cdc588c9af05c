"""Search in the archive: an FTS5 index that is filled when someone searches, so that appending stays cheap.

Rows are numbered session × 2³² + tag, so that one session's matches are a range of the index and no other
session's rows are looked at. Where SQLite has no FTS5, or the index cannot be written, the messages
themselves are read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from langchain_core.messages import BaseMessage

from headwater.memory import codec, lexical
from headwater.memory.database import Database, StorageError
from headwater.memory.stretches import Stretch

INDEXED_CHARS = 2_000_000
"""Characters of one message that are searchable; what is longer is an artifact, and read by page."""

_TAGS = 2**32
_BATCH = 200
_TABLE = f"""CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(
  body, content='', columnsize=1, tokenize="{lexical.TOKENIZER}")"""
_UNINDEXED = (
    "SELECT m.tag, m.body, coalesce(m.content, b.data) FROM messages m LEFT JOIN blobs b ON b.hash = m.blob "
    "WHERE m.session = ? AND m.tag > ? AND m.tag <= ? ORDER BY m.tag"
)


class Match(NamedTuple):
    """A message that matches: where it is stored, and how well; a lower score is better."""

    score: float
    owner: int
    tag: int


def search(database: Database, stretches: Sequence[Stretch], query: str, limit: int) -> list[Match]:
    """The best matches, best first; ties go to the newer."""
    match = lexical.match_query(query)
    try:
        if not match:
            return _scan(database, stretches, query, limit)
        for stretch in stretches:
            _catch_up(database, stretch)
        return _ranked(database, stretches, match, limit)
    except StorageError as error:
        # An old SQLite without FTS5, or no room left to index: slower, but nothing is out of reach.
        if not isinstance(error.__cause__, sqlite3.Error):
            raise
        return _scan(database, stretches, query, limit)


def snippet_of(message: BaseMessage, query: str) -> str:
    """What to show of a message that was found."""
    return lexical.snippet(codec.searchable(message)[:INDEXED_CHARS], query)


def forget(db: sqlite3.Connection, session: int, after: int) -> None:
    """Take a session's tags above `after` out of the index, inside the caller's transaction."""
    row = db.execute("SELECT tag FROM indexed WHERE session = ?", (session,)).fetchone()
    if row is None:
        return
    # A table without content removes a row only when told what it held.
    for tag, words in _words(db, session, after, row[0]):
        values = (session * _TAGS + tag, words)
        db.execute("INSERT INTO words(words, rowid, body) VALUES ('delete', ?, ?)", values)
    db.execute("UPDATE indexed SET tag = min(tag, ?) WHERE session = ?", (after, session))


def _catch_up(database: Database, stretch: Stretch) -> None:
    while True:
        with database.read() as db:
            done = _indexed(db, stretch.owner)
        if done >= stretch.last or stretch.first > stretch.last:
            return
        with database.write() as db:
            db.execute(_TABLE)
            done = _indexed(db, stretch.owner)  # another process may have gone on
            upto = min(stretch.last, max(done, stretch.first - 1) + _BATCH)
            rows = [
                (stretch.owner * _TAGS + tag, words) for tag, words in _words(db, stretch.owner, done, upto)
            ]
            db.executemany("INSERT INTO words(rowid, body) VALUES (?, ?)", rows)
            db.execute(
                "INSERT INTO indexed(session, tag) VALUES (?, ?) "
                "ON CONFLICT(session) DO UPDATE SET tag = max(tag, excluded.tag)",
                (stretch.owner, upto),
            )


def _indexed(db: sqlite3.Connection, session: int) -> int:
    row = db.execute("SELECT tag FROM indexed WHERE session = ?", (session,)).fetchone()
    return row[0] if row else 0


def _ranked(database: Database, stretches: Sequence[Stretch], match: str, limit: int) -> list[Match]:
    found: list[Match] = []
    sql = (
        "SELECT bm25(words), rowid FROM words WHERE words MATCH ? AND rowid BETWEEN ? AND ? "
        "ORDER BY 1, 2 DESC LIMIT ?"
    )
    with database.read() as db:
        for stretch in stretches:
            low, high = stretch.owner * _TAGS + stretch.first, stretch.owner * _TAGS + stretch.last
            if low <= high:
                rows = db.execute(sql, (match, low, high, limit)).fetchall()
                found += [Match(score, *divmod(rowid, _TAGS)) for score, rowid in rows]
    return _best(found, limit)


def _scan(database: Database, stretches: Sequence[Stretch], query: str, limit: int) -> list[Match]:
    wanted = set(lexical.tokens(query))
    plain = query.strip().lower()
    found: list[Match] = []
    for stretch in stretches:
        with database.read() as db:
            for tag, text in _texts(db, stretch.owner, stretch.first - 1, stretch.last):
                hits = len(wanted.intersection(lexical.tokens(text))) + bool(plain and plain in text.lower())
                if hits:
                    found.append(Match(-float(hits), stretch.owner, tag))
    return _best(found, limit)


def _best(found: Sequence[Match], limit: int) -> list[Match]:
    return sorted(found, key=lambda m: (m.score, -m.tag, m.owner))[:limit]


def _words(db: sqlite3.Connection, session: int, after: int, upto: int) -> Iterator[tuple[int, str]]:
    for tag, text in _texts(db, session, after, upto):
        yield tag, " ".join(lexical.tokens(text))


def _texts(db: sqlite3.Connection, session: int, after: int, upto: int) -> Iterator[tuple[int, str]]:
    for tag, body, content in db.execute(_UNINDEXED, (session, after, upto)).fetchall():
        yield tag, codec.searchable(codec.message(body, content))[:INDEXED_CHARS]

"""The lexical index: BM25 by SQLite's FTS5, identifiers and Chinese by `lexical.tokens`. Needs no model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from headwater.memory import lexical
from headwater.memory.database import Database, StorageError
from headwater.memory.index import Entry, Hit, IndexBroken

_FORMAT = "words-2"
# A message of several lines in Chinese has some hundred pairs, and any of them may be the rare one.
_TERMS = 400
_MIGRATIONS = (
    (
        """CREATE TABLE entries(
             number INTEGER PRIMARY KEY, space TEXT NOT NULL, id TEXT NOT NULL, UNIQUE(space, id))""",
        "CREATE TABLE stamps(space TEXT PRIMARY KEY, stamp TEXT NOT NULL)",
        f"""CREATE VIRTUAL TABLE words USING fts5(body, tokenize="{lexical.TOKENIZER}")""",
    ),
)


class LexicalIndex:
    """An `Index` by words.

    Args:
        path: Its SQLite file; made on first use.
    """

    weight: float = 0.6
    """Chosen on conversations of LoCoMo and MADial-Bench that were not counted for the result."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = Database(path, _MIGRATIONS)

    def stamp(self, space: tuple[str, ...]) -> str | None:
        """See `Index`."""
        with _broken_if_unusable(), self._db.read() as db:
            row = db.execute("SELECT stamp FROM stamps WHERE space = ?", (_text(space),)).fetchone()
        return None if row is None else str(row[0])

    def reset(self, space: tuple[str, ...]) -> None:
        """See `Index`. A file that cannot be opened is replaced by an empty one."""
        try:
            self._clear(space)
        except StorageError:
            self._db.close()
            try:
                for suffix in ("", "-wal", "-shm"):
                    self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
            except OSError as error:
                raise IndexBroken(
                    f"{str(self._path)!r} is unusable and cannot be replaced: {error}"
                ) from error
            with _broken_if_unusable():
                self._clear(space)

    def seal(self, space: tuple[str, ...], stamp: str) -> None:
        """See `Index`."""
        with _broken_if_unusable(), self._db.write() as db:
            db.execute("INSERT OR REPLACE INTO stamps(space, stamp) VALUES (?, ?)", (_text(space), stamp))

    def signature(self) -> str:
        """See `Index`."""
        return _FORMAT

    def size(self, space: tuple[str, ...]) -> int:
        """See `Index`."""
        with _broken_if_unusable(), self._db.read() as db:
            return int(
                db.execute("SELECT count(*) FROM entries WHERE space = ?", (_text(space),)).fetchone()[0]
            )

    def pieces(self, text: str) -> int:
        """See `Index`: one row an entry."""
        return 1

    def upsert(self, space: tuple[str, ...], entries: Sequence[Entry]) -> None:
        """See `Index`."""
        name = _text(space)
        with _broken_if_unusable(), self._db.write() as db:
            for entry in entries:
                db.execute("INSERT OR IGNORE INTO entries(space, id) VALUES (?, ?)", (name, entry.id))
                sql = "SELECT number FROM entries WHERE space = ? AND id = ?"
                number = db.execute(sql, (name, entry.id)).fetchone()[0]
                body = " ".join(map(lexical.stem, lexical.tokens(entry.text)))
                db.execute("INSERT OR REPLACE INTO words(rowid, body) VALUES (?, ?)", (number, body))

    def delete(self, space: tuple[str, ...], ids: Sequence[str]) -> None:
        """See `Index`."""
        with _broken_if_unusable(), self._db.write() as db:
            for key in ids:
                sql = "DELETE FROM entries WHERE space = ? AND id = ? RETURNING number"
                for (number,) in db.execute(sql, (_text(space), key)).fetchall():
                    db.execute("DELETE FROM words WHERE rowid = ?", (number,))

    def search(self, space: tuple[str, ...], query: str, k: int) -> list[Hit]:
        """See `Index`. Scores are BM25, higher is better."""
        match = lexical.match_query(query, _TERMS, stems=True)
        if not match or k < 1:
            return []
        sql = (
            "SELECT e.id, -bm25(words) FROM words JOIN entries e ON e.number = words.rowid "
            "WHERE words MATCH ? AND e.space = ? ORDER BY 2 DESC, 1 LIMIT ?"
        )
        with _broken_if_unusable(), self._db.read() as db:
            return [Hit(*row) for row in db.execute(sql, (match, _text(space), k)).fetchall()]

    def close(self) -> None:
        """See `Index`."""
        self._db.close()

    def _clear(self, space: tuple[str, ...]) -> None:
        with self._db.write() as db:
            db.execute("DELETE FROM stamps WHERE space = ?", (_text(space),))
            db.execute(
                "DELETE FROM words WHERE rowid IN (SELECT number FROM entries WHERE space = ?)",
                (_text(space),),
            )
            db.execute("DELETE FROM entries WHERE space = ?", (_text(space),))


@contextmanager
def _broken_if_unusable() -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        raise IndexBroken(str(error)) from error


def _text(space: tuple[str, ...]) -> str:
    return json.dumps(space)

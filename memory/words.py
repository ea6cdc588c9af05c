"""The lexical index: BM25 over SQLite's FTS5, identifiers and Chinese by `lexical.tokens`. Needs no model.

FTS5 finds the candidates; they are scored here, since its own score punishes length more than short
memories deserve, and cannot be compared across queries.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from headwater.memory import lexical
from headwater.memory.database import Database, StorageError
from headwater.memory.index import Entry, Hit, IndexBroken

_FORMAT = "words-2"
# A message of several lines in Chinese has some hundred pairs, and any of them may be the rare one.
_TERMS = 400
_CANDIDATES = 200
_K1, _B = 1.2, 0.4
_UNKNOWN_SHARE = 0.1
_MIGRATIONS = (
    (
        """CREATE TABLE entries(
             number INTEGER PRIMARY KEY, space TEXT NOT NULL, id TEXT NOT NULL, UNIQUE(space, id))""",
        "CREATE TABLE stamps(space TEXT PRIMARY KEY, stamp TEXT NOT NULL)",
        f"""CREATE VIRTUAL TABLE words USING fts5(body, tokenize="{lexical.TOKENIZER}")""",
    ),
    ("CREATE VIRTUAL TABLE terms USING fts5vocab('words', 'row')",),
)


class LexicalIndex:
    """An `Index` by words.

    Args:
        path: Its SQLite file; made on first use.
    """

    weight: float = 1.25
    """Chosen, like the constants above, on one half of the queries of `benchmarks.recall`; docs/recall.md
    shows both halves.
    """

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
        """See `Index`. A score is the share of the query's rare words that a text holds: BM25 over the sum of
        the words' weights, at most 1.
        """
        terms = lexical.query_terms(query, _TERMS, stems=True)
        if not terms or k < 1:
            return []
        sql = (
            "SELECT e.id, words.body FROM words JOIN entries e ON e.number = words.rowid "
            "WHERE words MATCH ? AND e.space = ? ORDER BY bm25(words), 1 LIMIT ?"
        )
        values = (lexical.match_query(terms), _text(space), max(k, _CANDIDATES))
        with _broken_if_unusable(), self._db.read() as db:
            found = db.execute(sql, values).fetchall()
            weights = _weights(db, terms) if found else {}
        return _scored(found, weights)[:k]

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


def _weights(db: sqlite3.Connection, terms: Sequence[lexical.Term]) -> dict[lexical.Term, tuple[float, bool]]:
    """How rare each term is (inverse document frequency), and whether any text has it."""
    total = db.execute("SELECT count(*) FROM entries").fetchone()[0]
    weights: dict[lexical.Term, tuple[float, bool]] = {}
    for term in terms:
        last = term.text + "\U0010ffff" if term.prefix else term.text
        sql = "SELECT coalesce(sum(doc), 0) FROM terms WHERE term BETWEEN ? AND ?"
        texts = min(total, db.execute(sql, (term.text, last)).fetchone()[0])
        weights[term] = math.log(1 + (total - texts + 0.5) / (texts + 0.5)), texts > 0
    return weights


def _scored(
    found: Sequence[tuple[str, str]], weights: Mapping[lexical.Term, tuple[float, bool]]
) -> list[Hit]:
    # A word that no text has counts a little: a long query of which one word is known is not answered by it.
    whole = sum(weight * (1.0 if known else _UNKNOWN_SHARE) for weight, known in weights.values())
    bodies = [(key, body.split()) for key, body in found]
    usual = sum(len(words) for _, words in bodies) / len(bodies) if bodies else 1.0
    hits: list[Hit] = []
    for key, words in bodies:
        counts = Counter(words)
        dampened = _K1 * (1 - _B + _B * len(words) / usual)
        score = 0.0
        for term, (weight, _) in weights.items():
            times = counts[term.text]
            if term.prefix:
                times = sum(word.startswith(term.text) for word in words)
            score += weight * times * (_K1 + 1) / (times + dampened)
        # What is over 1 only orders those that hold it all.
        hits.append(Hit(key, (min(1.0, score / whole) + 1e-6 * score / whole) / (1 + 1e-5)))
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))


@contextmanager
def _broken_if_unusable() -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        raise IndexBroken(str(error)) from error


def _text(space: tuple[str, ...]) -> str:
    return json.dumps(space)

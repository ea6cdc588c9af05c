"""Forgetting for good: a person's right that nothing of a fact stays, in any file."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import NamedTuple

from headwater.memory import codec
from headwater.memory.database import StorageError
from headwater.memory.dream_journal import journal_of
from headwater.memory.kinship import delete_session
from headwater.memory.memory import Memory
from headwater.memory.notes import export_facts

_FILES = ("memory", "words", "dreams")
_SESSION_FILES = ("archive", "told", "shelf", "frames", "delegations", "runs")


class Forgotten(NamedTuple):
    """What was removed."""

    content: str
    sessions: tuple[str, ...]
    """Sessions that were erased, with the sub-agents that only they referred to."""


def forget_fact(
    memory: Memory, key: str, *, sessions: bool = False, exports: Path | None = None
) -> Forgotten:
    """Remove a fact from the store, the indexes, the dreamer's journal and the exported files; if asked, from
    the sessions too.

    Freed pages are wiped too, so the files are rewritten: nobody else should have the folder open. The log is
    append-only, so whole sessions leave: the one it was learned in, and all that hold its words.

    Args:
        memory: It is closed when this returns, and opens again when it is used.
        key: The fact's id.
        sessions: Whether those sessions are erased.
        exports: A folder that facts were exported to; it is written anew.

    Raises:
        UnknownFact: There is none of this id here.
        StorageError: A file is in use or cannot be rewritten; the fact itself is gone from the store.
    """
    fact = memory.facts.get(key)
    gone = (
        tuple(_sessions_with(memory, fact.content, fact.source and fact.source.session)) if sessions else ()
    )
    memory.facts.forget(key)
    freed = [name for session in gone for name in delete_session(memory, session, referred=True)]
    journal = journal_of(memory)
    if journal.path.exists():
        journal.forget(key, fact.content)
        journal.close()
    if exports is not None and exports.is_dir():
        export_facts(memory.facts, exports)
    memory.close()
    for name in (*_FILES, *(_SESSION_FILES if gone else ())):
        _wipe(memory.root / f"{name}.sqlite")
    return Forgotten(fact.content, tuple(dict.fromkeys([*gone, *freed])))


def _sessions_with(memory: Memory, content: str, source: str | None) -> list[str]:
    found = []
    for session in memory.archive.sessions():
        tags = [tag for tag, _ in memory.archive.search(session, content, limit=20)]
        texts = (codec.searchable(memory.archive.get(session, tag)) for tag in tags)
        if session == source or any(content in text for text in texts):
            found.append(session)
    return found


def _wipe(path: Path) -> None:
    if not path.exists():
        return
    try:
        db = sqlite3.connect(path, timeout=10.0, isolation_level=None)
        try:
            if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'words'").fetchone():
                # A deleted row stays in the index of words until its pieces are merged.
                db.execute("INSERT INTO words(words) VALUES ('optimize')")
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            db.close()
    except sqlite3.Error as error:
        raise StorageError(
            f"cannot rewrite {str(path)!r}: {error}; stop what uses this memory, then forget again"
        ) from error

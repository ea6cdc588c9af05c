"""The shelf: sessions set aside and forks not yet begun, each a frame and the tags of its tail.

Messages are in the archive and are referred to; only one that the window shows otherwise than it was said
(cleaned, stubbed at arrival) is kept beside. A fork costs a row, however long its past is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict

from headwater.memory import codec
from headwater.memory.archive import Archive
from headwater.memory.database import Database, key_of
from headwater.window.marks import stamp, tag_of

_MIGRATIONS = (
    ("CREATE TABLE shelf(session BLOB PRIMARY KEY, line TEXT NOT NULL, data BLOB NOT NULL) WITHOUT ROWID",),
)
CHANNELS = ("frame", "edits", "hints", "purse", "pins", "facts")


class Shelf:
    """Session states by name.

    Args:
        path: The SQLite file; made on first use.
        archive: Where the messages are.
    """

    def __init__(self, path: Path, archive: Archive) -> None:
        self._db = Database(path, _MIGRATIONS)
        self._archive = archive

    def put(self, session: str, values: dict[str, Any], line: str = "") -> None:
        """Set a state aside under the name of an archived session; every message must be numbered."""
        messages: list[BaseMessage] = list(values.get("messages") or [])
        tags = [tag_of(m) for m in messages]
        log = dict(self._archive.read(session, min(tags), max(tags))) if tags else {}
        faces = {
            str(tag): message_to_dict(m)
            for tag, m in zip(tags, messages, strict=True)
            if tag not in log or stamp(log[tag], tag) != m
        }
        plain = {name: values[name] for name in CHANNELS if values.get(name)}
        for name in ("edits", "hints"):
            plain[name] = {str(tag): text for tag, text in (plain.get(name) or {}).items()}
        data = codec.encode({"tags": tags, "faces": faces, "values": plain})
        with self._db.write() as db:
            db.execute("INSERT OR REPLACE INTO shelf VALUES (?, ?, ?)", (key_of(session), line, data))

    def get(self, session: str) -> dict[str, Any] | None:
        """The state, exactly as it was; None where nothing was set aside."""
        with self._db.read() as db:
            row = db.execute("SELECT data FROM shelf WHERE session = ?", (key_of(session),)).fetchone()
        if row is None:
            return None
        data = codec.decode(row[0])
        tags, faces = data["tags"], data["faces"]
        log = dict(self._archive.read(session, min(tags), max(tags))) if tags else {}
        values: dict[str, Any] = dict(data["values"])
        for name in ("edits", "hints"):
            values[name] = {int(tag): text for tag, text in values[name].items()}
        values["messages"] = [
            messages_from_dict([faces[str(tag)]])[0] if str(tag) in faces else stamp(log[tag], tag)
            for tag in tags
        ]
        return values

    def line(self, session: str) -> str | None:
        """The one line a session was folded to; None where it is not on the shelf."""
        with self._db.read() as db:
            row = db.execute("SELECT line FROM shelf WHERE session = ?", (key_of(session),)).fetchone()
        return None if row is None else str(row[0])

    def drop(self, session: str) -> None:
        """Take a session off the shelf."""
        with self._db.write() as db:
            db.execute("DELETE FROM shelf WHERE session = ?", (key_of(session),))

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._db.close()

"""Offloaded bytes as files, named by their content (M10): there is no time and no random id in a name.

The references of sessions to artifacts are counted, so that deleting a session frees what no other session
needs.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from headwater.memory.database import Database, StorageError, key_of, private_folder
from headwater.memory.files import decode_text
from headwater.window.stubs import artifact_name, encode

_NAME = re.compile(r"artifacts/([0-9a-f]{2})/(\1[0-9a-f]{30})(\.[A-Za-z0-9]{1,16}|)")
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,16}|")
_MIGRATIONS = (
    (
        """CREATE TABLE holds(
             name TEXT NOT NULL,
             session BLOB NOT NULL,
             PRIMARY KEY (session, name)) WITHOUT ROWID""",
        "CREATE INDEX holds_by_name ON holds(name)",
    ),
    # From which tag of the session on it refers to the artifact: a fork from before does not.
    ("ALTER TABLE holds ADD COLUMN tag INTEGER NOT NULL DEFAULT 0",),
)
_HOLD = (
    "INSERT INTO holds(name, session, tag) VALUES (?, ?, ?) "
    "ON CONFLICT(session, name) DO UPDATE SET tag = min(tag, excluded.tag)"
)


class ArtifactError(StorageError):
    """An artifact could not be written or read."""


class ArtifactMissing(ArtifactError, LookupError):
    """No artifact of this name is stored."""


class ArtifactCorrupt(ArtifactError):
    """The file does not hold what its name says."""


class PathRefused(ValueError):
    """A name that is not an artifact's, or that leads out of the artifacts' folder."""


class Artifacts:
    """Content-addressed files under `root/artifacts`.

    Args:
        root: The folder that names are relative to.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._db = Database(root / "artifacts.sqlite", _MIGRATIONS, ArtifactError)

    def name_of(self, data: bytes | str, suffix: str = ".txt") -> str:
        """The name this content has, for example `artifacts/ab/abcdef….txt`: a pure function, nothing is
        written.
        """
        if not _SUFFIX.fullmatch(suffix):
            raise PathRefused(f"suffix {suffix!r}: use a dot and up to 16 letters or digits, or nothing")
        return artifact_name(_encode(data), suffix)

    def put(
        self, data: bytes | str, suffix: str = ".txt", *, session: str | None = None, tag: int = 0
    ) -> str:
        """Store content and return its name. Whole or not at all; storing it again changes nothing.

        With `session`, the session holds the artifact from before it is written: no `release` elsewhere can
        free it in between, as it could between a `put` and a `retain`; `tag` is from where on it does.

        Text is stored as UTF-8; a lone surrogate is kept as three bytes, as `surrogatepass` does.

        Raises:
            ArtifactError: The disk is full or read-only. No part of the file is left.
        """
        content = _encode(data)
        name = self.name_of(content, suffix)
        path = self.path(name)
        if session is not None:
            with self._db.write() as db:
                db.execute(_HOLD, (name, key_of(session), tag))
        try:
            # A file that is there may be damaged; writing the right bytes over it heals it.
            if path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content:
                return name
            private_folder(path.parent)
            _write_atomically(path, content)
        except OSError as error:
            raise ArtifactError(
                f"cannot write {name!r} under {str(self._root)!r}: {error}; free space or choose another root"
            ) from error
        return name

    def path(self, name: str) -> Path:
        """The file of a name, whether or not it exists.

        Raises:
            PathRefused: The name is not of the form that `put` returns, or a link leads out of the folder.
        """
        if not _NAME.fullmatch(name):
            raise PathRefused(
                f"{name!r} is not an artifact's name: they look like 'artifacts/ab/abcdef….txt'"
            )
        home = (self._root / "artifacts").resolve()
        path = self._root / name
        if not path.resolve().is_relative_to(home):
            raise PathRefused(f"{name!r} leads out of {str(home)!r} by a link: remove the link")
        return path

    def read_bytes(self, name: str) -> bytes:
        """The content, checked against its name.

        Raises:
            PathRefused: See `path`.
            ArtifactMissing: There is no such file.
            ArtifactCorrupt: Its bytes are not those that were stored.
        """
        path = self.path(name)
        try:
            content = path.read_bytes()
        except FileNotFoundError as error:
            raise ArtifactMissing(
                f"no artifact {name!r} under {str(self._root)!r}: it was never stored or is freed"
            ) from error
        except OSError as error:
            raise ArtifactError(f"cannot read {name!r} under {str(self._root)!r}: {error}") from error
        if path.stem != Path(artifact_name(content)).stem:
            raise ArtifactCorrupt(
                f"{name!r} was changed on disk: restore it from a copy, or from the archive"
            )
        return content

    def read_text(self, name: str) -> str:
        """The content as text: exactly the text that was put, or bytes decoded as `files.decode_text`
        does.
        """
        content = self.read_bytes(name)
        try:
            return content.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return decode_text(content)[0]

    def encoding(self, name: str) -> str:
        """The encoding that `read_text` reads this artifact with: utf-8, gb18030 or latin-1."""
        content = self.read_bytes(name)
        try:
            content.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return decode_text(content)[1]
        return "utf-8"

    def retain(self, name: str, session: str, tag: int = 0) -> None:
        """Note that a session refers to an artifact. Any number of times counts once.

        Raises:
            ArtifactMissing: It is not stored (or was freed in the meantime): put it again.
        """
        with self._db.write() as db:
            db.execute(_HOLD, (name, key_of(session), tag))
            if not self.path(name).is_file():
                raise ArtifactMissing(f"no artifact {name!r} for session {session!r} to hold: put it again")

    def release(self, session: str, after: int = -1) -> list[str]:
        """Drop a session's references, or those from tags above `after`; delete the files that nobody refers
        to any more, and return their names.
        """
        with self._db.write() as db:
            rows = db.execute(
                "SELECT name FROM holds h WHERE session = ? AND tag > ? AND NOT EXISTS "
                "(SELECT 1 FROM holds o WHERE o.name = h.name AND o.session <> h.session) ORDER BY name",
                (key_of(session), after),
            ).fetchall()
            db.execute("DELETE FROM holds WHERE session = ? AND tag > ?", (key_of(session), after))
            freed = [str(row[0]) for row in rows]
            # Inside the transaction: nobody can begin to hold a file while it goes.
            for name in freed:
                self.path(name).unlink(missing_ok=True)
        return freed

    def keep_for_forks(self, session: str, heir: str, upto: int) -> list[str]:
        """Rename what a deleted session holds up to a tag, for its forks; release the rest, as `release`."""
        with self._db.write() as db:
            db.execute(
                "INSERT OR IGNORE INTO holds(name, session, tag) "
                "SELECT name, ?, tag FROM holds WHERE session = ? AND tag <= ?",
                (key_of(heir), key_of(session), upto),
            )
            return self.release(session, upto if session == heir else -1)

    def close(self) -> None:
        """Close the table of references; the next use opens it again."""
        self._db.close()


def _encode(data: bytes | str) -> bytes:
    return encode(data) if isinstance(data, str) else data


def _write_atomically(path: Path, content: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    # The rename itself must outlive a power cut; only POSIX lets a folder be opened.
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

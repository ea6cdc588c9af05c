"""The memory folder: who may read it, what is in it, and whether every file of it is sound."""

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from headwater.doctor import Finding, Report
from headwater.memory import Memory, StorageError

_INDEXES = ("words.sqlite", "told.sqlite", "chroma")
"""Made anew, from the facts and from what was told, whenever they are missing."""


def look_at_folder(report: Report, folder: Path) -> Iterator[Finding]:
    """Findings of the folder and of every store in it."""
    if not folder.exists():
        yield report.good("memory", "no folder", folder=str(folder))
        return
    if not folder.is_dir():
        yield report.bad("memory", "not a folder", folder=str(folder))
        return
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield report.bad("memory", "not writable", folder=str(folder))
        return
    mode = folder.stat().st_mode & 0o777
    if os.name == "posix" and mode & 0o077:
        yield report.bad("memory", "open", folder=str(folder), mode=oct(mode)[2:])
    broken = dict(_broken_files(folder))
    yield from _files(report, folder, broken)
    with Memory(folder) as memory:
        if "archive.sqlite" not in broken:
            yield _archive(report, memory, folder)
        yield _artifacts(report, memory, folder)
        if "memory.sqlite" not in broken:
            yield _facts(report, memory, folder)


def _sqlite_files(folder: Path) -> list[Path]:
    return sorted([*folder.glob("*.sqlite"), *folder.glob("chroma/*/chroma.sqlite3")])


def _broken_files(folder: Path) -> Iterator[tuple[str, str]]:
    """Files that SQLite's own check finds fault with, by name; each is opened for reading only."""
    for file in _sqlite_files(folder):
        name = file.relative_to(folder).as_posix()
        try:
            with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as db:
                (said,) = db.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.Error as error:
            yield name, str(error)
        else:
            if said != "ok":
                yield name, str(said)


def _files(report: Report, folder: Path, broken: dict[str, str]) -> Iterator[Finding]:
    sound = [f.relative_to(folder).as_posix() for f in _sqlite_files(folder)]
    sound = [name for name in sound if name not in broken]
    if sound:
        yield report.good("stores", "stores", names=", ".join(sound))
    for name, error in broken.items():
        index = name.partition("/")[0]
        if index in _INDEXES:
            part = str(folder / index)
            yield report.bad("stores", "broken", do="broken index", part=part, error=error)
        else:
            yield report.bad("stores", "broken", part=name, error=error)


def _archive(report: Report, memory: Memory, folder: Path) -> Finding:
    if not (folder / "archive.sqlite").exists():
        return report.good("stores", "archive", sessions=0, messages=0)
    try:
        names = memory.archive.sessions()
        messages = sum(map(memory.archive.last, names))
    except StorageError as error:
        return report.bad("stores", "broken", part="archive.sqlite", error=str(error))
    return report.good("stores", "archive", sessions=len(names), messages=messages)


def _artifacts(report: Report, memory: Memory, folder: Path) -> Finding:
    home = folder / "artifacts"
    names = sorted(
        f"artifacts/{f.relative_to(home).as_posix()}" for f in home.rglob("*.*") if not f.name.startswith(".")
    )
    damaged = []
    for name in names:
        try:
            memory.artifacts.read_bytes(name)
        except (StorageError, ValueError):
            damaged.append(name)
    if damaged:
        return report.bad("stores", "damaged", damaged=len(damaged), count=len(names), first=damaged[0])
    return report.good("stores", "artifacts", count=len(names))


def _facts(report: Report, memory: Memory, folder: Path) -> Finding:
    if not (folder / "memory.sqlite").exists():
        return report.good("stores", "facts", count=0)
    try:
        count = len(memory.facts.list(live=True, limit=sys.maxsize))
    except StorageError as error:
        return report.bad("stores", "broken", part="memory.sqlite", error=str(error))
    return report.good("stores", "facts", count=count)

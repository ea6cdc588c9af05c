"""The dreamer's journal: what a run has planned, done and spent, so that a killed one goes on (G16).

A task's whole plan is written before the first of its changes is made, and each change carries the values
before and after it; so a run that goes on plans nothing twice, and a run can be undone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.memory.database import Database, StorageError
from headwater.memory.dream_change import Change, DreamError, Entry, State
from headwater.memory.facts import label

if TYPE_CHECKING:
    from headwater.memory.memory import Memory

_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE runs(
             id TEXT PRIMARY KEY, space TEXT NOT NULL, started REAL NOT NULL, ended REAL,
             state TEXT NOT NULL, tasks TEXT NOT NULL, tokens INTEGER NOT NULL DEFAULT 0)""",
        "CREATE INDEX runs_by_space ON runs(space, started)",
        "CREATE TABLE planned(run TEXT NOT NULL, task TEXT NOT NULL, PRIMARY KEY(run, task))",
        """CREATE TABLE changes(
             run TEXT NOT NULL, seq INTEGER NOT NULL, data TEXT NOT NULL, state TEXT NOT NULL,
             note TEXT NOT NULL DEFAULT '', PRIMARY KEY(run, seq))""",
        """CREATE TABLE answers(
             run TEXT NOT NULL, question TEXT NOT NULL, answer TEXT NOT NULL, PRIMARY KEY(run, question))""",
        "CREATE TABLE kept(space TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, "
        "PRIMARY KEY(space, name))",
    ),
)


class JournalError(StorageError):
    """The dreamer's journal could not be read or written; no session depends on it."""


class Run(NamedTuple):
    """One run: "running" until all its tasks are done, then "done"; "undone" when it was taken back."""

    id: str
    started: float
    ended: float | None
    state: str
    tasks: tuple[str, ...]
    tokens: int


class Journal:
    """The runs of one tenant's project.

    Args:
        path: The SQLite file; made on first use.
        space: Whose runs.
    """

    def __init__(self, path: Path, space: str) -> None:
        self.path = path
        self.space = space
        self._db = Database(path, _MIGRATIONS, JournalError)

    def begin(self, run: str, started: float, tasks: Sequence[str]) -> Run:
        """Open a run."""
        with self._db.write() as db:
            db.execute(
                "INSERT INTO runs(id, space, started, state, tasks) VALUES (?, ?, ?, 'running', ?)",
                (run, self.space, started, json.dumps(list(tasks))),
            )
        return self.run(run)

    def run(self, run: str) -> Run:
        """A run by its id.

        Raises:
            DreamError: This project has no such run.
        """
        found = next((r for r in self.runs() if r.id == run), None)
        if found is None:
            known = ", ".join(r.id for r in self.runs()[:5]) or "none yet"
            raise DreamError(f"no dream {run!r} in this project; the newest are: {known}")
        return found

    def runs(self) -> list[Run]:
        """All runs, newest first."""
        with self._db.read() as db:
            rows = db.execute(
                "SELECT id, started, ended, state, tasks, tokens FROM runs WHERE space = ? "
                "ORDER BY started DESC, rowid DESC",
                (self.space,),
            ).fetchall()
        return [Run(r[0], r[1], r[2], r[3], tuple(json.loads(r[4])), r[5]) for r in rows]

    def open_run(self) -> Run | None:
        """The run that was begun and neither ended nor taken back."""
        return next((run for run in self.runs() if run.state == "running"), None)

    def finish(self, run: str, state: str, now: float) -> None:
        """Close a run as "done" or "undone"."""
        with self._db.write() as db:
            db.execute("UPDATE runs SET state = ?, ended = ? WHERE id = ?", (state, now, run))

    def planned(self, run: str) -> set[str]:
        """The tasks whose plan is written."""
        with self._db.read() as db:
            return {row[0] for row in db.execute("SELECT task FROM planned WHERE run = ?", (run,))}

    def plan(self, run: str, task: str, changes: Sequence[Change]) -> None:
        """Write a task's whole plan, in one transaction."""
        with self._db.write() as db:
            last = "SELECT coalesce(max(seq), -1) FROM changes WHERE run = ?"
            first = db.execute(last, (run,)).fetchone()[0] + 1
            db.execute("INSERT INTO planned VALUES (?, ?)", (run, task))
            db.executemany(
                "INSERT INTO changes(run, seq, data, state) VALUES (?, ?, ?, 'planned')",
                [(run, first + i, _json(change.to_dict())) for i, change in enumerate(changes)],
            )

    def entries(self, run: str, *states: State) -> list[Entry]:
        """The changes of a run in order, in these states or in any."""
        with self._db.read() as db:
            rows = db.execute(
                "SELECT seq, data, state, note FROM changes WHERE run = ? ORDER BY seq", (run,)
            ).fetchall()
        found = [
            Entry(seq, Change.from_dict(json.loads(data)), state, note) for seq, data, state, note in rows
        ]
        return [entry for entry in found if not states or entry.state in states]

    def refused(self) -> set[tuple[str, str, str]]:
        """The matter of all changes that a person has taken back; kept values are made anew each time."""
        undone = [run.id for run in self.runs() if run.state == "undone"]
        changes = [entry.change for run in undone for entry in self.entries(run, "undone")]
        return {change.matter for change in changes if change.kind != "kept"}

    def mark(self, run: str, entry: Entry) -> None:
        """Note what became of a change; with it, the values that it had to do with."""
        with self._db.write() as db:
            db.execute(
                "UPDATE changes SET data = ?, state = ?, note = ? WHERE run = ? AND seq = ?",
                (_json(entry.change.to_dict()), entry.state, entry.note, run, entry.seq),
            )

    def answer(self, run: str, question: str) -> str | None:
        """What a model has answered in this run to a question, by its digest."""
        with self._db.read() as db:
            row = db.execute(
                "SELECT answer FROM answers WHERE run = ? AND question = ?", (run, question)
            ).fetchone()
        return None if row is None else str(row[0])

    def keep_answer(self, run: str, question: str, answer: str, tokens: int) -> None:
        """Keep an answer and put its tokens on the run's account."""
        with self._db.write() as db:
            db.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", (run, question, _safe(answer)))
            db.execute("UPDATE runs SET tokens = tokens + ? WHERE id = ?", (tokens, run))

    def kept(self, name: str) -> Any:
        """A value that outlives runs; None where there is none."""
        with self._db.read() as db:
            row = db.execute(
                "SELECT value FROM kept WHERE space = ? AND name = ?", (self.space, name)
            ).fetchone()
        return None if row is None else json.loads(row[0])

    def keep(self, name: str, value: Any) -> None:
        """Set a value that outlives runs."""
        with self._db.write() as db:
            db.execute("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", (self.space, name, _json(value)))

    def forget(self, key: str, content: str) -> None:
        """Erase what tells of a fact: its changes, which can no longer be undone, and what a model said."""
        said = _json(content)[1:-1]
        with self._db.write() as db:
            for run in self.runs():
                for entry in self.entries(run.id):
                    data = _json(entry.change.to_dict())
                    # A kept value is of many facts, and names them by their ids alone.
                    if said in data or (entry.change.kind != "kept" and key in data):
                        db.execute("DELETE FROM changes WHERE run = ? AND seq = ?", (run.id, entry.seq))
                db.execute("DELETE FROM answers WHERE run = ?", (run.id,))

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._db.close()


def journal_of(memory: Memory) -> Journal:
    """The journal of a memory's tenant and project."""
    return Journal(memory.root / "dreams.sqlite", f"{label(memory.tenant)}/{label(memory.project)}")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True)


def _safe(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")

"""What a dream changes: one change with its reason, and the report of a run (G16)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

TASKS = (
    "consolidate",
    "verify",
    "archive-stale",
    "improve",
    "maintain-docs",
    "user_memories",
    "pin_key_files",
)
"""The seven tasks, in the order in which they run."""

Kind = Literal["facts", "write", "section", "kept", "notice"]
State = Literal["planned", "applied", "skipped", "undone"]


class DreamError(ValueError):
    """A dream that cannot be dreamt or undone as asked; the message says what to do."""


@dataclass(frozen=True)
class Change:
    """One change, complete enough to be made again and to be taken back.

    Attributes:
        task: One of `TASKS`.
        kind: "facts" sets stored facts to given values; "write" sends a text through the facts' write path;
            "section" is the text between two marks of a document; "kept" is a value that outlives runs;
            "notice" changes nothing and tells a person what to look at.
        target: A fact's id ("" for a new one), "FILE#section", or the name of a kept value.
        reason: Why, for people.
        before, after: The values, JSON: facts by id (None: there is none), a text, or a kept value.
        text: What the target says, for the report.
    """

    task: str
    kind: Kind
    target: str
    reason: str
    before: Any = None
    after: Any = None
    text: str = ""

    @property
    def matter(self) -> tuple[str, str, str]:
        """What is proposed, whatever the values are by now: a person who undid it does not want it again."""
        said = self.after if self.kind == "section" else self.text if not self.target else ""
        return self.task, self.target, str(said)

    def to_dict(self) -> dict[str, Any]:
        """The form that the journal and `--json` hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Change:
        """The change that `to_dict` was taken from."""
        return cls(**data)


class Entry(NamedTuple):
    """A change as it stands in the journal; `note` says why it was skipped, or could not be undone."""

    seq: int
    change: Change
    state: State
    note: str = ""


Outcome = Literal["done", "dry", "paused", "busy", "not due", "undone"]


@dataclass(frozen=True)
class Report:
    """What a dream did, or would do.

    Attributes:
        run: Its id, by which it is undone; "" where there was none.
        outcome: "done"; "dry", nothing was changed; "paused", the hours are over and it goes on in the next;
            "busy", another process dreams; "not due"; "undone".
        entries: Each change with its reason and what became of it.
        tasks: Those that ran.
        tokens: Spent on its model.
        notes: What a person should know about the run as a whole.
    """

    run: str
    outcome: Outcome
    entries: Sequence[Entry] = ()
    tasks: Sequence[str] = ()
    tokens: int = 0
    started: float = 0.0
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def changed(self) -> int:
        """How many changes are in force."""
        return sum(entry.state == "applied" and entry.change.kind != "notice" for entry in self.entries)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for `--json`."""
        return {
            "run": self.run,
            "outcome": self.outcome,
            "tasks": list(self.tasks),
            "tokens": self.tokens,
            "started": self.started,
            "changes": [{**e.change.to_dict(), "state": e.state, "note": e.note} for e in self.entries],
            "notes": list(self.notes),
        }

    def text(self) -> str:
        """The report for people: a line a change, and why."""
        lines = [
            f"dream {self.run or '-'}: {self.outcome}, {len(self.entries)} changes, {self.tokens:,} tokens"
        ]
        last = ""
        for entry in self.entries:
            change = entry.change
            if change.task != last:
                lines.append(f"{change.task}")
                last = change.task
            said = f" “{_short(change.text)}”" if change.text else ""
            state = f"{entry.state}: " if entry.state in ("skipped", "undone") else ""
            lines.append(f"  {state}{change.target}{said}")
            lines.append(f"    {change.reason}" + (f" ({entry.note})" if entry.note else ""))
        return "\n".join([*lines, *self.notes])


def _short(text: str, most: int = 90) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"

"""What a task looks at: the facts as they stand, the project's files, and the sessions; and nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage

from headwater.memory.dream_change import Change
from headwater.memory.fact import Fact
from headwater.memory.files import decode_text
from headwater.memory.git import ask_git
from headwater.memory.inside import file_inside
from headwater.memory.uses import Use

if TYPE_CHECKING:
    from headwater.memory.archive import Archive

FILE_BYTES = 1_000_000
"""A larger file is not read."""

GIT_SECONDS = 10.0
"""A file that the project never had is looked for in all of its history."""

_SKIPPED = frozenset(
    {"node_modules", "__pycache__", "venv", "env", "dist", "build", "target", "site-packages", "vendor"}
)
_MOST_FILES = 20_000


@dataclass
class World:
    """What one task may look at.

    Attributes:
        facts: Every fact of the project by id, archived ones too.
        project: The project's folder; None leaves its files alone.
        archive: Where the sessions' messages are.
        sessions: Those of this tenant's project; no other is read.
        now: When the run began, seconds since 1970.
        ask: A question and its material; a JSON value or None.
        kept: Values that outlive runs, by name.
        use: How often the fact with an id was found and recalled.
    """

    facts: dict[str, Fact]
    project: Path | None
    archive: Archive
    sessions: Sequence[str]
    now: float
    ask: Callable[[str, str], Any]
    kept: Callable[[str], Any]
    use: Callable[[str], Use]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def live(self) -> list[Fact]:
        """The facts that may be recalled, oldest first."""
        return sorted((f for f in self.facts.values() if f.live), key=lambda f: (f.created, f.id))

    def path(self, name: str) -> Path | None:
        """The file of this name inside the project; None where it would lie outside, however it is named."""
        return None if self.project is None or not name else file_inside(self.project, name)

    def text(self, name: str) -> str | None:
        """The text of a project's file; None where there is none, or it is too large, or outside."""
        path = self.path(name)
        try:
            if path is None or not path.is_file() or path.stat().st_size > FILE_BYTES:
                return None
            return decode_text(path.read_bytes())[0]
        except OSError:
            return None

    @cached_property
    def files(self) -> list[str]:
        """The project's files by path, sorted; hidden and generated folders are left out."""
        if self.project is None:
            return []
        return sorted(_walk(self.project.resolve()))

    def messages(self, session: str, tags: Sequence[int] = ()) -> list[tuple[int, BaseMessage]]:
        """A session's messages, all or from the first of these tags to the last."""
        last = self.archive.last(session)
        if not last or session not in self.sessions:
            return []
        first, upto = (min(tags), min(max(tags), last)) if tags else (1, last)
        return self.archive.read(session, first, upto) if first <= upto else []

    def has_commit(self, commit: str) -> bool | None:
        """Whether the project's repository has a commit; None where there is no telling."""
        said = self._git("cat-file", "-e", f"{commit}^{{commit}}")
        return None if said is None else said[0] == 0

    def once_committed(self, name: str) -> bool:
        """Whether the project's repository has ever had a file of this name."""
        said = self._git("log", "-1", "--format=%h", "--", f":(literal){name}")
        return said is not None and said[0] == 0 and bool(said[1].strip())

    def _git(self, *words: str) -> tuple[int, str] | None:
        if self.project is None or not (self.project / ".git").exists():
            return None
        return ask_git(self.project, *words, seconds=GIT_SECONDS)


def seen_after(facts: Mapping[str, Fact], changes: Sequence[Change]) -> dict[str, Fact]:
    """The facts as they would stand after some changes: what a dry run's next task looks at."""
    found = dict(facts)
    for change in changes:
        if change.kind in ("facts", "write"):
            for key, value in (change.after or {}).items():
                if value is None:
                    found.pop(key, None)
                else:
                    found[key] = Fact.from_value(value)
    return found


def _walk(root: Path) -> Iterator[str]:
    count = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in _SKIPPED)
        for name in sorted(names):
            if not name.startswith("."):
                yield (Path(folder) / name).relative_to(root).as_posix()
                count += 1
                if count >= _MOST_FILES:
                    return

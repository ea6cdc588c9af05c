"""What the dreamer's tests share: a project with files and commits, and a memory with something to tidy."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from headwater.memory import Dreamer, Memory
from headwater.memory.dream_change import Report
from headwater.memory.words import LexicalIndex

DAY = 86_400.0
NIGHT = datetime(2026, 11, 30, 3, 0, tzinfo=UTC).timestamp()
SESSION = "work/1"

ARCHITECTURE = """# Ours

By hand.
<!-- headwater:architecture -->
- an old line
<!-- /headwater:architecture -->
Also by hand.\r
"""


class Clock:
    """Seconds that stand still unless they are moved."""

    def __init__(self, now: float = NIGHT) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def memory_in(root: Path, clock: Clock, **kw: Any) -> Memory:
    """A memory whose facts are looked up by words only, on a clock."""
    made = Memory(root, index=LexicalIndex(root / "by_words.sqlite"), **kw)
    made.runs.clock = clock
    return made


def project_in(root: Path) -> Path:
    """A small project with a repository, a moved file and one that was removed."""
    for name, text in {
        "app/config.toml": 'port = 5433\nname = "shop"\n',
        "app/store/db.py": "CONNECT = 'sqlite'\n",
        "old/legacy.py": "x = 1\n",
        "ARCHITECTURE.md": ARCHITECTURE,
        "STRUCTURE.md": "<!-- headwater:structure -->\n<!-- /headwater:structure -->\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    (root / "old/legacy.py").unlink()
    git(root, "add", "-A")
    git(root, "commit", "-qm", "legacy is gone")
    return root


def git(root: Path, *words: str) -> str:
    """What git says, for an author of the test's own."""
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    return subprocess.run(
        ["git", "-C", str(root), *who, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def fill(memory: Memory) -> dict[str, str]:
    """Something for every task; ids by name."""
    write = memory.facts.write
    old, lately = NIGHT - 200 * DAY, NIGHT - 2 * DAY
    source = (SESSION, (1, 2))
    made = {
        "tabs": write("Use tabs in Makefiles", "PROJECT_RULES", now=old, trust="user"),
        "tabs again": write("use tabs in makefiles.", "NAMING", now=lately),
        "port": write("app/config.toml: port = 5432", "CONFIG_VALUES", now=lately, source=source),
        "legacy": write("old/legacy.py holds the importer", "ARCHITECTURE", now=lately),
        "sqlite": write("app/store/db.py connects to SQLite", "ARCHITECTURE", now=lately, importance=80),
        "stale": write("the banner on the start page is blue", "NAMING", now=old, importance=20),
        "rule": write("never edit generated files", "CONSTRAINTS", now=old, importance=20),
        "yesterday": write("Note that the schema was frozen yesterday", "CONSTRAINTS", now=lately),
    }
    messages: list[Any] = []
    for turn in range(4):
        if turn < 3:
            messages.append(
                HumanMessage(f"I prefer short answers in reviews. Look at part {turn}.", id=f"h{turn}")
            )
        call = {"name": "read_file", "args": {"path": "app/config.toml"}, "id": f"c{turn}"}
        messages.append(AIMessage("", tool_calls=[call], id=f"a{turn}"))
        messages.append(ToolMessage("port = 5433", tool_call_id=f"c{turn}", id=f"t{turn}"))
    memory.archive.append(SESSION, messages)
    return {name: fact.id for name, fact in made.items()}


def dreamer(memory: Memory, project: Path | None, clock: Clock, **kw: Any) -> Dreamer:
    """A dreamer on a clock, in UTC, that may learn about the user."""
    kw.setdefault("tasks", {"user_memories": True})
    return Dreamer(memory, project, clock=clock, zone=UTC, **kw)


def state(memory: Memory, project: Path, dreams: Dreamer) -> dict[str, Any]:
    """All that a dream may change."""
    return {
        "facts": [fact.to_value() for fact in memory.facts.list()],
        "docs": {path.name: path.read_bytes() for path in sorted(project.glob("*.md"))},
        "key files": dreams.key_files(),
        "others": sorted(p.name for p in project.iterdir() if p.name != ".git"),
    }


def told(report: Report, task: str) -> dict[str, str]:
    """Reasons of one task's changes, by target."""
    return {e.change.target: e.change.reason for e in report.entries if e.change.task == task}

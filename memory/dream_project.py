"""The tasks that look at the project: maintain-docs inside marked sections, and pin_key_files (G16)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import Any

from langchain_core.messages import AIMessage

from headwater.memory.dream_change import Change
from headwater.memory.dream_world import World
from headwater.memory.fact import Category
from headwater.window.tokens import count_text
from headwater.window.touched import touched_files

DOCUMENTS = ("ARCHITECTURE.md", "STRUCTURE.md", "docs/ARCHITECTURE.md", "docs/STRUCTURE.md")
KEY_FILES = "key_files"
"""The kept value: paths of the pinned files, best first."""

MIN_READS = 4
FILES_BUDGET, FILE_BUDGET = 10_000, 5_000
"""Tokens of all pinned files together, and of one."""

_MARKS = r"<!-- *headwater:{name} *-->\r?\n(.*?)<!-- */headwater:{name} *-->"
_MARKED = re.compile(r"<!-- *headwater:([\w-]+) *-->")
_PARTIAL = ("offset", "limit", "start_line", "end_line", "view_range", "char_offset", "line_start", "lines")
_MOST_FACTS, _MOST_FOLDERS = 60, 80
_KINDS = (Category.ARCHITECTURE, Category.CONSTRAINTS, Category.CONFIG_VALUES, Category.NAMING)


def maintain_docs(world: World) -> list[Change]:
    """ARCHITECTURE.md and STRUCTURE.md, only from `<!-- headwater:NAME -->` to `<!-- /headwater:NAME -->`.

    NAME is `architecture` (what memory knows of the project) or `structure` (its folders). A document
    without the marks is left alone.
    """
    changes = []
    sections = {"architecture": _architecture, "structure": _structure}
    for name in DOCUMENTS:
        text = world.text(name)
        for section in dict.fromkeys(_MARKED.findall(text)) if text else ():
            old = section_of(text or "", section)
            if section not in sections or old is None:
                reason = (
                    "its end mark is missing" if section in sections else f"no section is called {section!r}"
                )
                changes.append(Change("maintain-docs", "notice", f"{name}#{section}", reason))
                continue
            new = sections[section](world)
            if new.strip() != old.strip():
                reason = _difference(old, new)
                changes.append(Change("maintain-docs", "section", f"{name}#{section}", reason, old, new))
    return changes


def section_of(text: str, name: str) -> str | None:
    """What stands between the marks of a section; None where there are none, or no pair of them."""
    found = re.search(_MARKS.format(name=re.escape(name)), text, re.DOTALL)
    return found[1] if found else None


def with_section(text: str, name: str, body: str) -> str:
    """The text with another section between the same marks."""
    found = re.search(_MARKS.format(name=re.escape(name)), text, re.DOTALL)
    return text if found is None else text[: found.start(1)] + body + text[found.end(1) :]


def pin_key_files(world: World) -> list[Change]:
    """The files that the sessions read in full again and again, as many as fit the budget (score: two for a
    read, minus three for an edit). Only files inside the project.
    """
    if world.project is None:
        return []
    reads, edits = _uses(world)
    ranked = sorted(
        (path for path in reads if reads[path] >= MIN_READS and 2 * reads[path] > 3 * edits[path]),
        key=lambda path: (3 * edits[path] - 2 * reads[path], path),
    )
    budget = FILES_BUDGET
    chosen = []
    for path in ranked:
        text = world.text(path)
        weight = count_text(text) if text is not None else budget + 1
        if weight <= min(budget, FILE_BUDGET):
            budget -= weight
            chosen.append(path)
    before = world.kept(KEY_FILES) or []
    if chosen == before:
        return []
    told = ", ".join(f"{p} ({reads[p]} reads, {edits[p]} edits)" for p in chosen) or "none is read that often"
    return [Change("pin_key_files", "kept", KEY_FILES, told, before or None, chosen)]


def _uses(world: World) -> tuple[Counter[str], Counter[str]]:
    reads: Counter[str] = Counter()
    edits: Counter[str] = Counter()
    for session in world.sessions:
        for _, message in world.messages(session):
            if not isinstance(message, AIMessage):
                continue
            for call in message.tool_calls:
                read, modified = touched_files([AIMessage("", tool_calls=[call])])
                whole = not any(call["args"].get(key) for key in _PARTIAL)
                reads.update(_inside(world, path) for path in read if whole)
                edits.update(_inside(world, path) for path in modified)
    del reads[""], edits[""]
    return reads, edits


def _inside(world: World, path: str) -> str:
    found = world.path(path)
    return (
        ""
        if found is None or world.project is None
        else found.relative_to(world.project.resolve()).as_posix()
    )


def _architecture(world: World) -> str:
    """What memory holds on the project; never what a user or one session alone is concerned with, nor what
    only a tool's output has said.
    """
    by_kind: dict[Category, list[Any]] = defaultdict(list)
    for item in world.live:
        if item.scope == "project" and item.trust != "tool" and item.category in _KINDS:
            by_kind[item.category].append(item)
    lines: list[str] = []
    for kind in _KINDS:
        best = sorted(by_kind[kind], key=lambda f: (f.status != "permanent", -f.importance, f.id))[
            :_MOST_FACTS
        ]
        if best:
            lines += ["", f"### {kind.replace('_', ' ').capitalize()}", ""]
            lines += [f"- {_inert(f.content)}" for f in sorted(best, key=lambda f: (f.created, f.id))]
    return "\n".join([*lines, "", ""]) if lines else "\n"


def _structure(world: World) -> str:
    folders: dict[str, list[str]] = defaultdict(list)
    for path in world.files:
        folder, _, name = path.rpartition("/")
        folders[folder].append(name)
    shallow = sorted(sorted(folders)[:2_000], key=lambda folder: (folder.count("/"), folder))[:_MOST_FOLDERS]
    lines = ["", "| folder | files | kinds |", "|---|---|---|"]
    for folder in sorted(shallow):
        kinds = Counter(name.rpartition(".")[2] if "." in name else "no ending" for name in folders[folder])
        told = ", ".join(
            f"{kind} {count}" for kind, count in sorted(kinds.items(), key=lambda k: (-k[1], k[0]))[:4]
        )
        lines.append(f"| {_inert(folder) or '.'}/ | {len(folders[folder])} | {_inert(told)} |")
    if len(folders) > len(shallow):
        lines.append(f"\n… and {len(folders) - len(shallow)} folders below these")
    return "\n".join([*lines, "", ""])


def _difference(old: str, new: str) -> str:
    before, after = set(old.splitlines()), set(new.splitlines())
    return f"{len(after - before)} lines are new, {len(before - after)} no longer hold"


def _inert(text: str) -> str:
    """A line that cannot end the section, nor open a mark."""
    return " ".join(text.replace("<!--", "<! --").replace("-->", "-- >").replace("|", "\\|").split())

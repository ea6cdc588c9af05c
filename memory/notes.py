"""Facts as files for people: one `.md` a category, to be read, compared and edited by hand (C12, C13).

A fact is a list item; under it stands one comment with all that is not its text. An item
without a comment is a new fact. What was exported and is read back unchanged changes nothing, and
fills an empty store with equals.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from headwater.memory import purport
from headwater.memory.database import StorageError, private_folder
from headwater.memory.fact import Category, Fact, FactRefused, fact_id, normalise
from headwater.memory.facts import Facts, UnknownFact

_COMMENT = re.compile(r"<!-- (\{.*\}) -->")
_EDITABLE = ("scope", "importance", "status")


class NotesError(ValueError):
    """A file of facts cannot be read; the text names the file and the line."""


class Note(NamedTuple):
    """One item of a file."""

    category: Category
    content: str
    about: Mapping[str, Any]
    """What its comment says; empty where there is none."""
    place: str


class Imported(NamedTuple):
    """What an import did, in numbers of facts."""

    new: int
    changed: int
    same: int
    refused: tuple[str, ...]
    """Why, one line each."""


def export_facts(facts: Facts, folder: Path, *, live: bool = False) -> int:
    """Write all facts to `folder`, archived ones too unless `live`; the number written.

    Files of categories that have none any more are removed; other files are left alone.

    Raises:
        StorageError: The folder cannot be written.
    """
    kept = facts.list(limit=10_000_000, live=live)
    try:
        private_folder(folder)
        for category in Category:
            path = folder / f"{category.lower()}.md"
            of_it = [fact for fact in kept if fact.category == category]
            if of_it:
                text = f"# {category}\n\n" + "".join(map(_item, of_it))
                part = path.with_suffix(".part")
                part.write_text(text, encoding="utf-8", newline="")
                part.replace(path)
            else:
                path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"cannot write facts to {str(folder)!r}: {error}; check the folder") from error
    return len(kept)


def import_facts(facts: Facts, folder: Path) -> Imported:
    """Take in what the files say: new items are written, edited ones take the place of what they were.

    A fact that is missing from the files stays as it is: archive or forget it by its id.

    Raises:
        NotesError: A file is not one of ours, or is broken; nothing was taken in.
        StorageError: The folder cannot be read, or the store failed.
    """
    counts = {"new": 0, "changed": 0, "same": 0}
    refused: list[str] = []
    for note in [*_notes(folder)]:
        try:
            counts[_take(facts, note)] += 1
        except (FactRefused, UnknownFact) as error:
            refused.append(f"{note.place}: {error}")
    return Imported(counts["new"], counts["changed"], counts["same"], tuple(refused))


def _item(fact: Fact) -> str:
    about = {k: v for k, v in fact.to_value().items() if k not in ("content", "category")}
    # The comment must not end early.
    packed = json.dumps(about, ensure_ascii=False, sort_keys=True).replace(">", "\\u003e")
    lines = [*fact.content.split("\n"), f"<!-- {packed} -->"]
    return "- " + "\n".join([lines[0], *(f"  {line}" if line else "" for line in lines[1:])]) + "\n\n"


def _notes(folder: Path) -> Iterator[Note]:
    names = {f"{category.lower()}.md": category for category in Category}
    try:
        texts = [
            (path, path.read_text("utf-8")) for path in sorted(folder.iterdir()) if path.name.lower() in names
        ]
    except UnicodeDecodeError as error:
        raise NotesError(f"a file in {str(folder)!r} is not UTF-8: {error}; save it as UTF-8") from error
    except OSError as error:
        raise StorageError(f"cannot read facts from {str(folder)!r}: {error}; check the folder") from error
    if not texts:
        raise NotesError(f"no file of facts in {str(folder)!r}: they are named {', '.join(names)}")
    for path, text in texts:
        yield from _items(names[path.name.lower()], path, text.split("\n"))


def _items(category: Category, path: Path, lines: list[str]) -> Iterator[Note]:
    found: list[str] = []
    start = 0
    for number, line in enumerate([*lines, "- "], start=1):
        if line.startswith(("- ", "* ")):
            if found:
                yield _note(category, found, f"{path.name}:{start}")
            found, start = [line[2:]], number
        elif found and (line.startswith("  ") or not line.strip()):
            found.append(line[2:])
        elif line.strip() and not line.startswith("#"):
            raise NotesError(
                f"{path.name}:{number}: {line[:60]!r} belongs to no fact: begin a fact with '- ' and its "
                "further lines with two blanks"
            )


def _note(category: Category, lines: list[str], place: str) -> Note:
    text = "\n".join(lines).rstrip()
    body, _, last = text.rpartition("\n")
    about: dict[str, Any] = {}
    if found := _COMMENT.fullmatch(last.strip()):
        try:
            about = json.loads(found[1])
        except json.JSONDecodeError as error:
            raise NotesError(
                f"{place}: the comment is broken ({error}): restore it, or take it out"
            ) from error
        text = body
    return Note(category, text, about, place)


def _take(facts: Facts, note: Note) -> str:
    content = normalise(note.content)
    key = note.about.get("id")
    if key is None:
        return "new" if facts.write(content, note.category, trust="user").seen == 1 else "same"
    try:
        known = facts.get(str(key))
    except UnknownFact:
        return _bring_back(facts, note, content)
    edited = {name: note.about[name] for name in _EDITABLE if name in note.about}
    if content == known.content and note.category == known.category:
        if replace(known, **edited) == known:
            return "same"
        facts.restore(replace(known, **edited))
    else:
        new = facts.supersede(known.id, content, category=note.category, trust="user")
        facts.restore(replace(new, **edited, superseded_by=None))
    return "changed"


def _bring_back(facts: Facts, note: Note, content: str) -> str:
    try:
        kept = Fact.from_value({**note.about, "content": content, "category": note.category})
    except (TypeError, KeyError, ValueError) as error:
        raise FactRefused(f"the comment does not describe a fact ({error})") from error
    # By a file alone nobody can tell what tables of another version would have named a text.
    if fact_id(content, note.category) == kept.id or kept.purport != purport.VERSION:
        facts.restore(kept)
    else:
        facts.write(content, note.category, scope=kept.scope, importance=kept.importance, trust="user")
    return "new"

"""Making a change, once, and taking it back: both look first at what is there, so both can be repeated.

What somebody else has changed meanwhile is left as it is, and the entry says so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.memory.dream_change import Change, Entry
from headwater.memory.dream_journal import Journal
from headwater.memory.dream_project import section_of, with_section
from headwater.memory.fact import Fact, FactRefused
from headwater.memory.inside import file_inside

if TYPE_CHECKING:
    from headwater.memory.facts import Facts

_MEANWHILE = "it was changed meanwhile, and left as it is"


class Hands:
    """What may be changed: the facts, the documents of a project, and the kept values.

    Args:
        facts: Of the tenant's project.
        journal: Where the kept values are.
        project: The folder of the documents; None for none.
    """

    def __init__(self, facts: Facts, journal: Journal, project: Path | None) -> None:
        self._facts = facts
        self._journal = journal
        self._project = project

    def apply(self, entry: Entry, now: float) -> Entry:
        """Make a planned change; the entry as it stands then."""
        change = entry.change
        if change.kind == "facts":
            done = self._swap(change.before, change.after)
        elif change.kind == "write":
            return self._write(entry, now)
        elif change.kind == "section":
            done = self._put_section(change, change.before, change.after)
        elif change.kind == "kept":
            done = self._keep(change, change.before, change.after)
        else:
            done = True
        return entry._replace(state="applied") if done else entry._replace(state="skipped", note=_MEANWHILE)

    def undo(self, entry: Entry) -> Entry:
        """Take an applied change back; the entry as it stands then."""
        change = entry.change
        if change.kind in ("facts", "write"):
            done = self._swap(change.after, change.before)
        elif change.kind == "section":
            done = self._put_section(change, change.after, change.before)
        elif change.kind == "kept":
            done = self._keep(change, change.after, change.before)
        else:
            done = True
        return entry._replace(state="undone", note="") if done else entry._replace(note=_MEANWHILE)

    def _write(self, entry: Entry, now: float) -> Entry:
        """Send a text through the facts' own way in, in the place of the target if there is one.

        The write is one batch, so a target that has a successor by now tells that it was done.
        """
        change = entry.change
        before = self._values([*change.before])
        new = next(Fact.from_value(change.after[key]) for key in change.after if key != change.target)
        target = before.get(change.target)
        written = (target or {}).get("superseded_by") if change.target else new.id
        if before != change.before:
            # A kill between the write and its mark: it stands. Else somebody else was here.
            if written and self._values([written])[written] is not None and _stems_from(change, target, now):
                return self._written(entry, written)
            return entry._replace(state="skipped", note=_MEANWHILE)
        try:
            known = self._facts.write(
                new.content, new.category, scope=new.scope, importance=new.importance, source=new.source,
                trust=new.trust, supersedes=change.target or None, now=now,
            )  # fmt: skip
        except (FactRefused, LookupError) as error:
            return entry._replace(state="skipped", note=str(error))
        return self._written(entry, known.id)

    def _written(self, entry: Entry, key: str) -> Entry:
        """The entry with what the write has really made of it: like texts may have been joined."""
        change = entry.change
        ids = [*dict.fromkeys([*([change.target] if change.target else []), key])]
        before = {i: change.before.get(i) for i in ids}
        after = {i: value for i, value in self._values(ids).items() if value is not None}
        joined = key not in change.before
        note = f"joined with {key}, which was known" if joined else ""
        if joined:
            # It was there before, and is none of ours to take away.
            before.pop(key), after.pop(key, None)
        return entry._replace(change=replace(change, before=before, after=after), state="applied", note=note)

    def _swap(self, expected: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
        """Put the wanted values where the expected ones stand; True where the wanted ones do already."""
        return self._facts.swap(_facts_of(expected), _facts_of(wanted))

    def _values(self, keys: list[str]) -> dict[str, Any]:
        """Facts by id in the form that JSON gives back; None for one that is not there."""
        found: dict[str, Any] = {}
        for key in keys:
            try:
                found[key] = self._facts.get(key).to_value()
            except LookupError:
                found[key] = None
        return found

    def _put_section(self, change: Change, expected: str, wanted: str) -> bool:
        name, _, section = change.target.partition("#")
        path = None if self._project is None else file_inside(self._project, name)
        if path is None:
            return False
        try:
            # Line ends as they are: what stands outside the marks keeps every byte.
            text = path.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError):
            return False
        there = section_of(text, section)
        if there == wanted:
            return True
        if there != expected:
            return False
        _replace_file(path, with_section(text, section, wanted))
        return True

    def _keep(self, change: Change, expected: Any, wanted: Any) -> bool:
        there = self._journal.kept(change.target)
        if there == wanted:
            return True
        if there != expected:
            return False
        self._journal.keep(change.target, wanted)
        return True


def _facts_of(values: Mapping[str, Any]) -> dict[str, Fact | None]:
    return {key: None if value is None else Fact.from_value(value) for key, value in values.items()}


def _stems_from(change: Change, target: Mapping[str, Any] | None, now: float) -> bool:
    """Whether what is there looks as our own write leaves it."""
    if not change.target:
        return True
    return target is not None and target == {**change.before[change.target], **_archived(target)}


def _archived(target: Mapping[str, Any]) -> dict[str, Any]:
    return {"status": "archived", "superseded_by": target["superseded_by"]}


def _replace_file(path: Path, text: str) -> None:
    """A file's new text, whole or not at all, with the mode it had."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        beside.write_bytes(text.encode("utf-8"))
        beside.chmod(path.stat().st_mode & 0o7777)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)

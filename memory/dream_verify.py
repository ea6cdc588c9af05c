"""The task that holds facts against the files and commits they came from (G16)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from headwater.memory.dream_change import Change
from headwater.memory.dream_facts import archived, rewritten
from headwater.memory.dream_likeness import PROTECTED
from headwater.memory.dream_world import World
from headwater.memory.fact import Fact
from headwater.window.cues import identifiers
from headwater.window.touched import touched_files

VERIFIED = "verified"
"""The kept value: by fact, the digest of its files' texts when it was last looked at, and the verdict."""

EXCERPT = 6_000
"""Characters of a file that a model is shown."""

_COMMIT = re.compile(r"(?:\bcommit|提交)\s*[`'\"]?([0-9a-f]{7,40})\b", re.IGNORECASE)
_FILE = re.compile(
    r"(?<![\w/.:-])(?:\./)?((?:[\w@+-][\w@+.-]*/)*[\w@+-][\w@+.-]*\.[A-Za-z][A-Za-z0-9]{0,7})(?![\w/])"
)
_SETTING = re.compile(
    r"(?<![\w.-])([A-Za-z][\w.-]*)[`'\"]?\s*(?:=|:|：|＝|\bis(?: set to)?\b|\bset to\b|是|为|设为)\s*[`'\"]?"
    r"([A-Za-z0-9][\w.-]*[A-Za-z0-9]|[A-Za-z0-9])(?![\w/])"
)
_ABSENCE = re.compile(
    r"\b(?:no longer|removed?|deleted?|dropped|renamed|never|not|without|instead of|used to|planned?|will)\b"
    r"|删除|移除|不再|没有|废弃|改名|计划|将",
    re.IGNORECASE,
)
_HOLDS = """A project's memory holds a fact about a file. Say whether the file as shown still bears it \
out. Answer: {"verdict": "holds" | "refuted" | "unknown", "why": "..."}. Refuted means that the file says \
otherwise, not that it says nothing."""


def verify(world: World) -> list[Change]:
    """Each fact against the files and commits it names, or that the work it was learned in has changed.

    A file that was moved is named anew, a setting that has another value now is brought up to date, a fact
    about a file that was removed is archived. A rule, a reason, a user's word and what is permanent is
    reported to a person instead. A fact whose files have not changed since is not looked at again.
    """
    if world.project is None or not world.files:
        return []
    looked: dict[str, list[str]] = dict(world.kept(VERIFIED) or {})
    before = dict(looked)
    changes: list[Change] = []
    for item in world.live:
        named = _named(item.content)
        files = named or _changed_then(world, item)
        stand = _stand(world, files)
        if not files and not _COMMIT.search(item.content):
            continue
        if looked.get(item.id, [""])[0] == stand:
            continue
        found = _examined(world, item, named, files)
        looked[item.id] = [stand, "holds" if found is None else found.reason[:120]]
        if found is not None:
            changes.append(found)
    looked = {key: value for key, value in looked.items() if key in world.facts}
    if looked != before:
        fresh = sum(before.get(key) != value for key, value in looked.items())
        reason = f"facts held against their files: {fresh}, of which did not hold: {len(changes)}"
        changes.append(Change("verify", "kept", VERIFIED, reason, before or None, looked))
    return changes


def _examined(world: World, item: Fact, named: list[str], files: list[str]) -> Change | None:
    for commit in _COMMIT.findall(item.content):
        if world.has_commit(commit) is False:
            return _notice(item, f"the repository has no commit {commit}: was it rewritten?")
    for name in named:
        if world.text(name) is None and world.path(name) is not None and name not in world.files:
            return _gone(world, item, name)
    for name in files:
        text = world.text(name)
        if text is None:
            continue
        if change := _setting(world, item, name, text):
            return change
        missing = [i for i in identifiers(item.content) if i not in text and i not in name and i not in named]
        if named and missing and (change := _asked(world, item, name, text)):
            return change
    return None


def _gone(world: World, item: Fact, name: str) -> Change | None:
    """A file that a fact names and the project has not."""
    if _ABSENCE.search(item.content):
        return None
    base = PurePosixPath(name).name
    moved = [path for path in world.files if PurePosixPath(path).name == base]
    if "/" not in name and moved:
        return None
    known = world.once_committed(name) or name in _changed_then(world, item)
    if len(moved) == 1 and known and not _binding(item):
        text = item.content.replace(name, moved[0])
        if change := rewritten(world, "verify", item, text, f"{name} is {moved[0]} now"):
            return change
    if not known:
        return _notice(item, f"the project has no {name}, and nothing shows that it ever had")
    reason = f"{name} is gone from the project"
    return _notice(item, reason) if _binding(item) else archived("verify", reason, item)


def _setting(world: World, item: Fact, name: str, text: str) -> Change | None:
    """A setting that the file gives another value than the fact does."""
    # A path's own ending is no setting; blanks in its place keep positions as they are.
    plain = _FILE.sub(lambda path: " " * len(path[0]), item.content)
    for found in _SETTING.finditer(plain):
        key, value = found[1], found[2]
        values = {v for k, v in _settings_of(text) if k.casefold() == key.casefold()}
        if len(values) != 1 or value in values:
            continue
        new = values.pop()
        if not (_is_value(value) and _is_value(new)):
            continue
        reason = f"{name} says {key} = {new}"
        if _binding(item):
            return _notice(item, reason)
        start, end = found.span(2)
        return rewritten(world, "verify", item, item.content[:start] + new + item.content[end:], reason)
    return None


def _asked(world: World, item: Fact, name: str, text: str) -> Change | None:
    answer = world.ask(_HOLDS, f"fact: {item.content}\n\nfile {name}:\n{text[:EXCERPT]}")
    if not isinstance(answer, dict) or answer.get("verdict") != "refuted" or len(text) > EXCERPT:
        return None
    reason = f"by the model's judgement {name} refutes it: {str(answer.get('why', ''))[:200]}"
    return _notice(item, reason) if _binding(item) else archived("verify", reason, item)


def _binding(item: Fact) -> bool:
    return item.status == "permanent" or item.trust == "user" or bool(PROTECTED.search(item.content))


def _notice(item: Fact, reason: str) -> Change:
    return Change("verify", "notice", item.id, f"{reason}; look at it", text=item.content)


def _named(text: str) -> list[str]:
    """Paths of files that a text names, in order, each once; addresses and versions are none."""
    plain = re.sub(r"\b[a-z][a-z0-9+.-]*://\S+", " ", text)
    return [*dict.fromkeys(found[1] for found in _FILE.finditer(plain))]


def _changed_then(world: World, item: Fact) -> list[str]:
    """Files of the project that were changed in the messages a fact was learned from."""
    if item.source is None or not item.source.tags:
        return []
    messages = [message for _, message in world.messages(item.source.session, item.source.tags)]
    root = str(world.project)
    modified = touched_files(messages)[1]
    names = [path[len(root) :].lstrip("/") if path.startswith(root) else path for path in modified]
    return [name for name in names if world.path(name) is not None]


def _stand(world: World, files: list[str]) -> str:
    digest = hashlib.sha256()
    for name in files:
        digest.update(f"{name}\0{world.text(name)}\0".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]


def _settings_of(text: str) -> Iterator[tuple[str, Any]]:
    for line in text.splitlines():
        if found := re.match(
            r"\s*(?:export\s+)?[\"']?([A-Za-z][\w.-]*)[\"']?\s*[=:]\s*[\"']?([\w.-]+)", line
        ):
            yield found[1], found[2].rstrip(".")


def _is_value(text: str) -> bool:
    return any(c.isdigit() for c in text) or text.casefold() in {"true", "false", "on", "off", "yes", "no"}

"""The tasks that look at facts alone: consolidate, archive-stale, improve (G16)."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from itertools import combinations

from headwater.memory.dream_change import Change
from headwater.memory.dream_likeness import PROTECTED, bare, compatible, keeps, likeness
from headwater.memory.dream_world import World
from headwater.memory.fact import Fact, FactRefused, fact
from headwater.memory.lexical import tokens
from headwater.memory.purport import purport
from headwater.window.cues import language_of

DAY = 86_400.0
STALE_DAYS = 90
SESSION_DAYS = 14
"""A fact of one session's scope is over sooner."""

STALE_IMPORTANCE = 40
PAIRS = 60
"""Most pairs of like facts a run asks its model about."""

LONG = 240
"""Characters from which a model is asked to say a fact in fewer words."""

_TRUST = {"user": 0, "agent": 1, "tool": 2}
_QUOTES = re.compile(r"[\"'`“”‘’「」]")
_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1, "昨天": -1, "今天": 0, "明天": 1}
_RELATIVE = re.compile(r"\b(?:yesterday|today|tomorrow)\b(?!')|昨天|今天|明天", re.IGNORECASE)

_SAME = """Each numbered pair holds two facts from one project's memory. Say which pairs state the same, \
so that one of the two can go without loss, whatever their languages. Answer: [numbers of those pairs]."""
_SHORTER = """Say this fact in fewer words, in its own language, losing no name, number, condition or \
reason. Answer: {"content": "..."}."""


def consolidate(world: World) -> list[Change]:
    """Facts that say the same become one: the best stays, with all sightings; the others point at it.

    What is left to join by `purport` are facts that were written in two categories; the write path joins
    those of one.
    """
    groups: dict[tuple[str, str], list[Fact]] = defaultdict(list)
    for item in world.live:
        groups[item.scope, purport(item.content)].append(item)
    changes = [change for group in groups.values() for change in _merged(group, "says the same as")]
    merged = {key for change in changes for key in change.after}
    left = [item for item in world.live if item.id not in merged]
    same = [pair for batch in _batches(_like(left)) for pair in _told_same(world, batch)]
    taken: set[str] = set()
    for one, other in same:
        if not taken & {one.id, other.id}:
            taken |= {one.id, other.id}
            changes += _merged([one, other], "by the model's judgement says the same as")
    return changes


def archive_stale(world: World) -> list[Change]:
    """Facts that were of small weight, seen once and long ago leave recall. Rules, reasons, lessons, what a
    user said, what is permanent, and what a search has found lately stay.
    """
    changes = []
    for item in world.live:
        if item.status == "permanent" or item.trust == "user" or PROTECTED.search(item.content):
            continue
        days = (world.now - max(item.created, item.valid_from)) / DAY
        if item.scope == "session" and days >= SESSION_DAYS:
            reason = f"it concerned one session, and that was {days:.0f} days ago"
        elif item.importance <= STALE_IMPORTANCE and item.seen <= 1 and days >= STALE_DAYS:
            reason = f"importance {item.importance}, seen once, {days:.0f} days old"
        else:
            continue
        found = world.use(item.id)
        unused = (world.now - found.last_found) / DAY
        if found.found and unused < (SESSION_DAYS if item.scope == "session" else STALE_DAYS):
            continue
        reason += f", last found {unused:.0f} days ago" if found.found else ", never found by a search"
        changes.append(_set("archive-stale", reason, item, replace(item, status="archived")))
    return changes


def improve(world: World) -> list[Change]:
    """Facts are put in better words: dates that depend on the day become dates, notes lose their openers;
    a model shortens long ones. What a user said, and what is permanent, stays verbatim.
    """
    changes = []
    for item in world.live:
        if item.status == "permanent" or item.trust == "user":
            continue
        text, reasons = _plainer(item, world.options.get("zone"))
        if len(text) > LONG:
            answer = world.ask(_SHORTER, text)
            shorter = answer.get("content") if isinstance(answer, dict) else None
            if isinstance(shorter, str) and _is_better(text, shorter):
                reasons.append(f"{len(text)} characters became {len(shorter.strip())}, every name kept")
                text = shorter.strip()
        if reasons and (change := rewritten(world, "improve", item, text, "; ".join(reasons))):
            changes.append(change)
    return changes


def rewritten(world: World, task: str, item: Fact, text: str, reason: str) -> Change | None:
    """A change that writes a text in the place of a fact; None where it cannot be a fact, or is one already
    archived: what was put away is not revived.
    """
    try:
        new = fact(
            text, item.category, scope=item.scope, importance=item.importance, source=item.source,
            trust=item.trust, now=world.now,
        )  # fmt: skip
    except FactRefused:
        return None
    if new.id == item.id:
        # The same fact in other words: it keeps its name and its sightings.
        return (
            None
            if new.content == item.content
            else _set(task, reason, item, replace(item, content=new.content))
        )
    known = world.facts.get(new.id)
    if known is not None and not known.live:
        return None
    after = replace(known, seen=known.seen + 1) if known else new
    old = replace(item, status="archived", superseded_by=new.id)
    return Change(
        task=task, kind="write", target=item.id, reason=reason, text=f"{item.content} → {new.content}",
        before={item.id: item.to_value(), new.id: known.to_value() if known else None},
        after={item.id: old.to_value(), new.id: after.to_value()},
    )  # fmt: skip


def _set(task: str, reason: str, before: Fact, after: Fact) -> Change:
    return Change(
        task, "facts", before.id, reason, {before.id: before.to_value()}, {after.id: after.to_value()},
        before.content,
    )  # fmt: skip


def archived(task: str, reason: str, item: Fact) -> Change:
    """A change that takes a fact out of recall."""
    return _set(task, reason, item, replace(item, status="archived"))


def _merged(group: Sequence[Fact], says: str) -> Iterator[Change]:
    """One change for each fact that goes; the one that stays takes its sightings over in the same change."""
    best = min(
        group,
        key=lambda f: (f.status != "permanent", _TRUST[f.trust], -f.importance, -f.seen, f.created, f.id),
    )
    for item in sorted(group, key=lambda f: (f.created, f.id)):
        if item.id == best.id or item.status == "permanent":
            continue
        kept = replace(best, seen=best.seen + item.seen, importance=max(best.importance, item.importance))
        gone = replace(item, status="archived", superseded_by=best.id)
        yield Change(
            "consolidate", "facts", item.id, f"{says} {best.id} “{best.content[:120]}”",
            {best.id: best.to_value(), item.id: item.to_value()},
            {best.id: kept.to_value(), item.id: gone.to_value()},
            item.content,
        )  # fmt: skip
        best = kept


def _like(facts: Sequence[Fact]) -> list[tuple[Fact, Fact]]:
    """Pairs worth a question, likest first; found by the rarer words they share."""
    by_word: dict[str, list[Fact]] = defaultdict(list)
    for item in facts:
        for word in set(tokens(item.content)):
            by_word[word].append(item)
    scored: dict[tuple[str, str], tuple[float, Fact, Fact]] = {}
    for group in by_word.values():
        if len(group) > 20:
            continue
        for one, other in combinations(sorted(group, key=lambda f: f.id), 2):
            key = (one.id, other.id)
            if key not in scored and one.scope == other.scope and compatible(one.content, other.content):
                across = language_of(one.content) != language_of(other.content)
                alike = likeness(one.content, other.content)
                if across or alike >= 0.4:
                    scored[key] = (alike, one, other)
    ranked = sorted(scored.values(), key=lambda s: (-s[0], s[1].id, s[2].id))[:PAIRS]
    return [(one, other) for _, one, other in ranked]


def _batches(pairs: Sequence[tuple[Fact, Fact]], size: int = 20) -> Iterator[Sequence[tuple[Fact, Fact]]]:
    for at in range(0, len(pairs), size):
        yield pairs[at : at + size]


def _told_same(world: World, pairs: Sequence[tuple[Fact, Fact]]) -> list[tuple[Fact, Fact]]:
    material = [{"pair": i, "a": a.content, "b": b.content} for i, (a, b) in enumerate(pairs, 1)]
    answer = world.ask(_SAME, json.dumps(material, ensure_ascii=False))
    chosen = answer if isinstance(answer, list) else []
    numbers = sorted({n for n in chosen if isinstance(n, int) and not isinstance(n, bool)})
    return [pairs[n - 1] for n in numbers if 1 <= n <= len(pairs)]


def _plainer(item: Fact, zone: tzinfo | None) -> tuple[str, list[str]]:
    reasons = []
    text = bare(item.content)
    if text != item.content.strip():
        reasons.append("the words that opened the note say nothing")
    learned = datetime.fromtimestamp(item.created, zone)
    if _RELATIVE.search(text) and not _QUOTES.search(text):

        def date(found: re.Match[str]) -> str:
            return f"{learned + timedelta(days=_DAYS[found[0].lower()]):%Y-%m-%d}"

        text = _RELATIVE.sub(date, text)
        reasons.append(f"it was learned on {learned:%Y-%m-%d}, and a day's name means another day by now")
    return text, reasons


def _is_better(before: str, after: str) -> bool:
    shorter = 0 < len(after.strip()) <= 0.85 * len(before)
    return shorter and keeps(before, after) and language_of(before) == language_of(after)

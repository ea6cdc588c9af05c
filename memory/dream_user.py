"""The task that learns what a user likes: only from what was said three times, and only if asked to (G16)."""

from __future__ import annotations

from typing import NamedTuple

from langchain_core.messages import HumanMessage

from headwater.memory.dream_change import Change
from headwater.memory.dream_likeness import compatible, likeness
from headwater.memory.dream_world import World
from headwater.memory.fact import Category, FactRefused, Source, fact
from headwater.window.cues import pins_in
from headwater.window.face import text_of
from headwater.window.tokens import count_text

ENOUGH = 3
"""Similar observations that make a habit."""

LIKE = 0.4
PROFILE_BUDGET = 4_000
"""Tokens of all that is kept about a user."""

_IMPORTANCE = 60
_ALIKE = """Numbered wishes that one user has stated. Group those that state the same wish, in whatever \
words or language. Answer: [[numbers of one group], ...], groups of three and more only."""


class Observation(NamedTuple):
    """A preference as the user put it, and where."""

    text: str
    session: str
    tag: int


def user_memories(world: World) -> list[Change]:
    """Preferences that the user has stated in at least three messages become facts of the user's scope.

    The words are the user's own, of the observation that is likest to the others.
    """
    seen = _observations(world)
    groups = _alike(seen)
    groups += _told_alike(world, [o for o in seen if not any(o in group for group in groups)])
    known = [f for f in world.facts.values() if f.scope == "user"]
    budget = PROFILE_BUDGET - sum(count_text(f.content) for f in known if f.live)
    changes = []
    for group in groups:
        best = max(group, key=lambda o: (sum(likeness(o.text, p.text) for p in group), -len(o.text)))
        if any(likeness(best.text, f.content) >= LIKE and compatible(best.text, f.content) for f in known):
            # Said before, or put away by a person: a repeat revives nothing.
            continue
        source = Source(best.session, tuple(sorted({o.tag for o in group if o.session == best.session})))
        try:
            new = fact(
                best.text, Category.PROJECT_RULES, scope="user", importance=_IMPORTANCE, source=source,
                trust="user", now=world.now,
            )  # fmt: skip
        except FactRefused:
            continue
        if new.id in world.facts or count_text(new.content) > budget:
            continue
        budget -= count_text(new.content)
        places = ", ".join(f"{o.session} §{o.tag}§" for o in group[:6])
        reason = f"stated {len(group)} times: {places}"
        changes.append(
            Change(
                "user_memories", "write", "", reason, {new.id: None}, {new.id: new.to_value()}, new.content
            )
        )
    return changes


def _observations(world: World) -> list[Observation]:
    found: dict[tuple[str, int], Observation] = {}
    for session in world.sessions:
        for tag, message in world.messages(session):
            if isinstance(message, HumanMessage):
                for kind, text in pins_in(text_of(message)):
                    if kind == "preference":
                        found.setdefault((session, tag), Observation(text, session, tag))
    return [*found.values()]


def _alike(seen: list[Observation]) -> list[list[Observation]]:
    groups: list[list[Observation]] = []
    for one in seen:
        for group in groups:
            if all(compatible(one.text, o.text) for o in group) and any(
                likeness(one.text, o.text) >= LIKE for o in group
            ):
                group.append(one)
                break
        else:
            groups.append([one])
    return [group for group in groups if len(group) >= ENOUGH]


def _told_alike(world: World, left: list[Observation]) -> list[list[Observation]]:
    if len(left) < ENOUGH:
        return []
    shown = left[-60:]
    answer = world.ask(_ALIKE, "\n".join(f"{i}. {o.text}" for i, o in enumerate(shown, 1)))
    groups: list[list[Observation]] = []
    used: set[int] = set()
    for row in answer if isinstance(answer, list) else []:
        numbers = (
            [n for n in row if isinstance(n, int) and 1 <= n <= len(shown)] if isinstance(row, list) else []
        )
        fresh = [n for n in dict.fromkeys(numbers) if n not in used]
        if len(fresh) >= ENOUGH:
            used.update(fresh)
            groups.append([shown[n - 1] for n in fresh])
    return groups

"""The historian's answer, read tolerantly: fenced or chatty JSON, missing tiers (case 52)."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from headwater.window.compartments import Compartment, WorkState
from headwater.window.cues import CONSTRAINT, UNIT
from headwater.window.digest import TIER_SHARES
from headwater.window.prose import Count, clip
from headwater.window.tokens import count_text

CATEGORIES = ("PROJECT_RULES", "ARCHITECTURE", "CONSTRAINTS", "CONFIG_VALUES", "NAMING")
"""The five exclusive categories of facts (G22)."""


FENCED = re.compile(r"```[\w-]*\s*\n?(.*?)```", re.S)


_COMMA = re.compile(r",(\s*[}\]])")


class StatedFact(NamedTuple):
    """A fact that the historian found in the stretch (G21, G22)."""

    category: str
    content: str


@dataclass(frozen=True, slots=True)
class Summary:
    """The historian's answer, read; ``p1`` is empty where it gave none."""

    title: str
    p1: str
    p2: str
    p3: str
    p4: str
    importance: int
    episode: str
    facts: tuple[StatedFact, ...]
    work: WorkState

    def compartment(self, first: int, last: int, older: WorkState | None = None) -> Compartment:
        """The compartment of a range, its work state merged over the one before (C9)."""
        work = WorkState.merge(older, self.work)
        return Compartment(
            first, last, self.title, self.p1, self.p2, self.p3, self.p4, self.importance, self.episode, work
        )


def parse_summary(text: str, count: Count = count_text) -> Summary | None:
    """Read the historian's JSON answer, bare, fenced or among chatter (case 52); None when there is none.

    Tiers that are missing, or longer than the one above, are derived from it by cutting at sentence ends.
    """
    data = max(_objects(text), key=lambda found: len(_KEYS & found.keys()), default={})
    if not _KEYS & data.keys():
        return None
    p1 = _text(data.get("p1") or data.get("summary"))
    size = count(p1)
    tiers = [p1]
    for key, share in zip(("p2", "p3", "p4"), TIER_SHARES, strict=True):
        given = _text(data.get(key))
        if not given or count(given) > count(tiers[-1]):
            given = clip(tiers[-1], max(8, int(size * share)), count)
        tiers.append(given)
    return Summary(
        title=" ".join(_text(data.get("title")).split())[:120] or clip(p1, 16, count).split("\n")[0],
        p1=tiers[0],
        p2=tiers[1],
        p3=tiers[2],
        p4=tiers[3],
        importance=_importance(data.get("importance")),
        episode=_text(data.get("episode") or data.get("episode_type")) or "discussion",
        facts=_facts(data.get("facts")),
        work=WorkState.from_dict(data.get("work")),
    )


def parse_summaries(text: str, count: Count = count_text) -> list[tuple[int, int, Summary]]:
    """The answer as the episodes it tells: first tag, last tag, summary; empty when there is none.

    One that tells the stretch as a whole names no tags: they are 0.
    """
    for found in _objects(text):
        several = found.get("compartments")
        if isinstance(several, list) and several:
            facts, work = found.get("facts"), found.get("work")
            told = []
            for item in several:
                summary = parse_summary(json.dumps(item), count) if isinstance(item, dict) else None
                if summary is None:
                    return []
                told.append((_tag(item.get("first")), _tag(item.get("last")), summary))
            # Facts and work state may stand beside the episodes: they are of the newest one then.
            first, last, newest = told[-1]
            more = replace(
                newest,
                facts=tuple(dict.fromkeys([*newest.facts, *_facts(facts)])),
                work=WorkState.from_dict(work) if work else newest.work,
            )
            return [*told[:-1], (first, last, more)]
    whole = parse_summary(text, count)
    return [] if whole is None else [(0, 0, whole)]


def _tag(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


_KEYS = frozenset(
    ["title", "p1", "p2", "p3", "p4", "summary", "importance", "episode", "episode_type", "facts", "work"]
)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    decoder = json.JSONDecoder(strict=False)
    for source in (text, _COMMA.sub(r"\1", text)):
        found, start, tries = False, source.find("{"), 0
        # Each try may read to the end: the bound keeps hostile text linear.
        while start >= 0 and tries < 64:
            tries += 1
            try:
                value, end = decoder.raw_decode(source, start)
            except (ValueError, RecursionError):
                end = start + 1
            else:
                if isinstance(value, dict):
                    found = found or bool(_KEYS & value.keys())
                    yield value
            start = source.find("{", end)
        if found:
            return


def _text(value: Any) -> str:
    if isinstance(value, list):
        value = "\n".join(item for item in value if isinstance(item, str))
    return value.strip() if isinstance(value, str) else ""


def _importance(value: Any) -> int:
    try:
        return max(1, min(100, round(float(value))))
    except (TypeError, ValueError, OverflowError):
        return 50


def _facts(value: Any) -> tuple[StatedFact, ...]:
    found: list[StatedFact] = []
    if isinstance(value, Mapping):
        value = [
            {"category": key, "content": item} for key, items in value.items() for item in _as_list(items)
        ]
    for item in _as_list(value):
        category, content = (
            (item.get("category"), item.get("content")) if isinstance(item, Mapping) else (None, item)
        )
        if content := " ".join(_text(content).split()):
            found.append(StatedFact(_category(category, content), content))
    return tuple(dict.fromkeys(found))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _category(name: Any, content: str) -> str:
    known = re.sub(r"\W+", "_", name).strip("_").upper() if isinstance(name, str) else ""
    for category in CATEGORIES:
        if known and known.rstrip("S") in (category, category.rstrip("S")):
            return category
    if CONSTRAINT.found(content):
        return "CONSTRAINTS"
    return "CONFIG_VALUES" if UNIT.search(content) else "ARCHITECTURE"

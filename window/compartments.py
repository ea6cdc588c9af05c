"""History told in compartments: four tiers each, a work state that accumulates, and the block that is shown.

A compartment covers a stretch of tags and is never rewritten; what changes is the tier at which it is told
(G14, G17–G19). The raw messages stay in the archive, so even an archived compartment opens again.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from headwater.window.cues import language_of
from headwater.window.decay import budget_pressure, decay_tier
from headwater.window.prose import Count
from headwater.window.tokens import count_text

Source = Literal["model", "digest"]

ARCHIVED = 5
"""The tier that shows no text of its own (G18)."""

MAX_ITEMS = 24
"""Most entries a list of the work state keeps: the oldest half and the newest half of what came."""

MAX_FILES = 200
"""Most paths each file list keeps; those first seen longest ago go first."""

MAX_ITEM_CHARS = 300

HEAL_MARGIN = 2
"""A compartment that ends this near the chunk's edge may be cut short (G20)."""

_LABELS = {
    "en": (
        "Work state",
        "Goal",
        "Constraints",
        "Progress",
        "Decisions",
        "Next steps",
        "Files read",
        "Files modified",
    ),
    "zh": ("工作状态", "目标", "约束", "进展", "关键决策", "下一步", "已读文件", "已改文件"),
}


class CompartmentError(ValueError):
    """A compartment whose range, tiers or importance cannot be stored."""


@dataclass(frozen=True, slots=True)
class WorkState:
    """What a task stands at: five fields and two cumulative file lists (C8, C10)."""

    goal: str = ""
    constraints: tuple[str, ...] = ()
    progress: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()
    files_read: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()

    @classmethod
    def merge(cls, older: "WorkState | None", newer: "WorkState | None") -> "WorkState":
        """The older state brought up to date by an increment (C9).

        The goal and the next steps are the newer ones where it states any; the rest accumulates, each entry
        once, in the order first seen, within ``MAX_ITEMS`` and ``MAX_FILES``.
        """
        old, new = older or cls(), newer or cls()
        return cls(
            goal=new.goal or old.goal,
            constraints=_both_ends((*old.constraints, *new.constraints)),
            progress=_newest((*old.progress, *new.progress), MAX_ITEMS),
            decisions=_both_ends((*old.decisions, *new.decisions)),
            next_steps=_both_ends(new.next_steps or old.next_steps),
            files_read=_newest((*old.files_read, *new.files_read), MAX_FILES, keep=new.files_read),
            files_modified=_newest(
                (*old.files_modified, *new.files_modified), MAX_FILES, keep=new.files_modified
            ),
        )

    def text(self, language: str = "en", *, items: int = MAX_ITEMS, files: int = 40) -> str:
        """The state as labelled lines, file lists last (C10); empty for an empty state.

        Args:
            language: ``zh`` for Chinese labels; anything else gives English ones.
            items: Newest entries shown of each list.
            files: Newest paths shown of each file list.
        """
        title, *labels = _LABELS["zh" if language == "zh" else "en"]
        shown = [(self.goal,) if self.goal else (), *(getattr(self, f.name) for f in fields(self)[1:])]
        lines = []
        for label, entries, most in zip(labels, shown, (1, *[items] * 4, *[files] * 2), strict=True):
            if kept := entries[len(entries) - min(most, len(entries)) :]:
                more = f" (+{len(entries) - len(kept)})" if len(kept) < len(entries) else ""
                lines.append(f"- {label}: {'; '.join(kept)}{more}")
        return "\n".join([f"### {title}", *lines]) if lines else ""

    def to_dict(self) -> dict[str, Any]:
        """A JSON value; ``from_dict`` reads it back."""
        return {f.name: _json(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_dict(cls, data: Any) -> "WorkState":
        """Read a state from JSON, forgivingly: unknown keys, wrong types and blanks are left out."""
        if not isinstance(data, Mapping):
            return cls()
        goal = data.get("goal")
        lists = {f.name: _entries(data.get(f.name)) for f in fields(cls)[1:]}
        return cls(goal=_line(goal) if isinstance(goal, str) else "", **lists)


@dataclass(frozen=True, slots=True)
class Compartment:
    """A stretch of history, tags ``first`` to ``last``, told at four lengths (G14).

    Attributes:
        p1: Full narrative; p2 shorter, p3 a paragraph, p4 anchors only (G18).
        importance: 1..100, how long the detail is needed.
        episode: What kind of work it was; an open, comma-separated set.
        work: State of the task at the end of the stretch, merged over all before it (C9).
        source: Whether a model or the deterministic digest wrote it.

    Raises:
        CompartmentError: For an empty p1, a reversed range or an importance outside 1..100.
    """

    first: int
    last: int
    title: str
    p1: str
    p2: str = ""
    p3: str = ""
    p4: str = ""
    importance: int = 50
    episode: str = "discussion"
    work: WorkState | None = None
    source: Source = "model"

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.last:
            raise CompartmentError(
                f"range {self.first!r}..{self.last!r} is reversed or negative; give first <= last"
            )
        if not self.p1.strip():
            raise CompartmentError(f"p1 of {self.first!r}..{self.last!r} is empty; use the digest instead")
        if not 1 <= self.importance <= 100:
            raise CompartmentError(f"importance {self.importance!r} is outside 1..100; clamp it")

    def tier(self, number: int) -> str:
        """Text at tier 1..4; where a tier is empty, the next shorter one that is not."""
        if not 1 <= number < ARCHIVED:
            raise CompartmentError(
                f"tier {number!r} has no text; ask for 1..4, or open the range with ctx_expand"
            )
        return next(
            (text for text in (self.p1, self.p2, self.p3, self.p4)[number - 1 :] if text.strip()), ""
        ).strip()

    def to_dict(self) -> dict[str, Any]:
        """A JSON value; ``from_dict`` reads it back."""
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**data, "work": self.work.to_dict() if self.work else None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Compartment":
        """Read what ``to_dict`` wrote; keys of a newer version are left out.

        Raises:
            CompartmentError: When a required key is missing or a value is out of range.
        """
        known = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        if missing := {"first", "last", "title", "p1"} - known.keys():
            raise CompartmentError(f"compartment lacks {sorted(missing)!r}; it was not written by to_dict")
        work = known.get("work")
        return cls(**{**known, "work": WorkState.from_dict(work) if work else None})


def heal_boundary(
    compartments: Sequence[Compartment], edge: int, *, emergency: bool = False, safe: bool = True
) -> tuple[Compartment, ...]:
    """Leave out a last compartment that the chunk's edge may have cut; the next run reads it again (G20).

    Args:
        compartments: Of one run, oldest first.
        edge: Last tag of the chunk that was read.
        emergency: Keep it: room is needed now.
        safe: Whether a cut before the last compartment splits no arc.
    """
    if emergency or not safe or len(compartments) < 2 or edge - compartments[-1].last > HEAL_MARGIN:
        return tuple(compartments)
    return tuple(compartments[:-1])


def history_tiers(
    compartments: Sequence[Compartment], budget: int, count: Count = count_text
) -> tuple[int, ...]:
    """Tier 1..5 of each compartment in the rendered history, oldest first (G17, G18).

    The decayed tier first; then the oldest is demoted until the block fits. Pressure is computed once.
    """
    return _plan(_ordered(compartments), budget, count)[0]


def render_history(compartments: Sequence[Compartment], budget: int, count: Count = count_text) -> str:
    """The decayed history block, at most ``budget`` tokens by ``count`` whatever comes in (G17–G19).

    Each compartment stands under its tag range; a run of archived ones is one line that says how to open it;
    the newest work state closes the block. The same set, budget and counter give the same bytes.
    """
    return _plan(_ordered(compartments), budget, count)[1]


def _ordered(compartments: Sequence[Compartment]) -> list[Compartment]:
    return sorted(compartments, key=lambda c: (c.first, c.last))


def _plan(ordered: list[Compartment], budget: int, count: Count) -> tuple[tuple[int, ...], str]:
    if not ordered or budget < 1:
        return (ARCHIVED,) * len(ordered), ""
    newest_first = [c.importance for c in reversed(ordered)]
    pressure = budget_pressure(newest_first, budget)
    tiers = [decay_tier(len(ordered) - 1 - i, c.importance, pressure) for i, c in enumerate(ordered)]
    work = _work_block(ordered, budget // 3, count)
    _demote_by_parts(ordered, tiers, budget - count(work), count)
    while count(text := _join(ordered, tiers, work)) > budget:
        # Tokens of the joined text may differ by a few from the sum over its parts.
        oldest = next((i for i, tier in enumerate(tiers) if tier < ARCHIVED), None)
        if oldest is not None:
            tiers[oldest] += 1
        elif work:
            work = ""
        else:
            return tuple(tiers), ""
    return tuple(tiers), text


def _demote_by_parts(ordered: list[Compartment], tiers: list[int], budget: int, count: Count) -> None:
    """Demote the oldest shown compartment, a tier at a time, until the parts' tokens fit the budget."""
    glue = 1
    line = count(_archived_line(ordered)) + glue

    def cost(i: int) -> int:
        return count(_part(ordered[i], tiers[i])) + glue if tiers[i] < ARCHIVED else 0

    costs = [cost(i) for i in range(len(ordered))]
    runs = sum(tier == ARCHIVED and (i == 0 or tiers[i - 1] != ARCHIVED) for i, tier in enumerate(tiers))
    total = sum(costs) - glue
    i = 0
    while total + runs * line > budget and i < len(ordered):
        if tiers[i] == ARCHIVED:
            i += 1
            continue
        tiers[i] += 1
        total -= costs[i]
        costs[i] = cost(i)
        total += costs[i]
        if tiers[i] == ARCHIVED:
            runs += 1 - (i > 0) - (i + 1 < len(ordered) and tiers[i + 1] == ARCHIVED)


def _join(ordered: list[Compartment], tiers: list[int], work: str) -> str:
    parts: list[str] = []
    run: list[Compartment] = []
    for compartment, tier in zip(ordered, tiers, strict=True):
        if tier == ARCHIVED:
            run.append(compartment)
            continue
        if run:
            parts.append(_archived_line(run))
            run = []
        parts.append(_part(compartment, tier))
    if run:
        parts.append(_archived_line(run))
    return "\n\n".join([*parts, work] if work else parts)


def _part(compartment: Compartment, tier: int) -> str:
    body = compartment.tier(tier)
    heading = f"### {_range(compartment.first, compartment.last)} {_line(compartment.title)}".rstrip()
    return f"{heading}\n{body}" if body else heading


def _archived_line(run: Sequence[Compartment]) -> str:
    first, last = run[0].first, max(c.last for c in run)
    opener = f'ctx_expand("{first}-{last}")' if last > first else f'ctx_expand("{first}")'
    if language_of(run[-1].title) == "zh":
        return f"[{_range(first, last)}：{len(run)} 段已归档，用 {opener} 打开原文]"
    return f"[{_range(first, last)}: {len(run)} archived, open with {opener}]"


def _range(first: int, last: int) -> str:
    return f"§{first}–{last}§" if last > first else f"§{first}§"


def _work_block(ordered: Sequence[Compartment], budget: int, count: Count) -> str:
    newest = next((c for c in reversed(ordered) if c.work), None)
    if newest is None or newest.work is None:
        return ""
    language = language_of(f"{newest.title}\n{newest.p1[:2000]}")
    for items, files in ((MAX_ITEMS, 40), (MAX_ITEMS, 10), (8, 5), (3, 0), (1, 0)):
        if count(text := newest.work.text(language, items=items, files=files)) <= budget:
            return text
    return ""


def _line(text: str) -> str:
    line = re.sub(r"\s+", " ", text).strip()
    return line if len(line) <= MAX_ITEM_CHARS else line[: MAX_ITEM_CHARS - 1].rstrip() + "…"


def _entries(value: Any) -> tuple[str, ...]:
    items = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else []
    return tuple(dict.fromkeys(line for item in items if isinstance(item, str) and (line := _line(item))))


def _both_ends(items: Iterable[str]) -> tuple[str, ...]:
    """First-made and last-made entries: the first constraint must not be worn away by later ones (C22)."""
    kept = tuple(dict.fromkeys(items))
    half = MAX_ITEMS // 2
    return kept if len(kept) <= MAX_ITEMS else kept[:half] + kept[-half:]


def _newest(items: Iterable[str], most: int, keep: Sequence[str] = ()) -> tuple[str, ...]:
    kept = list(dict.fromkeys(items))
    extra, wanted = len(kept) - most, set(keep)
    if extra > 0:
        leaving = set([item for item in kept if item not in wanted][:extra])
        kept = [item for item in kept if item not in leaving][-most:]
    return tuple(kept)


def _json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value

"""The three diseases of a window: amnesia, myopia, squeeze-out (E20-E22), found in the real input (E23)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from headwater.lab.story import Input, Story, said_in_calls
from headwater.lab.survival import RULES, Stated, flat, stated_facts, stated_rules
from headwater.window.policy import WindowPolicy
from headwater.window.prose import said_in

LARGE = 16_000
"""Tokens of input from which the middle is far from both ends."""
_RUN = 3
# A shorter name stands in too many texts to mean one thing.
_NAME = 6
_SHOWN = 160


@dataclass(frozen=True)
class Finding:
    """One thing found.

    Attributes:
        disease: Its name.
        step: Where it is first seen (from 1).
        evidence: What was seen, with the words and figures.
        remedy: What to do about it.
        price: What it cost, in uncached input tokens; 0 where it has no price.
        detail: The figures behind the evidence.
    """

    disease: str
    step: int
    evidence: str
    remedy: str
    price: float = 0.0
    detail: Mapping[str, object] = field(default_factory=dict)


def amnesia(story: Story) -> Iterator[Finding]:
    """Facts that a step's real input did not hold any more (E20).

    What a user laid down is always important: a finding wherever it is gone. A name is important when it is
    used: a finding only where an answer or the user comes back to it after it has left.
    """
    for fact in stated_facts(story.said):
        if fact.kind not in RULES and sum(map(str.isalnum, fact.text)) < _NAME:
            continue
        held = _holders(story, fact)
        seen = [i for i in story.inputs if not held.isdisjoint(i.parts)]
        if not seen:
            continue
        gone = [i for i in story.inputs if i.step > seen[0].step and held.isdisjoint(i.parts)]
        if not gone:
            continue
        first = gone[0]
        left = max(i.step for i in seen if i.step < first.step)
        pinned = fact.kind in RULES
        needed = [first] if pinned else [i for i in gone if fact.text in _answer(i)]
        if not needed:
            continue
        yield Finding(
            "amnesia",
            needed[0].step,
            f"{fact.kind} {quoted(fact.text)}: not in the input of {len(gone)} steps from step {first.step} "
            f"on; last seen at step {left}"
            + ("" if pinned else f"; the answer of step {needed[0].step} uses it"),
            "pin it: a rule of the user's belongs in the task note, verbatim in every request"
            if pinned
            else "once important: read it back with ctx_search before use; pin it if it comes back often",
            detail={
                "kind": fact.kind,
                "fact": fact.text,
                "left": left,
                "first": first.step,
                "absent": len(gone),
                "pin": pinned,
            },
        )


def myopia(story: Story) -> Iterator[Finding]:
    """Rules that the input held only in its middle third, far from both ends (E21)."""
    for fact in stated_rules(story.said):
        held = _holders(story, fact)
        run: list[tuple[Input, int, int]] = []
        worst: list[tuple[Input, int, int]] = []
        for step in story.inputs:
            place = _place(story, step, held)
            if place is not None and _is_middle(place):
                run.append((step, *place))
                worst = max(worst, run, key=len)
            else:
                run = []
        if len(worst) < _RUN:
            continue
        step, before, behind = max(worst, key=lambda row: min(row[1:]))
        yield Finding(
            "myopia",
            worst[0][0].step,
            f"{fact.kind} {quoted(fact.text)}: only in the middle third for {len(worst)} steps; at step "
            f"{step.step} {before:,} tokens from the start and {behind:,} from the end",
            "move it to an end: pin it (front), or repeat it in the newest message; page long documents. "
            "A bigger window makes it worse",
            detail={
                "kind": fact.kind,
                "fact": fact.text,
                "steps": len(worst),
                "at": step.step,
                "before": before,
                "behind": behind,
            },
        )


def squeeze_out(story: Story) -> Iterator[Finding]:
    """Steps whose input took the room of the answer, or that lost tool definitions (E22)."""
    crowded: list[tuple[Input, int]] = []
    for step in story.inputs:
        if step.window is None:
            continue
        reserve = story.reserve
        if reserve is None:
            lines = WindowPolicy(window=max(1_024, step.window)).lines(max_output=8_192)
            reserve = lines.window - lines.usable
        over = story.tokens(step) + reserve - step.window
        if over > 0:
            crowded.append((step, over))
    if crowded:
        step, over = max(crowded, key=lambda row: row[1])
        cut = sum(row[0].ended in ("length", "max_tokens", "model_length") for row in crowded)
        yield Finding(
            "squeeze-out",
            crowded[0][0].step,
            f"the input took room reserved for the answer on {len(crowded)} steps; at step {step.step} "
            f"{over:,} tokens of it, with {story.tokens(step):,} of {step.window:,} sent"
            + (f"; {cut} answers were cut off" if cut else ""),
            "keep the reserve: act at the lines below it (WindowPolicy), not when the provider refuses",
            detail={
                "steps": len(crowded),
                "at": step.step,
                "over": over,
                "sent": story.tokens(step),
                "window": step.window,
                "cut": cut,
            },
        )
    yield from _lost_tools(story)


def _lost_tools(story: Story) -> Iterator[Finding]:
    most = 0
    for step in story.inputs:
        tools = sum(story.parts[p].tokens for p in step.parts if story.parts[p].block == "tools")
        if tools < most:
            yield Finding(
                "squeeze-out",
                step.step,
                f"tool definitions of {most - tools:,} tokens that an earlier step had are gone",
                "definitions are never displaced: they stand before all that grows",
                detail={"tools": tools, "before": most},
            )
            return
        most = max(most, tools)


def _holders(story: Story, fact: Stated) -> frozenset[int]:
    texts = _flattened(story.parts)
    wanted = flat(fact.text)
    return frozenset(number for number, text in enumerate(texts) if wanted in text)


@lru_cache(maxsize=2)
def _flattened(parts: Sequence[object]) -> list[str]:
    return [flat(part.text) for part in parts]  # type: ignore[attr-defined]


def _place(story: Story, step: Input, held: frozenset[int]) -> tuple[int, int] | None:
    """Tokens before and behind the copy nearest to an end; None without one, or in a small input."""
    sizes = [story.parts[p].tokens for p in step.parts]
    total = sum(sizes)
    if total < LARGE or held.isdisjoint(step.parts):
        return None
    best: tuple[int, int] | None = None
    at = 0
    for part, size in zip(step.parts, sizes, strict=True):
        if part in held:
            place = (at, total - at - size)
            if best is None or min(place) < min(best):
                best = place
        at += size
    return best


def _is_middle(place: tuple[int, int]) -> bool:
    before, behind = place
    return min(before, behind) > (before + behind) / 3


def _answer(step: Input) -> str:
    return "\n".join([said_in(step.reply), *said_in_calls(step.reply)])


def quoted(text: str) -> str:
    """A recorded text in quotation marks, on one line and bounded."""
    short = flat(text)
    return repr(short if len(short) <= _SHOWN else short[: _SHOWN - 1] + "…")

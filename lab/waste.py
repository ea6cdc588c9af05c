"""What a window wastes: broken prefixes that never paid, work done twice, tokens carried and never used."""

import json
import re
from collections import Counter
from collections.abc import Iterator

from langchain_core.messages import AIMessage

from headwater.lab.diseases import Finding
from headwater.lab.sent_requests import common
from headwater.lab.story import Input, Story, results_of, said_in_calls
from headwater.lab.survival import flat
from headwater.window.prose import said_in

WORTH = 1_000
"""Tokens below which a fault is not worth a line."""
TOP = 8
_CARRIED = 20_000
_LONG = 400
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./:-]{3,}[A-Za-z0-9_]|[\u4e00-\u9fff]{4}")


def cache_faults(story: Story) -> Iterator[Finding]:
    """Prefixes that broke while the cache was warm and were not paid back, and cold gaps; dearest first."""
    found: list[Finding] = []
    total = len(story.inputs)
    for before, step in zip(story.inputs, story.inputs[1:], strict=False):
        if before.usage is None or step.usage is None or not before.usage.input:
            continue
        kept = before.usage.cached + before.usage.written
        lost = min(kept, step.usage.input) - step.usage.cached
        if lost < WORTH or not kept:
            continue
        gap = (step.at or 0.0) - (before.at or 0.0) if step.at and before.at else 0.0
        prices = story.prices
        price = (prices.write - prices.read) * lost
        if gap > prices.ttl:
            found.append(_cold(step, lost, gap, price))
            continue
        freed = max(0, before.usage.input - step.usage.input)
        saved = prices.read * freed * (total - step.step)
        if saved >= price:
            continue
        found.append(_broken(story, before, step, lost, price, saved))
    yield from sorted(found, key=lambda f: -f.price)[:TOP]


def _cold(step: Input, lost: int, gap: float, price: float) -> Finding:
    return Finding(
        "cache fault",
        step.step,
        f"the cache had gone cold after {gap / 60:,.0f} min: {lost:,} tokens were sent again "
        f"for {price:,.0f} more than warm",
        "a cold request is the free moment to let go of what is not needed: govern it, so that less is sent "
        "again; or buy a longer cache lifetime",
        price,
        {"gap": gap, "tokens": lost, "why": "cold gap"},
    )


def _broken(story: Story, before: Input, step: Input, lost: int, price: float, saved: float) -> Finding:
    same = common(before.parts, step.parts)
    where, block, text = "outside what was recorded", "", ""
    if same < len(before.parts):
        part = story.parts[before.parts[same]]
        block, text = part.block, part.text[:60]
        where = f"at part {same + 1} ({block}: {text!r})"
    did = f" by {', '.join(step.moves)}" if step.moves else ""
    return Finding(
        "cache fault",
        step.step,
        f"a warm prefix broke {where}{did}: {lost:,} tokens were sent again for {price:,.0f}, of which "
        f"{saved:,.0f} came back",
        "queue edits and apply them when the cache is cold or the rent has reached the price; never edit "
        "before the last request's end",
        price - saved,
        {
            "tokens": lost,
            "saved": saved,
            "why": "edit",
            "part": same,
            "block": block,
            "text": text,
            "moves": list(step.moves),
        },
    )


def repeat_work(story: Story) -> Iterator[Finding]:
    """Calls made again after their result had left the input."""
    results = results_of(story.messages)
    carriers: dict[str, frozenset[int]] = {}
    first: dict[str, tuple[int, str]] = {}
    again: dict[str, list[tuple[int, int]]] = {}
    for step in story.inputs:
        for call in step.reply.tool_calls:
            key = f"{call['name']} {json.dumps(call['args'], sort_keys=True, ensure_ascii=False)}"
            result = results.get(str(call["id"]))
            if result is None:
                continue
            text = said_in(result)
            known = first.get(key)
            # Another result is other work: a file that has changed, a build that is run again.
            if known is not None and len(text) >= _LONG and flat(known[1]) == flat(text):
                held = carriers.setdefault(known[1], _carriers(story, known[1]))
                if held and held.isdisjoint(step.parts):
                    again.setdefault(key, []).append((step.step, len(text) // 4))
            first[key] = (step.step, text)
    ranked = sorted(again.items(), key=lambda row: -sum(size for _, size in row[1]))
    for key, times in ranked[:TOP]:
        size = sum(tokens for _, tokens in times)
        yield Finding(
            "repeat work",
            times[0][0],
            f"{key[:100]!r} was made again {len(times)} × after its result had left the input; about "
            f"{size:,} tokens fetched again",
            "read the result back by its stub (file_read, ctx_expand) instead of doing the work again",
            float(size),
            {"call": key, "steps": [step for step, _ in times], "tokens": size},
        )


def garbage(story: Story) -> Iterator[Finding]:
    """Tool results that were carried through many requests and never used again."""
    carried: Counter[int] = Counter(part for step in story.inputs for part in step.parts)
    where: dict[int, int] = {}
    for step in story.inputs:
        for part in step.parts:
            where.setdefault(part, step.step)
    said = _words_from(story)
    wasted: list[tuple[int, int]] = []
    met: Counter[str] = Counter()
    bags = {n: set(_WORD.findall(p.text)) for n, p in enumerate(story.parts) if p.block == "observations"}
    for bag in bags.values():
        met.update(bag)
    for number, bag in bags.items():
        own = {word for word in bag if met[word] == 1}
        begun = where.get(number)
        if begun is None or carried[number] < 2 or not own:
            continue
        if all(last < begun for word in own if (last := said.get(word, 0))):
            wasted.append((story.parts[number].tokens * (carried[number] - 1), number))
    total = sum(tokens for tokens, _ in wasted)
    sent = sum(story.parts[p].tokens * times for p, times in carried.items())
    if total < _CARRIED or total < 0.05 * sent:
        return
    wasted.sort(reverse=True)
    largest = [
        (where[n], story.parts[n].tokens, carried[n] - 1, " ".join(story.parts[n].text.split())[:60])
        for _, n in wasted[:3]
    ]
    worst = "; ".join(
        f"step {step}: {tokens:,} tokens carried {times} times ({text!r})"
        for step, tokens, times, text in largest
    )
    yield Finding(
        "garbage",
        where[wasted[0][1]],
        f"{len(wasted)} results were carried and never used: {total:,} of {sent:,} tokens sent "
        f"({total / sent:.0%}). {worst}",
        "offload results once they have left the protected zone, and cap what arrives",
        story.prices.read * total,
        {"results": len(wasted), "tokens": total, "sent": sent, "share": total / sent, "worst": largest},
    )


def _words_from(story: Story) -> dict[str, int]:
    """The last step at which an answer says each word."""
    said: dict[str, int] = {}
    for step in story.inputs:
        reply: AIMessage = step.reply
        for text in (said_in(reply), *said_in_calls(reply)):
            said.update(dict.fromkeys(_WORD.findall(text), step.step))
    return said


def _carriers(story: Story, text: str) -> frozenset[int]:
    probe = text.strip()
    return frozenset(n for n, part in enumerate(story.parts) if probe in part.text)

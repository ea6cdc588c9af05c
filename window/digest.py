"""A stretch of messages told by its own sentences, without a model (E11).

Every sentence is scored by its cues and by who says it; those worth most for the root of their tokens are
kept, in the order they occurred, under the tag that opens the original. Cost is linear in the text; the same
messages give the same compartment.
"""

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from headwater.window.compartments import Compartment, WorkState
from headwater.window.cues import DECISION, ERROR, RESULT, PinKind, identifiers, language_of, pin_kind, score
from headwater.window.prose import SCAN_CHARS, Count, clip, prose_lines, said_in, sentences
from headwater.window.tokens import count_text
from headwater.window.touched import touched_files

TIER_SHARES = (0.34, 0.11, 0.06)
"""Tokens of P2, P3 and P4 as shares of the limit: the expected tier costs over P1's (G17)."""

TIER_FLOORS = (60, 35, 20)
"""Least tokens of P2, P3 and P4, where P1 is longer."""

MIN_LIMIT = 16
"""Tokens under which no sentence with its tag fits."""

SHORT = 10
"""Tokens under which brevity earns no more."""

GOAL, PINNED = 8.0, 8.0
"""Extra worth of the user's first statement; worth at which a user's sentence counts as binding."""

MAX_SENTENCE_CHARS = 400
MAX_FINDINGS = 3

_FINDING = re.compile(
    r"^\s*(?:\[?\d{4}-\d\d-\d\d[T ][\d:.,]+Z?\]?\s*)?"
    r"(?:\[?(?:ERROR|FATAL|CRITICAL)\b|(?:fatal|panic|error)(?:\[\w+\])?:"
    r"|[\w.]*(?:Error|Exception)\b(?=: |$)|E   \S|FAILED\b|npm ERR!|Error:|command not found|错误[:：]"
    r"|失败[:：]|异常[:：])"
    r"|\bexit(?:ed with)?(?: code| status)? [1-9]\d*\b|\b\d+ (?:passed|failed|errors?)\b"
    r"|: command not found$"
    r"|^\s*(?:result|conclusion|summary|total|status|verdict)\s*[:=]|^\s*(?:结论|结果|总计|合计"
    r"|状态)\s*[:：]",
    re.I,
)
_NEXT = re.compile(
    r"\b(?:next steps?|todo|to do|remaining|still (?:needs?|have) to|will then)\b"
    r"|下一步|接下来|待办|还需|剩余",
    re.I,
)


class _Candidate(NamedTuple):
    order: int
    tag: int
    who: str
    text: str
    tokens: int
    value: float


def digest(
    messages: Sequence[tuple[int, BaseMessage]],
    limit_tokens: int,
    language: str | None = None,
    count: Count = count_text,
) -> Compartment:
    """Extract a compartment from numbered messages.

    The user's statements come first, then decisions, exclusions, results and errors; greetings and process
    are dropped (E11). Tool results give only the lines that state an error or a conclusion.

    Args:
        messages: Tag and message, oldest first.
        limit_tokens: Most tokens of P1; P2 to P4 take the shares of ``TIER_SHARES``.
        language: Of the labels, ``zh`` or another; by default that of the user's words.
        count: Counts the tokens of a text.

    Raises:
        ValueError: Without messages, or for a limit under ``MIN_LIMIT``.
    """
    if not messages:
        raise ValueError("no messages to digest; pass at least one")
    if limit_tokens < MIN_LIMIT:
        raise ValueError(
            f"limit_tokens {limit_tokens!r} is under {MIN_LIMIT}; drop the stretch to the archive instead"
        )
    candidates = _candidates(messages, count)
    language = language or _language(candidates)
    first, last = messages[0][0], messages[-1][0]
    told = _told(candidates, limit_tokens, count)
    p1 = _lines(told) or clip(_nothing(len(messages), first, last, language), limit_tokens, count)
    limits = [
        max(floor, int(limit_tokens * share)) for share, floor in zip(TIER_SHARES, TIER_FLOORS, strict=True)
    ]
    title = _title(candidates, first, last, language)
    tiers = [
        _lines(_told(told, limits[0], count)),
        " ".join(c.text for c in _told(told, limits[1], count)),
        _anchors(told, limits[2], count),
    ]
    p2, p3, p4 = _never_longer(p1, tiers, limits, count)
    work = _work(messages, candidates)
    return Compartment(
        first,
        last,
        title,
        p1,
        p2,
        p3,
        p4,
        _importance(candidates),
        _episode(candidates, work),
        work,
        "digest",
    )


def _candidates(messages: Sequence[tuple[int, BaseMessage]], count: Count) -> list[_Candidate]:
    found: list[_Candidate] = []
    seen: set[str] = set()
    asked = False
    for tag, message in messages:
        for who, text in _said(message):
            key = " ".join(text.lower().split())
            if key in seen:
                continue
            seen.add(key)
            value = _worth(who, text, message)
            if value <= 0:
                continue
            if who == "U" and not asked:
                value, asked = value + GOAL, True
            found.append(_Candidate(len(found), tag, who, text, count(text) + 1, value))
    return found


def _said(message: BaseMessage) -> Iterator[tuple[str, str]]:
    """Who says what in a message: user, assistant or tool; system messages are contract and stay out."""
    if isinstance(message, SystemMessage):
        return
    text = said_in(message)
    if isinstance(message, ToolMessage):
        for line in _findings(text, message.status == "error"):
            yield "T", _short(line)
        return
    who = "U" if isinstance(message, HumanMessage) else "A"
    for line in prose_lines(text):
        for sentence in sentences(line):
            yield who, _short(sentence)


def _worth(who: str, text: str, message: BaseMessage) -> float:
    """What a sentence is worth before its length; nothing or less means it is dropped."""
    value = score(text)
    if who == "U":
        return _USER[pin_kind(text)] + max(value, -2.0)
    if who == "T":
        return value + 1.5
    value += 1.0 if _NEXT.search(text) else 0.0
    # An answer without calls is what a round came to.
    answer = isinstance(message, AIMessage) and not message.tool_calls
    return value + 1.0 if value > 0 and answer else value


# What a user lays down outweighs all else; a user's greeting is still a greeting.
_USER: dict[PinKind | None, float] = {
    "constraint": 12.0,
    "exclusion": 12.0,
    "decision": 12.0,
    "preference": 9.0,
    None: 2.0,
}


def _short(text: str) -> str:
    return text if len(text) <= MAX_SENTENCE_CHARS else text[: MAX_SENTENCE_CHARS - 1].rstrip() + "…"


def _findings(text: str, failed: bool) -> list[str]:
    if len(text) > 2 * SCAN_CHARS:
        text = text[:SCAN_CHARS] + "\n" + text[-SCAN_CHARS:]
    lines = text.splitlines()
    found = [line.strip() for line in lines if len(line) <= 2000 and _FINDING.search(line)]
    if failed and not found:
        found = [line.strip() for line in lines if line.strip()][-1:]
    # The first finding names the trouble, the last ones say how it ended.
    return found if len(found) <= MAX_FINDINGS else [found[0], *found[-(MAX_FINDINGS - 1) :]]


def _told(candidates: Sequence[_Candidate], limit: int, count: Count) -> list[_Candidate]:
    """Greedy choice by value over the root of tokens, in order of occurrence, within the limit."""
    marks: set[int] = set()
    chosen: list[_Candidate] = []
    used = 0
    for candidate in sorted(candidates, key=lambda c: (-c.value / math.sqrt(max(c.tokens, SHORT)), c.order)):
        need = candidate.tokens + (0 if candidate.tag in marks else 6)
        if used + need <= limit:
            used += need
            marks.add(candidate.tag)
            chosen.append(candidate)
    while chosen and count(_lines(chosen)) > limit:
        chosen.pop()
    return sorted(chosen)


def _lines(told: Sequence[_Candidate]) -> str:
    lines: list[str] = []
    tag = None
    for candidate in sorted(told):
        if candidate.tag == tag:
            lines[-1] += " " + candidate.text
        else:
            lines.append(f"§{candidate.tag}§ {candidate.who}: {candidate.text}")
        tag = candidate.tag
    return "\n".join(lines)


def _anchors(told: Sequence[_Candidate], limit: int, count: Count) -> str:
    kept: list[str] = []
    names = (name for c in sorted(told, key=lambda c: (-c.value, c.order)) for name in identifiers(c.text))
    for name in dict.fromkeys(names):
        if count("; ".join([*kept, name])) > limit:
            break
        kept.append(name)
    return "; ".join(kept)


def _never_longer(p1: str, tiers: Sequence[str], limits: Sequence[int], count: Count) -> list[str]:
    kept: list[str] = []
    above = p1
    for text, limit in zip(tiers, limits, strict=True):
        if not text or count(text) > count(above):
            text = clip(above, limit, count) or above
        kept.append(text)
        above = text
    return kept


def _language(candidates: Sequence[_Candidate]) -> str:
    said = "\n".join(c.text for c in candidates if c.who == "U")
    return language_of((said or "\n".join(c.text for c in candidates))[:20_000])


def _nothing(messages: int, first: int, last: int, language: str) -> str:
    if language == "zh":
        return f"§{first}–{last}§：{messages} 条消息，没有需要保留的陈述。"
    return f"§{first}–{last}§: {messages} messages, no statement to keep."


def _title(candidates: Sequence[_Candidate], first: int, last: int, language: str) -> str:
    best = next((c.text for c in candidates if c.who == "U"), candidates[0].text if candidates else "")
    if not best:
        return f"消息 {first}–{last}" if language == "zh" else f"Messages {first}–{last}"
    most = 30 if language == "zh" else 70
    return best if len(best) <= most else best[: most - 1].rstrip() + "…"


def _importance(candidates: Sequence[_Candidate]) -> int:
    pins = sum(c.who == "U" and c.value >= PINNED for c in candidates)
    decisions = sum(c.who == "A" and DECISION.found(c.text) for c in candidates)
    base = 40 if any(c.who == "U" for c in candidates) else 30
    return min(85, base + 8 * min(pins, 4) + 3 * min(decisions, 5))


def _episode(candidates: Sequence[_Candidate], work: WorkState) -> str:
    kinds = []
    if work.files_modified:
        kinds.append("code_change")
    if sum(ERROR.found(c.text) for c in candidates) >= 3:
        kinds.append("debugging")
    return ",".join(kinds) or "discussion"


def _work(messages: Sequence[tuple[int, BaseMessage]], candidates: Sequence[_Candidate]) -> WorkState:
    read, modified = touched_files(message for _, message in messages)
    stated = [(pin_kind(c.text), c.text) for c in candidates if c.who == "U"]
    said = [c for c in candidates if c.who == "A"]
    results = [c for c in said if RESULT.found(c.text) and not _NEXT.search(c.text)]
    best = sorted(sorted(results, key=lambda c: (-c.value, c.order))[:8])
    return WorkState.from_dict(
        {
            "goal": next((text for _, text in stated), ""),
            "constraints": [text for kind, text in stated if kind not in (None, "decision")],
            "progress": [c.text for c in best],
            "decisions": [text for kind, text in stated if kind == "decision"]
            + [c.text for c in said if DECISION.found(c.text)][-8:],
            "next_steps": [c.text for c in said if _NEXT.search(c.text)][-3:],
            "files_read": read,
            "files_modified": modified,
        }
    )

"""`ctx_search`: recall in its third depth, over all that was kept (G28, G36).

Facts, this session's history with the past it was forked from, the project's other sessions, and git commits.
Of history both the messages are looked up, by words, and what was told of them, by words and by meaning.
What stands in the window is left out; what is found names the tags that `ctx_expand` opens.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from langchain_core.messages import ToolMessage

from headwater.memory import Fact, Memory
from headwater.memory.lexical import snippet
from headwater.window.marks import mark
from headwater.window.tokens import count_text

LIMIT, MOST = 10, 50
_FURTHER = 8
NEAR = 0.12
"""The least score of a compartment that is shown: one about something else seldom has more, one that tells of
it in another language has 0.15 to 0.25.
"""
TOKENS = 4_096
QUERY_BYTES = 16_384

# How far each kind is ahead of another of equal rank: a fact is a result, a message is where it came from.
_FACT, _COMMIT, _MESSAGE, _TOLD, _ELSEWHERE = 1.3, 1.2, 1.15, 1.1, 1.0
_NOTHING = {
    "en": "Nothing found beyond what is in sight; try other words.",
    "zh": "除眼前已有的内容外没有找到；请换个说法再查。",
}
_MORE = {
    "en": "⟪more was found; name what you look for more closely⟫",
    "zh": "⟪还有更多结果；请把要找的内容说得更具体⟫",
}


class Seen(NamedTuple):
    """What the window shows already: its texts, and the tags in the tail."""

    text: str = ""
    tags: frozenset[int] = frozenset()


def search(
    memory: Memory,
    session: str,
    query: str,
    limit: int = LIMIT,
    *,
    tokens: int = TOKENS,
    seen: Seen | None = None,
    owned: Callable[[int], bool] = lambda tag: True,
    language: str = "en",
) -> str:
    """The answer of `ctx_search`: one line a find, best first.

    Args:
        memory: One tenant's project; nothing of another is looked at.
        session: The session that asks.
        query: At most 16 KiB; the first 64 words count.
        limit: Lines, 1 to 50.
        tokens: What the answer may take, never more than 4,096.
        seen: What is in sight and is left out.
        owned: Which of the session's tags are of the branch that asks.
        language: "zh" or "en".

    Raises:
        ValueError: The query is empty or too long, or the limit out of range.
        StorageError: Memory cannot be read.
    """
    if not query.strip():
        raise ValueError("the query is empty; say what to look for")
    if len(query.encode("utf-8", "replace")) > QUERY_BYTES:
        raise ValueError(f"the query has {len(query):,} characters; {QUERY_BYTES:,} bytes are the most")
    if not 1 <= limit <= MOST:
        raise ValueError(f"limit={limit!r} must be between 1 and {MOST}")
    seen = seen or Seen()
    found = [
        *_facts(memory, session, query, limit, seen),
        *_ranked(_TOLD, _told(memory, session, query, limit, seen, owned)),
        *_ranked(_MESSAGE, _messages(memory, session, query, limit, seen, owned)),
        *_ranked(_ELSEWHERE, _elsewhere(memory, session, query, limit)),
        *_ranked(_COMMIT, _commits(memory, query, limit)),
    ]
    lines: list[str] = []
    left = min(tokens, TOKENS) - 40
    for _, line in sorted(found, key=lambda pair: -pair[0])[:limit]:
        left -= count_text(line) + 1
        if left < 0:
            lines.append(_MORE.get(language, _MORE["en"]))
            break
        lines.append(line)
    return "\n".join(lines) or _NOTHING.get(language, _NOTHING["en"])


def _ranked(boost: float, lines: Sequence[str]) -> Iterator[tuple[float, str]]:
    return ((boost * (1 - at / len(lines)), line) for at, line in enumerate(lines))


def _facts(memory: Memory, session: str, query: str, limit: int, seen: Seen) -> Iterator[tuple[float, str]]:
    if memory.facts.empty:
        return
    found = [pair for pair in memory.facts.search(query, limit) if pair[0].content not in seen.text]
    memory.facts.uses.count("found", [fact.id for fact, score in found if score >= NEAR])
    for fact, score in found:
        yield _FACT * score, f"fact [{fact.category}] {fact.content}{_origin(memory, session, fact)}"


def _origin(memory: Memory, session: str, fact: Fact) -> str:
    """Where a fact was learnt, if that can be opened from here."""
    if fact.source is None or not fact.source.tags:
        return ""
    where, tags = fact.source
    if where != session and where not in memory.sessions:
        return ""
    return f" (from {_tags(tags)}{_opened_by(session, where, tags)})"


def _told(
    memory: Memory, session: str, query: str, limit: int, seen: Seen, owned: Callable[[int], bool]
) -> list[str]:
    """Compartments, each with the range that opens what it tells."""
    lines: list[str] = []
    best = 0.0
    for found in memory.compartments.search(session, query, limit):
        best = best or found.score
        if found.score < max(NEAR, best / 2):
            break
        ends = {tag for run in found.tags for tag in run}
        another = found.session == session and (ends <= seen.tags or not all(map(owned, ends)))
        if another or found.text in seen.text:
            continue
        tags = f"{found.first}-{found.last}"
        where = f'told: ctx_expand(tags="{tags}")'
        if found.session != session:
            where = f'told of another session: ctx_expand(tags="{tags}", session={found.session!r})'
        lines.append(f"{where}: {found.title}: {snippet(found.text, query)}")
    return lines


def _messages(
    memory: Memory, session: str, query: str, limit: int, seen: Seen, owned: Callable[[int], bool]
) -> list[str]:
    def wanted(tag: int) -> bool:
        return owned(tag) and not _is_answer(memory, session, tag)

    found = memory.archive.search(session, query, limit + len(seen.tags))
    if not all(wanted(tag) for tag, _ in found):
        # What is passed over is made up for: look further.
        found = [hit for hit in memory.archive.search(session, query, _FURTHER * limit) if wanted(hit[0])]
    return [f"{mark(tag)} {text}" for tag, text in found if tag not in seen.tags][:limit]


def _elsewhere(memory: Memory, session: str, query: str, limit: int) -> list[str]:
    others = memory.sessions.newest()
    found = memory.archive.search_beside(session, others, query, limit)
    if any(_is_answer(memory, where, tag) for where, tag, _ in found):
        more = memory.archive.search_beside(session, others, query, _FURTHER * limit)
        found = [hit for hit in more if not _is_answer(memory, *hit[:2])][:limit]
    return [f"{mark(tag)}{_opened_by(session, where, [tag])}: {text}" for where, tag, text in found]


def _is_answer(memory: Memory, session: str, tag: int) -> bool:
    """Whether a message is itself the answer of a search: what it names is found where it stands.

    A part of it would pass for the session's own words, without what says whose they are.
    """
    message = memory.archive.get(session, tag)
    return isinstance(message, ToolMessage) and message.name == "ctx_search"


def _commits(memory: Memory, query: str, limit: int) -> list[str]:
    return [
        f"commit {commit.hash} {commit.day}: {snippet(commit.message, query)}"
        for commit in memory.commits.search(query, limit)
    ]


def _tags(tags: Sequence[int]) -> str:
    return ", ".join(map(mark, tags[:5]))


def _opened_by(session: str, where: str, tags: Sequence[int]) -> str:
    if where == session:
        return ""
    return f' of another session: ctx_expand(tags="{",".join(map(str, tags[:5]))}", session={where!r})'

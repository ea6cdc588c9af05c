"""Reading back what left the window, a page at a time: artifacts by path, messages by tag (M10, G34)."""

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.tools import ToolException

from headwater.memory import Memory, StorageError, UnknownTag, page
from headwater.memory.kinship import may_open
from headwater.window.face import safe, text_of
from headwater.window.marks import TagError, mark, parse_ranges
from headwater.window.tokens import count_text

EXPAND_TOKENS = 15_000
"""The most that one page may take, tokens."""


def stored(memory: Memory, path: str) -> bool:
    """Whether an artifact is here."""
    try:
        return memory.artifacts.path(path).is_file()
    except ValueError:
        return True


def read(memory: Memory, path: str, offset: int, limit: int, char_offset: int | None, tokens: int) -> str:
    """A page of an artifact, at most `tokens`, and where the next one begins.

    Raises:
        ToolException: There is no such artifact, or no such place in it.
    """
    try:
        text = memory.artifacts.read_text(path)
        chars = tokens * 4
        part = page(text, offset=offset, limit=limit, char_offset=char_offset, max_chars=chars)
        if (weight := count_text(part.text)) > tokens:
            chars = max(1, len(part.text) * tokens // weight)
            part = page(text, offset=offset, limit=limit, char_offset=char_offset, max_chars=chars)
    except (StorageError, ValueError) as error:
        raise ToolException(str(error)) from error
    if part.next_line is None and part.next_char is None:
        return safe(part.text)
    more = f"char_offset={part.next_char}" if part.next_char is not None else f"offset={part.next_line}"
    return safe(f"{part.text}\n⟪{part.total_lines:,} lines, {part.total_chars:,} chars; go on with {more}⟫")


def expand(
    memory: Memory,
    own: str,
    session: str,
    tags: str,
    limit: int,
    owned: Callable[[int], bool] | None = None,
) -> str:
    """Messages in full by their tags, at most `limit` tokens of them, and how to go on.

    Args:
        memory: Where the log is.
        own: The session that asks.
        session: Whose messages are asked for.
        tags: As the model wrote them.
        limit: Tokens.
        owned: Which of its tags are of the branch that asks; None for all.

    Raises:
        ToolException: They may not or cannot be opened.
    """
    try:
        if not may_open(memory, own, session) and session not in memory.sessions:
            raise ToolException(f"{session!r} is not this session, a sub-agent of it, or of this project")
        wanted = parse_ranges(tags)
        last = memory.archive.last(session)
        if last == 0:
            raise ToolException(f"session {session!r} has no messages")
        unknown = [t for t in wanted if t < 1 or t > last]
        if unknown:
            raise ToolException(
                f"unknown: {', '.join(map(mark, unknown[:8]))}; this session has §1§ to §{last}§"
            )
        mine = wanted if owned is None else [t for t in wanted if owned(t)]
        if not mine:
            raise ToolException(f"{', '.join(map(mark, wanted[:8]))}: of another branch of this session")
        return _pages(memory, session, mine, limit)
    except (TagError, UnknownTag, StorageError) as error:
        raise ToolException(str(error)) from error


def _pages(memory: Memory, session: str, tags: Sequence[int], limit: int) -> str:
    """Whole messages up to the limit; of one that is over it the head, and where file_read goes on."""
    out: list[str] = []
    used = 0
    for at, tag in enumerate(tags):
        message = memory.archive.get(session, tag)
        text = _full(message)
        weight = count_text(text) + 8
        if out and used + weight > limit:
            rest = ",".join(map(str, tags[at:]))
            return safe("\n\n".join([*out, f'⟪go on with ctx_expand(tags="{rest}")⟫']))
        if weight > limit:
            name = memory.artifacts.put(text)
            head = page(text, char_offset=0, max_chars=max(1, len(text) * limit // weight)).text
            more = f'⟪go on with file_read(path="{name}", char_offset={len(head)})⟫'
            out.append(f"{mark(tag)} {message.type}: {head}\n{more}")
        else:
            out.append(f"{mark(tag)} {message.type}: {text}")
        used += weight
    return safe("\n\n".join(out))


def _full(message: Any) -> str:
    calls = [f"\n→ {call['name']}({call['args']})" for call in getattr(message, "tool_calls", ())]
    return text_of(message) + "".join(calls)

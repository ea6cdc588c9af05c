"""What recorded sessions say of their requests: how large each was by our count, and what was charged."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from headwater.lab.sessions import Session
from headwater.window.tokens import count_message

_WHOLE = ("prompt_tokens", "input_tokens", "input")
_CACHED_APART = ("cache_creation_input_tokens", "cache_read_input_tokens", "cacheRead", "cacheWrite")


class Point(NamedTuple):
    """One answered request of a recording.

    Attributes:
        row: The assistant message that answered it.
        model: Its name, "" where the recorder noted none.
        revision: How often the recorded window had moved by then; equal ones only ever grew.
        counted: Tokens of the rows that stood in it. What the recorder left out is not among them: the
            program's own system prompt and tools, hidden reasoning, encrypted summaries.
        reported: Input tokens that the provider charged, cached ones included.
    """

    row: int
    model: str
    revision: int
    counted: int
    reported: int


def reported_input(usage: Mapping[str, Any] | None) -> int:
    """Input tokens in a recorded usage, cached ones included; 0 where none are reported.

    Names differ: OpenAI's input holds what was cached, Anthropic's and the programs that follow it do not.

    Example:
        >>> reported_input({"input_tokens": 10, "cache_read_input_tokens": 7})
        17
        >>> reported_input({"input_tokens": 24_005, "cached_input_tokens": 2_432})
        24005
    """
    if not usage:
        return 0
    whole = next((usage[name] for name in _WHOLE if name in usage), 0)
    cache = usage.get("cache")
    apart = sum(cache.values()) if isinstance(cache, Mapping) else 0
    return int(whole + apart + sum(usage.get(name) or 0 for name in _CACHED_APART))


def points(session: Session) -> Iterator[Point]:
    """The answered requests of a session that report their input, in order."""
    sizes: dict[int, int] = {}
    revision = 0
    for row, (message, meta) in enumerate(zip(session.messages, session.meta, strict=True)):
        moved = _moved(sizes, session.messages, row, meta)
        revision += moved
        if isinstance(message, AIMessage):
            reported = reported_input(session.usage[row])
            if reported:
                yield Point(row, str(meta.get("model") or ""), revision, sum(sizes.values()), reported)
        sizes[row] = count_message(message)


def _moved(sizes: dict[int, int], messages: Sequence[BaseMessage], row: int, meta: Mapping[str, Any]) -> bool:
    """Take out what had left the recorded window before a row; whether any of it did."""
    before = len(sizes)
    events = [event for event in meta.get("events_before") or [] if isinstance(event, Mapping)]
    for event in events:
        if event.get("event") == "microcompact_boundary":
            gone = set((event.get("compact") or {}).get("compactedToolIds") or ())
            _forget(sizes, [r for r in sizes if _answers(messages[r], gone)])
        elif event.get("event") == "compacted":
            # What stays is the instructions and what the user said; the summary is encrypted.
            _forget(sizes, [r for r in sizes if not isinstance(messages[r], SystemMessage | HumanMessage)])
    if meta.get("compact_summary"):
        _forget(sizes, list(sizes))
    return len(sizes) < before


def _answers(message: BaseMessage, calls: set[str]) -> bool:
    return isinstance(message, ToolMessage) and message.tool_call_id in calls


def _forget(sizes: dict[int, int], rows: Sequence[int]) -> None:
    for row in rows:
        del sizes[row]

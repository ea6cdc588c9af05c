"""What recorded sessions say of their requests: how large each was by our count, and what was charged."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from headwater.lab.sessions import Session
from headwater.window.tokens import count_message


class Usage(NamedTuple):
    """What a provider reported for one request, in tokens."""

    input: int
    cached: int
    written: int


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


def usage_of(raw: Mapping[str, Any] | None) -> Usage | None:
    """A provider's usage in one form: input is all of it, read and written are parts of it."""
    if not raw:
        return None
    cache = raw.get("cache")
    if isinstance(cache, Mapping):
        return _added(raw.get("input"), cache.get("read"), cache.get("write"))
    if "cacheRead" in raw or "cacheWrite" in raw:
        return _added(raw.get("input"), raw.get("cacheRead"), raw.get("cacheWrite"))
    apart = "cache_read_input_tokens" in raw or "cache_creation_input_tokens" in raw
    if apart and "prompt_tokens" not in raw:
        return _added(
            raw.get("input_tokens"),
            raw.get("cache_read_input_tokens"),
            raw.get("cache_creation_input_tokens"),
        )
    details = (
        raw.get("prompt_tokens_details") or raw.get("input_token_details") or raw.get("input_tokens_details")
    )
    details = details if isinstance(details, Mapping) else {}
    # Gateways that answer in OpenAI's words put Anthropic's beside them; the prompt's count holds them.
    names = (raw.get("cached_input_tokens"), raw.get("cache_read_input_tokens"))
    cached = next(filter(None, (*names, details.get("cached_tokens"), details.get("cache_read"))), None)
    total = raw.get("input_tokens") or raw.get("prompt_tokens") or raw.get("input")
    if not isinstance(total, int):
        return None
    read = cached if isinstance(cached, int) else 0
    made = details.get("cache_creation")
    return Usage(total, read, made if isinstance(made, int) else max(0, total - read) if read else 0)


def _added(fresh: Any, read: Any, written: Any) -> Usage:
    a, b, c = (value if isinstance(value, int) else 0 for value in (fresh, read, written))
    return Usage(a + b + c, b, c)


def points(session: Session) -> Iterator[Point]:
    """The answered requests of a session that report their input, in order."""
    sizes: dict[int, int] = {}
    revision = 0
    for row, (message, meta) in enumerate(zip(session.messages, session.meta, strict=True)):
        moved = _moved(sizes, session.messages, row, meta)
        revision += moved
        if isinstance(message, AIMessage):
            usage = usage_of(session.usage[row])
            if usage is not None and usage.input:
                yield Point(row, str(meta.get("model") or ""), revision, sum(sizes.values()), usage.input)
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

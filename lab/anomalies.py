"""What is odd in a recorded session: named with its row, never repaired."""

from collections import Counter
from collections.abc import Iterator, Sequence

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage


def find_anomalies(messages: Sequence[BaseMessage]) -> Iterator[str]:
    """Name what is odd, as `kind: row N: detail` with rows counted from 0."""
    yield from _shape_anomalies(messages)
    yield from _pairing_anomalies(messages)


def _shape_anomalies(messages: Sequence[BaseMessage]) -> Iterator[str]:
    previous = ""
    for row, message in enumerate(messages):
        kind = message.type
        empty = not message.content
        if kind == "ai" and isinstance(message, AIMessage):
            empty = empty and not (message.tool_calls or message.invalid_tool_calls)
            for call in message.invalid_tool_calls:
                yield f"malformed_arguments: row {row}: {call['name']!r} got {call['args']!r:.60}"
        if empty:
            yield f"empty_{kind}: row {row}: no content"
        if kind == previous and kind in ("human", "ai"):
            yield f"consecutive_{kind}: row {row}: two {kind} messages in a row"
        if kind == "system" and row:
            yield f"mid_system: row {row}: a system message after the first row"
        if "\x1b" in str(message.content):
            yield f"ansi: row {row}: terminal control codes in the content"
        previous = kind


def _pairing_anomalies(messages: Sequence[BaseMessage]) -> Iterator[str]:
    uses: Counter[str] = Counter()
    waiting: dict[str, int] = {}
    answered: set[str] = set()
    adjacent: set[str] = set()
    for row, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            call = message.tool_call_id
            if call in waiting:
                if call not in adjacent:
                    yield f"nonadjacent_result: row {row}: result of {call!r} is not directly after its call"
                del waiting[call]
                answered.add(call)
            elif call in answered:
                yield f"duplicate_result: row {row}: {call!r} was answered before"
            else:
                yield f"orphan_result: row {row}: no call {call!r} before it"
            continue
        adjacent = set()
        for call in call_ids(message):
            uses[call] += 1
            if uses[call] > 1:
                yield f"duplicate_call_id: row {row}: {call!r} was used before"
            if call in waiting:
                yield f"unanswered_call: row {waiting[call]}: {call!r} has no result"
            waiting[call] = row
            answered.discard(call)
            adjacent.add(call)
    for call, row in waiting.items():
        yield f"unanswered_call: row {row}: {call!r} has no result"


def call_ids(message: BaseMessage) -> list[str]:
    """Ids of the calls a message makes, broken ones too."""
    if not isinstance(message, AIMessage):
        return []
    return [str(call["id"]) for call in (*message.tool_calls, *message.invalid_tool_calls)]

"""Recorded sessions: plain JSONL rows into LangChain messages, oddities kept and named."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

EXPECTED = (
    'expected JSON Lines: one object a line with "role" (system, user, assistant or tool) and "content", '
    'assistant rows with optional "tool_calls" and "reasoning", tool rows with "tool_call_id"'
)
_ROLES = ("system", "user", "assistant", "tool")


class NotASession(ValueError):
    """The file is not a recorded session; the text says what was found and what was expected."""


@dataclass(frozen=True)
class Session:
    """A recorded session, row for row.

    Attributes:
        name: The file's stem.
        messages: One message a row, in order.
        times: Seconds since the epoch for each row, None where nothing was recorded.
        usage: The provider's usage for each row, as recorded (field names differ by provider), or None.
        anomalies: `kind: row N: detail` for what a provider would refuse or a careless reader would lose.
        meta: What else the recorder noted for each row.
    """

    name: str
    messages: list[BaseMessage]
    times: list[float | None]
    usage: list[dict[str, Any] | None]
    anomalies: list[str]
    meta: list[dict[str, Any]] = field(default_factory=list, repr=False)


@dataclass(frozen=True)
class Turn:
    """What came in, and each assistant message that answered with the tool results it got."""

    inputs: list[BaseMessage] = field(default_factory=list)
    replies: list[tuple[AIMessage, list[ToolMessage]]] = field(default_factory=list)


def load_session(path: str | Path) -> Session:
    """Read a recorded session from plain JSONL.

    Args:
        path: The file. Every row becomes exactly one message; nothing is repaired.

    Returns:
        The session with its anomalies.

    Raises:
        NotASession: A row is not what `EXPECTED` says, or there is no row.
        OSError: The file cannot be read.
    """
    path = Path(path)
    rows = list(_rows(path))
    if not rows:
        raise NotASession(f"{path}: no rows; {EXPECTED}")
    messages = [_message(path, number, row) for number, row in rows]
    meta = [row["_meta"] if isinstance(row.get("_meta"), dict) else {} for _, row in rows]
    return Session(
        name=path.stem,
        messages=messages,
        times=[_seconds(m.get("ts")) for m in meta],
        usage=[m["usage"] if isinstance(m.get("usage"), dict) else None for m in meta],
        anomalies=list(find_anomalies(messages)),
        meta=meta,
    )


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    # Split on the byte: str.splitlines would also cut at U+2028 inside a JSON string.
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise NotASession(
                f"{path}: line {number} is not JSON ({error}): {line[:80]!r}; {EXPECTED}"
            ) from None
        if not isinstance(row, dict) or row.get("role") not in _ROLES or "content" not in row:
            raise NotASession(f"{path}: line {number} is no message: {line[:80]!r}; {EXPECTED}")
        yield number, row


def _message(path: Path, number: int, row: dict[str, Any]) -> BaseMessage:
    content = "" if row["content"] is None else row["content"]
    if not isinstance(content, (str, list)):
        raise NotASession(f"{path}: line {number} has content {content!r:.80}; {EXPECTED}")
    role, name = row["role"], row.get("name")
    if role == "system":
        return SystemMessage(content, name=name)
    if role == "user":
        return HumanMessage(content, name=name)
    if role == "assistant":
        return _assistant(path, number, row, content)
    if not isinstance(row.get("tool_call_id"), str):
        raise NotASession(f"{path}: line {number} is a tool row without tool_call_id; {EXPECTED}")
    failed = bool((row.get("_meta") or {}).get("is_error"))
    return ToolMessage(
        content, tool_call_id=row["tool_call_id"], name=name, status="error" if failed else "success"
    )


def _assistant(path: Path, number: int, row: dict[str, Any], content: str | list[Any]) -> AIMessage:
    calls, broken = [], []
    for call in row.get("tool_calls") or []:
        try:
            name, raw, call_id = call["function"]["name"], call["function"]["arguments"], call["id"]
        except (TypeError, KeyError):
            raise NotASession(f"{path}: line {number} has tool call {call!r:.80}; {EXPECTED}") from None
        args = _arguments(raw)
        if args is None:
            error = "arguments are not a JSON object"
            broken.append({"name": name, "args": str(raw), "id": call_id, "error": error})
        else:
            calls.append({"name": name, "args": args, "id": call_id})
    meta = row.get("_meta") or {}
    return AIMessage(
        content,
        name=row.get("name"),
        tool_calls=calls,
        invalid_tool_calls=broken,
        additional_kwargs={"reasoning_content": row["reasoning"]} if row.get("reasoning") else {},
        response_metadata={"model_name": meta["model"]} if meta.get("model") else {},
    )


def _arguments(raw: Any) -> dict[str, Any] | None:
    if isinstance(raw, dict):
        return raw
    try:
        parsed = json.loads(raw)
    except (TypeError, ValueError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _seconds(stamp: Any) -> float | None:
    """ISO text or milliseconds since the epoch, as recorders write them, in seconds."""
    if isinstance(stamp, bool) or stamp is None:
        return None
    if isinstance(stamp, (int, float)):
        return stamp / 1000 if stamp > 1e11 else float(stamp)
    try:
        when = datetime.fromisoformat(str(stamp))
    except ValueError:
        return None
    # A stamp without a zone is read as UTC: only differences within a session matter.
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


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
        for call in _call_ids(message):
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


def _call_ids(message: BaseMessage) -> list[str]:
    if not isinstance(message, AIMessage):
        return []
    return [str(call["id"]) for call in (*message.tool_calls, *message.invalid_tool_calls)]


def turns(session: Session) -> list[Turn]:
    """Cut a session for a replayer: what to feed in, and what the model and tools then answered.

    Every message stands in exactly one place and in order, but for a result that came after a new input: it
    goes with the call it answers, or, when there is none, with the inputs.
    """
    out: list[Turn] = []
    owner: dict[str, list[ToolMessage]] = {}
    results: list[ToolMessage] | None = None
    for message in session.messages:
        if isinstance(message, ToolMessage):
            home = owner.get(message.tool_call_id, results)
            if home is not None:
                home.append(message)
                continue
        if isinstance(message, AIMessage):
            if not out:
                out.append(Turn())
            results = []
            out[-1].replies.append((message, results))
            owner.update(dict.fromkeys(_call_ids(message), results))
            continue
        if not out or out[-1].replies:
            out.append(Turn())
        out[-1].inputs.append(message)
        results = None
    return out

"""The one normal form of a recorded session: rows, and the messages they become.

A row is a dict in the shape of OpenAI's chat messages: `role` (system, user, assistant or tool), `content`
(text or blocks), for an assistant `tool_calls` and `reasoning`, for a tool `tool_call_id` and `name`, and
`_meta` with what the recorder noted (`ts`, `model`, `usage`, `is_error`, `compact_summary`,
`events_before`, …). Every loader makes rows; here they become messages.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from headwater.lab.anomalies import find_anomalies

ROLES = ("system", "user", "assistant", "tool")
Row = dict[str, Any]


class NotASession(ValueError):
    """The file is not a recorded session; the text says what was found and what was expected."""


@dataclass(frozen=True)
class Session:
    """A recorded session, row for row.

    Attributes:
        name: The file's stem, or the thread's id.
        messages: One message a row, in order.
        times: Seconds since the epoch for each row, None where nothing was recorded.
        usage: The provider's usage for each row, as recorded (field names differ by provider), or None.
        anomalies: `kind: row N: detail` for what a provider would refuse or a careless reader would lose.
        meta: What else the recorder noted for each row.
        format: Which format it was found to be in.
        children: The sessions of its sub-agents, each with `parent_call`, the id of the call that began it
            (None where the recording does not say).
    """

    name: str
    messages: list[BaseMessage]
    times: list[float | None]
    usage: list[dict[str, Any] | None]
    anomalies: list[str]
    meta: list[dict[str, Any]] = field(default_factory=list, repr=False)
    format: str = "plain"
    children: "tuple[Session, ...]" = field(default=(), repr=False)
    parent_call: str | None = None


@dataclass
class Recording:
    """What a loader read: rows in order, what was odd in the file itself, and the sub-agents' recordings."""

    format: str
    rows: list[Row] = field(default_factory=list)
    oddities: list[str] = field(default_factory=list)
    children: "list[Recording]" = field(default_factory=list)
    name: str | None = None
    parent_call: str | None = None

    def odd(self, kind: str, detail: str) -> None:
        """Report an oddity at the row that comes next."""
        self.oddities.append(f"{kind}: row {len(self.rows)}: {detail}")


def session_of(recording: Recording, name: str) -> Session:
    """The session that a recording is, with its sub-agents; nothing is repaired.

    Raises:
        NotASession: A row is none; the text names it by its number, from 0.
    """
    messages = [message_of(f"row {number}", row) for number, row in enumerate(recording.rows)]
    meta = [row["_meta"] if isinstance(row.get("_meta"), dict) else {} for row in recording.rows]
    children = [
        session_of(child, child.name or f"{name}/{number}")
        for number, child in enumerate(recording.children, 1)
        if child.rows
    ]
    return Session(
        name=name,
        messages=messages,
        times=[seconds(m.get("ts")) for m in meta],
        usage=[m["usage"] if isinstance(m.get("usage"), dict) else None for m in meta],
        anomalies=[*recording.oddities, *find_anomalies(messages)],
        meta=meta,
        format=recording.format,
        children=tuple(replace(c, parent_call=c.parent_call or _delegation(messages, c)) for c in children),
        parent_call=recording.parent_call,
    )


def _delegation(messages: list[BaseMessage], child: Session) -> str | None:
    """The call that handed a sub-agent its task, found by the task's own words."""
    task = next((str(m.text) for m in child.messages if isinstance(m, HumanMessage)), "").strip()
    calls = [call for m in messages if isinstance(m, AIMessage) for call in m.tool_calls]
    handed = (c for c in calls if any(isinstance(v, str) and v.strip() == task for v in c["args"].values()))
    found = next(handed, None) if task else None
    return found["id"] if found else None


def message_of(where: str, row: Mapping[str, Any]) -> BaseMessage:
    """The message of a row.

    Raises:
        NotASession: The content is neither text nor blocks, a call has no name, or a result no call.
    """
    content = "" if row["content"] is None else row["content"]
    if not isinstance(content, (str, list)):
        raise NotASession(f"{where} has content {content!r:.80}")
    role, name = row["role"], word(row.get("name"))
    if role == "system":
        return SystemMessage(content, name=name)
    if role == "user":
        return HumanMessage(content, name=name)
    if role == "assistant":
        return _assistant(where, row, content)
    if not isinstance(row.get("tool_call_id"), str):
        raise NotASession(f"{where} is a tool row without tool_call_id")
    failed = bool((row.get("_meta") or {}).get("is_error"))
    return ToolMessage(
        content, tool_call_id=row["tool_call_id"], name=name, status="error" if failed else "success"
    )


def _assistant(where: str, row: Mapping[str, Any], content: str | list[Any]) -> AIMessage:
    calls, broken = [], []
    for call in row.get("tool_calls") or []:
        try:
            name, raw, call_id = call["function"]["name"], call["function"]["arguments"], call["id"]
        except (TypeError, KeyError):
            raise NotASession(f"{where} has tool call {call!r:.80}") from None
        args = arguments(raw)
        if args is None:
            error = "arguments are not a JSON object"
            broken.append({"name": name, "args": str(raw), "id": call_id, "error": error})
        else:
            calls.append({"name": name, "args": args, "id": call_id})
    meta = row.get("_meta") or {}
    return AIMessage(
        content,
        name=word(row.get("name")),
        tool_calls=calls,
        invalid_tool_calls=broken,
        additional_kwargs={"reasoning_content": row["reasoning"]} if row.get("reasoning") else {},
        response_metadata={"model_name": meta["model"]} if meta.get("model") else {},
    )


def arguments(raw: Any) -> dict[str, Any] | None:
    """A call's arguments as an object, None where they are none."""
    if isinstance(raw, dict):
        return raw
    try:
        parsed = json.loads(raw)
    except (TypeError, ValueError):
        return None
    return parsed if isinstance(parsed, dict) else None


def listed(value: Any) -> list[Any]:
    """A list as it is; anything else that stands where a list should holds nothing."""
    return value if isinstance(value, list) else []


def mapped(value: Any) -> Mapping[str, Any]:
    """An object as it is; anything else that stands where an object should holds nothing."""
    return value if isinstance(value, dict) else {}


def word(value: Any) -> str | None:
    """A name or kind as it is; anything else that stands where a word should is none."""
    return value if isinstance(value, str) else None


def call_row(name: Any, raw: Any, call_id: Any) -> dict[str, Any]:
    """A call as a row states it; without arguments it has none, not broken ones."""
    given = {} if raw is None or raw == "" else raw
    return {"id": str(call_id), "function": {"name": str(name or ""), "arguments": given}}


def seconds(stamp: Any) -> float | None:
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

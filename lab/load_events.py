"""Event logs whose lines carry a message: pi, Droid, Qwen, Gemini, and others of their make."""

from collections.abc import Mapping
from typing import Any

from headwater.lab.document import Document
from headwater.lab.message_rows import is_message, role_of, rows_of
from headwater.lab.recording import Recording, word

EXPECTS = 'an event log: lines {"type", "message": {"role", "content"}}'
_NOTED = {"compaction", "model_change", "thinking_level_change", "branch_summary"}


def read(document: Document) -> Recording | None:
    """The messages of an event log, None where no line carries one."""
    lines = document.events
    spoken = [line for line in lines if _message(line) is not None]
    if not spoken or len(document.broken) > len(lines):
        return None
    recording = Recording("events")
    events: list[dict[str, Any]] = []
    for line in lines:
        message = _message(line)
        if message is None:
            if word(line.get("type")) in _NOTED:
                events.append(
                    {
                        "event": line["type"],
                        **{k: v for k, v in line.items() if k in ("summary", "tokensBefore")},
                    }
                )
            continue
        meta: dict[str, Any] = {"ts": line["timestamp"]} if line.get("timestamp") else {}
        if events:
            meta["events_before"], events = events, []
        recording.rows += rows_of(message, recording, meta)
    for number, error, _ in document.broken:
        recording.odd("broken_line", f"line {number} is not JSON ({error})")
    return recording if any(row["role"] != "system" for row in recording.rows) else None


def _message(line: Mapping[str, Any]) -> Mapping[str, Any] | None:
    inner = line.get("message")
    if isinstance(inner, dict):
        return inner if is_message(inner) else None
    return line if is_message(line) and role_of(line) is not None else None

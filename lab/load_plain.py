"""Plain JSONL: a row a line, in the normal form itself."""

import re
from pathlib import Path
from typing import Any

from headwater.lab.document import Document, read_document
from headwater.lab.recording import ROLES, NotASession, Recording, Row

EXPECTS = (
    'JSON Lines: one object a line with "role" (system, user, assistant or tool) and "content", '
    'assistant rows with optional "tool_calls" and "reasoning", tool rows with "tool_call_id"'
)
# Blocks that only make sense when they are taken apart, so another format's.
_FOREIGN = {"tool_use", "tool_result", "toolCall", "thinking"}
_CHILD = re.compile(r"^(.+)\.sub-[^.]+$")


def read(document: Document) -> Recording | None:
    """The rows of a plain file with its `NAME.sub-*.jsonl` as children; None where the first row is none.

    Raises:
        NotASession: A later line is no row.
    """
    rows = _rows(document)
    if not rows:
        return None
    recording = Recording("plain", rows)
    for number, error, _ in document.broken:
        recording.odd("broken_line", f"line {number} is not JSON ({error})")
    if not _CHILD.match(document.path.stem):
        for file in sorted(document.path.parent.glob(f"{_escaped(document.path)}.sub-*.jsonl")):
            child = _rows(read_document(file))
            recording.children += (
                [Recording("plain", child, name=file.stem, parent_call=_call(child))] if child else []
            )
    return recording


def _rows(document: Document) -> list[Row]:
    if not document.lines or not _is_row(document.lines[0][1]):
        return []
    if document.broken and document.broken[0][0] < document.lines[0][0]:
        return []
    if any(_is_foreign(value) for _, value in document.lines):
        return []
    if len(document.broken) > len(document.lines):
        number, error, text = document.broken[0]
        raise NotASession(f"line {number} is not JSON ({error}): {text}")
    for number, value in document.lines:
        if not _is_row(value):
            raise NotASession(f"line {number} is no message: {document.text(number)}")
        problem = _problem(value)
        if problem:
            raise NotASession(f"line {number} {problem}")
    return [value for _, value in document.lines]


def _is_row(value: Any) -> bool:
    return isinstance(value, dict) and value.get("role") in ROLES and "content" in value


def _problem(row: Row) -> str:
    content = row["content"]
    if content is not None and not isinstance(content, (str, list)):
        return f"has content {content!r:.80}"
    if row["role"] == "tool" and not isinstance(row.get("tool_call_id"), str):
        return "is a tool row without tool_call_id"
    for call in row.get("tool_calls") or []:
        if not isinstance(call, dict) or not isinstance(call.get("function"), dict) or "id" not in call:
            return f"has tool call {call!r:.80}"
    return ""


def _is_foreign(row: Any) -> bool:
    content = row.get("content") if isinstance(row, dict) else None
    return isinstance(content, list) and any(
        isinstance(b, dict) and b.get("type") in _FOREIGN for b in content
    )


def _escaped(path: Path) -> str:
    return re.sub(r"([*?[])", r"[\1]", path.stem)


def _call(rows: list[Row]) -> str | None:
    """The parent's call, where the recorder noted it."""
    found = next(
        (m["parent_tool_call_id"] for r in rows if (m := r.get("_meta") or {}).get("parent_tool_call_id")),
        None,
    )
    return str(found) if found else None

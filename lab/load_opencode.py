"""OpenCode: what `opencode export` writes, one session or several."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from headwater.lab.document import Document
from headwater.lab.recording import Recording, Row, call_row, listed, mapped, word

EXPECTS = 'an OpenCode export: {"info": {...}, "messages": [{"info": {"role"}, "parts": [...]}]}'
_SILENT = {"step-start", "step-finish", "snapshot", "patch", "retry", "agent", "compaction"}


def read(document: Document) -> Recording | None:
    """The exported session with its sub-agents as children, None where it is none."""
    value = document.value
    exports = value if isinstance(value, list) else value.get("sessions") if isinstance(value, dict) else None
    if isinstance(value, dict) and _is_listing(value.get("messages")):
        exports = [value]
    elif _is_listing(value):
        exports = [{"messages": value}]
    if exports is None and document.lines and _is_listing(document.events):
        exports = [{"messages": document.events}]
    if not exports or not all(isinstance(e, dict) and _is_listing(e.get("messages")) for e in exports):
        return None
    found = [_session(export) for export in exports]
    main = next((r for r, e in zip(found, exports, strict=True) if not _info(e).get("parentID")), found[0])
    main.children += [recording for recording in found if recording is not main]
    calls = {child: call for recording in found for call, child in _tasks(recording)}
    for child in main.children:
        child.parent_call = calls.get(str(child.name))
    return main if main.rows else None


def _is_listing(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(m, dict) and ("info" in m or "role" in m) and "content" not in m for m in value)
        # Google's messages have parts, too, but theirs have no type.
        and any("type" in part for m in value for part in listed(m.get("parts")) if isinstance(part, dict))
    )


def _info(export: Mapping[str, Any]) -> Mapping[str, Any]:
    info = export.get("info")
    return info if isinstance(info, dict) else export


def _session(export: Mapping[str, Any]) -> Recording:
    recording = Recording("opencode", name=str(_info(export).get("id") or "") or None)
    for message in export["messages"]:
        info = _info(message)
        if info.get("role") == "assistant":
            for parts in _steps(listed(message.get("parts"))):
                _assistant(recording, info, parts)
        else:
            _user(recording, info, listed(message.get("parts")))
    return recording


def _steps(parts: Iterable[Any]) -> list[list[dict[str, Any]]]:
    """A message's parts by model call: each begins with a step-start."""
    steps: list[list[dict[str, Any]]] = [[]]
    for part in parts:
        if not isinstance(part, dict):
            continue
        if part.get("type") == "step-start" and any(word(p.get("type")) not in _SILENT for p in steps[-1]):
            steps.append([])
        steps[-1].append(part)
    return steps


def _assistant(recording: Recording, info: Mapping[str, Any], parts: list[dict[str, Any]]) -> None:
    texts: list[str] = []
    thinking: list[str] = []
    calls: list[dict[str, Any]] = []
    results: list[Row] = []
    usage = next(
        (p["tokens"] for p in parts if p.get("type") == "step-finish" and p.get("tokens")), info.get("tokens")
    )
    for part in parts:
        kind = part.get("type")
        if kind == "text":
            texts.append(str(part.get("text", "")))
        elif kind == "reasoning":
            thinking.append(str(part.get("text", "")))
        elif kind in ("tool", "tool-invocation"):
            call, result = _tool(part.get("toolInvocation") or part, len(recording.rows))
            calls.append(call)
            results += [result] if result else []
        elif kind == "file":
            texts.append(f"[file {part.get('filename') or part.get('url', '')}]")
        elif word(kind) not in _SILENT:
            recording.odd("unknown_part", f"{kind!r} was left out")
    error = info.get("error")
    meta = {
        "ts": _time(info, "created"),
        "model": info.get("modelID"),
        "usage": usage,
        "agent": info.get("agent"),
        "stop_reason": info.get("finish"),
        "provider": info.get("providerID"),
        "compact_summary": info.get("summary") is True,
        "error": error.get("name") if isinstance(error, dict) else error,
    }
    row: Row = {
        "role": "assistant",
        "content": "\n".join(texts),
        "_meta": {k: v for k, v in meta.items() if v},
    }
    row |= {"tool_calls": calls} if calls else {}
    row |= {"reasoning": "\n\n".join(thinking)} if any(thinking) else {}
    recording.rows += [row, *results]


def _tool(part: Mapping[str, Any], number: int) -> tuple[dict[str, Any], Row | None]:
    state = part.get("state")
    if not isinstance(state, dict):
        # Before 1.0 the state was a word, and the rest stood beside it.
        state = {
            "status": "completed" if state == "result" else state,
            "input": part.get("args"),
            "output": part.get("result"),
        }
    call_id = str(part.get("callID") or part.get("toolCallId") or part.get("id") or f"call_{number}")
    name = part.get("tool") or part.get("toolName")
    call = call_row(name, state.get("input"), call_id)
    status = state.get("status")
    if status in ("pending", "running", "call", "partial-call"):
        return call, None
    times = mapped(state.get("time"))
    body = state.get("output") if status == "completed" else state.get("error") or state.get("output")
    noted = mapped(state.get("metadata"))
    task = noted.get("sessionId") or noted.get("sessionID")
    meta = {
        "ts": times.get("end"),
        "is_error": status == "error",
        "pruned": bool(times.get("compacted")),
        "task": task,
    }
    text = body if isinstance(body, str) else "" if body is None else json.dumps(body, ensure_ascii=False)
    row: Row = {"role": "tool", "tool_call_id": call_id, "name": name, "content": text}
    return call, row | {"_meta": {k: v for k, v in meta.items() if v}}


def _user(recording: Recording, info: Mapping[str, Any], parts: Iterable[Any]) -> None:
    texts = []
    for part in parts:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text":
            texts.append(str(part.get("text", "")))
        elif kind == "file":
            texts.append(f"[file {part.get('filename') or part.get('url', '')}]")
        elif kind == "subtask":
            texts.append(str(part.get("prompt", "")))
        elif word(kind) not in _SILENT:
            recording.odd("unknown_part", f"{kind!r} was left out")
    role = "system" if info.get("role") == "system" else "user"
    meta = {"ts": _time(info, "created"), "agent": info.get("agent")}
    recording.rows.append(
        {"role": role, "content": "\n".join(texts), "_meta": {k: v for k, v in meta.items() if v}}
    )


def _time(info: Mapping[str, Any], which: str) -> Any:
    times = info.get("time") or mapped(info.get("metadata")).get("time")
    return times.get(which) if isinstance(times, dict) else None


def _tasks(recording: Recording) -> list[tuple[str, str]]:
    """Calls that began a sub-agent, each with its session's id."""
    metas = [(row.get("tool_call_id"), row.get("_meta") or {}) for row in recording.rows]
    return [(str(call), str(meta["task"])) for call, meta in metas if meta.get("task")]

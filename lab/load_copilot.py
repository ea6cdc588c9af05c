"""Copilot: the CLI's event log, and the chat sessions that VS Code keeps or exports."""

import json
from collections.abc import Mapping
from typing import Any

from headwater.lab.document import Document
from headwater.lab.recording import Recording, Row, call_row, listed

EXPECTS = (
    'a Copilot session: lines {"type": "user.message"|"assistant.message"|..., "data"}, '
    'or VS Code\'s {"requests": [{"message", "response"}]}'
)
_NOTED = {
    "session.compaction_complete",
    "session.truncation",
    "session.error",
    "abort",
    "session.model_change",
}


def read(document: Document) -> Recording | None:
    """The session with its sub-agents as children, None where it is none."""
    lines = document.events
    if any(line.get("type") in ("user.message", "assistant.message") and "data" in line for line in lines):
        found = _events(lines)
    else:
        chat = _chat(document)
        if chat is None:
            return None
        found = Recording("copilot-chat", name=chat.get("sessionId"))
        for request in chat["requests"]:
            if isinstance(request, dict):
                _turn(found, request)
    for number, error, _ in document.broken:
        found.odd("broken_line", f"line {number} is not JSON ({error})")
    return found if found.rows else None


def _events(lines: list[dict[str, Any]]) -> Recording:
    threads: dict[str, Recording] = {"": Recording("copilot")}
    names: dict[str, str] = {}
    notes: list[dict[str, Any]] = []
    answers: dict[str, tuple[str, Row]] = {}
    for line in lines:
        kind, data = str(line.get("type")), line.get("data")
        if not isinstance(data, dict):
            continue
        thread = str(data.get("parentToolCallId") or "")
        recording = threads.setdefault(
            thread, Recording("copilot", parent_call=thread or None, name=thread or None)
        )
        meta: dict[str, Any] = {"ts": line["timestamp"]} if line.get("timestamp") else {}
        if kind in ("user.message", "system.message", "assistant.message") and notes and not thread:
            meta["events_before"], notes = notes, []
        if kind in _NOTED:
            notes.append(
                {"event": kind, **{k: v for k, v in data.items() if isinstance(v, (str, int, float))}}
            )
        elif kind == "system.message":
            recording.rows.append(
                {"role": "system", "content": str(data.get("content") or ""), "_meta": meta}
            )
        elif kind == "user.message":
            said = str(data.get("content") or "")
            sent = data.get("transformedContent")
            # What the model was shown is the session; what was typed stays in the notes.
            meta |= {"raw_prompt": said} if isinstance(sent, str) and sent and sent != said else {}
            recording.rows.append(
                {"role": "user", "content": sent if meta.get("raw_prompt") else said, "_meta": meta}
            )
        elif kind == "assistant.message":
            row = _assistant(data, meta)
            names |= {c["id"]: c["function"]["name"] for c in row.get("tool_calls", ())}
            recording.rows.append(row)
            answers[thread] = (str(data.get("apiCallId")), row)
        elif kind == "assistant.usage" and thread in answers:
            tokens = {k: v for k, v in data.items() if k.endswith("Tokens") and isinstance(v, int)}
            answers[thread][1]["_meta"]["usage"] = tokens
        elif kind == "tool.execution_complete":
            recording.rows.append(_result(data, names, meta))
    main = threads.pop("")
    main.children += threads.values()
    return main


def _assistant(data: Mapping[str, Any], meta: dict[str, Any]) -> Row:
    meta |= {"model": data["model"]} if data.get("model") else {}
    if data.get("outputTokens"):
        meta["usage"] = {"outputTokens": data["outputTokens"]}
    row: Row = {"role": "assistant", "content": str(data.get("content") or ""), "_meta": meta}
    calls = [call_row(c.get("name"), c.get("arguments"), c.get("toolCallId"))
             for c in listed(data.get("toolRequests")) if isinstance(c, dict)]  # fmt: skip
    row |= {"tool_calls": calls} if calls else {}
    return row | ({"reasoning": data["reasoningText"]} if data.get("reasoningText") else {})


def _result(data: Mapping[str, Any], names: Mapping[str, str], meta: dict[str, Any]) -> Row:
    result, error = data.get("result"), data.get("error")
    body: Any = result
    if isinstance(result, dict):
        keys = ("content", "textResultForLlm", "text_result_for_llm", "detailedContent")
        body = next((result[k] for k in keys if isinstance(result.get(k), (str, list))), result)
    if body is None:
        body = error.get("message") if isinstance(error, dict) else error
    meta |= {"is_error": True} if data.get("success") is False else {}
    call_id = str(data.get("toolCallId"))
    text = body if isinstance(body, str) else "" if body is None else json.dumps(body, ensure_ascii=False)
    row: Row = {"role": "tool", "tool_call_id": call_id, "content": text, "_meta": meta}
    return row | ({"name": names[call_id]} if call_id in names else {})


def _chat(document: Document) -> dict[str, Any] | None:
    """VS Code's chat as one object: saved whole, or as a first state with changes behind it."""
    value = document.value
    if isinstance(value, dict) and _is_chat(value):
        return value
    changes = document.events or [value] if isinstance(value, dict) else document.events
    if not changes or changes[0].get("kind") != 0 or not isinstance(changes[0].get("v"), dict):
        return None
    state: dict[str, Any] = changes[0]["v"]
    for change in changes[1:]:
        if isinstance(change.get("k"), list) and change["k"]:
            _apply(state, change)
    return state if _is_chat(state) else None


def _is_chat(value: Mapping[str, Any]) -> bool:
    requests = value.get("requests")
    return isinstance(requests, list) and all(isinstance(r, dict) and "message" in r for r in requests)


def _apply(state: Any, change: Mapping[str, Any]) -> None:
    """Set a value at a path (kind 1), append to a list there (2), or remove it (3)."""
    *path, last = change["k"]
    try:
        for key in path:
            state = state[key]
        if change.get("kind") == 3:
            del state[last]
        elif change.get("kind") == 2:
            held = state.setdefault(last, []) if isinstance(state, dict) else state[last]
            if isinstance(change.get("i"), int):
                del held[change["i"] :]
            held.extend(listed(change.get("v")))
        elif isinstance(state, list) and last == len(state):
            state.append(change.get("v"))
        else:
            state[last] = change.get("v")
    except (AttributeError, KeyError, IndexError, TypeError):
        # A change to what is not there, or is no list, touches no request.
        return


def _turn(recording: Recording, request: Mapping[str, Any]) -> None:
    message, stamp = request.get("message"), request.get("timestamp")
    text = message.get("text", "") if isinstance(message, dict) else message
    meta: dict[str, Any] = {"ts": stamp} if stamp else {}
    recording.rows.append({"role": "user", "content": str(text or ""), "_meta": meta})
    model = {"model": request["modelId"]} if request.get("modelId") else {}
    said: list[str] = []
    for part in listed(request.get("response")):
        kind = part.get("kind") if isinstance(part, dict) else None
        if kind in ("toolInvocationSerialized", "toolInvocation"):
            number = len(recording.rows)
            call_id = str(part.get("toolCallId") or f"call_{number}")
            name = str(part.get("toolId") or "tool")
            detail = part.get("toolSpecificData")
            call = call_row(name, detail if isinstance(detail, dict) else {}, call_id)
            recording.rows.append(
                {
                    "role": "assistant",
                    "content": "".join(said),
                    "tool_calls": [call],
                    "_meta": {**meta, **model},
                }
            )
            shown = _words(part.get("resultDetails")) or _words(part.get("pastTenseMessage"))
            recording.rows.append(
                {"role": "tool", "tool_call_id": call_id, "name": name, "content": shown, "_meta": meta}
            )
            said = []
        elif kind == "thinking":
            continue
        elif isinstance(part, dict):
            said.append(_words(part))
    if any(said):
        recording.rows.append({"role": "assistant", "content": "".join(said), "_meta": {**meta, **model}})


def _words(part: Any) -> str:
    """The text of a part of an answer; a reference is shown by its path."""
    if isinstance(part, str):
        return part
    if isinstance(part, list):
        return "\n".join(map(_words, part))
    if not isinstance(part, dict):
        return ""
    for key in ("value", "content", "output", "inlineReference", "uri", "path", "fsPath"):
        if part.get(key):
            return _words(part[key])
    return ""

"""Messages as providers and frameworks write them, into rows: OpenAI, Anthropic, LangChain and their kin."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from headwater.lab.recording import Recording, Row, call_row, listed, mapped, word

# LangChain's, Google's, ShareGPT's and the agents' own words for the four roles.
_ROLES = {
    "system": "system", "developer": "system", "SystemMessage": "system", "SystemMessageChunk": "system",
    "user": "user", "human": "user", "HumanMessage": "user", "HumanMessageChunk": "user",
    "assistant": "assistant", "ai": "assistant", "model": "assistant", "gemini": "assistant",
    "gpt": "assistant", "AIMessage": "assistant", "AIMessageChunk": "assistant",
    "tool": "tool", "function": "tool", "toolResult": "tool", "tool_result": "tool", "ToolMessage": "tool",
    "ToolMessageChunk": "tool", "FunctionMessage": "tool",
    # LangChain's message with a role of its own.
    "chat": "user", "ChatMessage": "user", "ChatMessageChunk": "user",
}  # fmt: skip
_TEXT = {"text", "input_text", "output_text", "summary_text", "reasoning_text", "refusal"}
_THINKING = {"thinking", "redacted_thinking", "reasoning", "reasoning_content", "think"}
_CALL = {"tool_use", "server_tool_use", "mcp_tool_use", "toolCall", "tool-call", "tool_call", "function_call",
         "functionCall"}  # fmt: skip
_RESULT = {"tool_result", "toolResult", "tool-result", "function_call_output", "mcp_tool_result",
           "web_search_tool_result", "code_execution_tool_result", "functionResponse"}  # fmt: skip
# What a recorder adds around a response, and no model ever read.
_NO_CONTENT = {"step-start", "step-finish", "cache_control", "non_standard"}
_IDS = ("tool_call_id", "toolCallId", "tool_use_id", "toolUseID", "call_id", "id")


def is_message(item: Any) -> bool:
    """Whether a JSON value is a message, or an item of the Responses API."""
    if not isinstance(item, dict):
        return False
    if item.get("lc") == 1 and isinstance(item.get("kwargs"), dict):
        return role_of(item) is not None
    if word(item.get("type")) in (_CALL | _RESULT | {"reasoning"}) and "role" not in item:
        return True
    if role_of(item) is None:
        return False
    return any(
        k in item for k in ("content", "parts", "data", "tool_calls", "function_call", "value", "toolCalls")
    )


def is_talk(items: Sequence[Any]) -> bool:
    """Whether a list holds a conversation: messages, but for a few items that are none."""
    return sum(map(is_message, items)) > len(items) / 2


def role_of(item: Mapping[str, Any]) -> str | None:
    """The role of a message in whichever words it is written, None where it has none."""
    lc = item.get("id")
    if item.get("lc") == 1 and isinstance(lc, list) and lc:
        return _ROLES.get(str(lc[-1]))
    for key in ("role", "type", "from"):
        word = item.get(key)
        if isinstance(word, str) and word in _ROLES:
            return _ROLES[word]
    return None


def extend(recording: Recording, messages: Iterable[Mapping[str, Any]]) -> None:
    """Append messages as rows; items of the Responses API that make up one answer become one row."""
    pending: list[dict[str, Any]] = []
    for message in messages:
        if not is_message(message):
            recording.odd("no_message", f"{message!r:.60} is none and was left out")
            continue
        message = unwrapped(message)
        kind = word(message.get("type"))
        if role_of(message) is None or (kind in ("reasoning", "function_call") and "role" not in message):
            if kind in _RESULT:
                _flush(recording, pending)
                recording.rows += rows_of({"role": "user", "content": [message]}, recording)
            else:
                pending.append(dict(message))
            continue
        if pending and role_of(message) == "assistant":
            pending += _blocks(message)
            continue
        _flush(recording, pending)
        recording.rows += rows_of(message, recording)
    _flush(recording, pending)


def _flush(recording: Recording, pending: list[dict[str, Any]]) -> None:
    if pending:
        recording.rows += rows_of({"role": "assistant", "content": list(pending)}, recording)
        pending.clear()


def unwrapped(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message out of LangChain's two wrappings."""
    if message.get("lc") == 1:
        return {**message["kwargs"], "role": role_of(message)}
    if isinstance(message.get("data"), dict) and "content" in message["data"]:
        return {**message["data"], "role": role_of(message)}
    return message


def rows_of(
    message: Mapping[str, Any], recording: Recording, meta: Mapping[str, Any] | None = None
) -> list[Row]:
    """The rows of one message: results that stand in a user's message come first, as rows of their own.

    Args:
        message: In any of the known forms.
        recording: Where unknown blocks are reported.
        meta: Noted on every row.
    """
    role = role_of(message)
    noted = {**_meta(message), **(meta or {})}
    if role == "tool":
        return [_result_row(message, noted)]
    texts: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = [_call(c) for c in _calls(message)]
    results: list[Row] = []
    thinking = [str(t) for t in _thinking(message)]
    for block in _blocks(message):
        kind = word(block.get("type"))
        if kind in _THINKING:
            thinking.append(_thought(block))
        elif kind in _CALL:
            call = _call(block)
            if call["id"] not in {c["id"] for c in calls if call["id"]}:
                calls.append(call)
        elif kind in _RESULT:
            results.append(_result_row(block, noted))
        elif kind == "redacted":
            recording.odd("redacted", "a block that only the provider can read was left out")
        elif kind not in _NO_CONTENT:
            texts.append(block)
    for number, call in enumerate(calls):
        if not call["id"] or call["id"] == "None":
            call["id"] = f"call_{len(recording.rows)}_{number}"
            recording.odd(
                "missing_call_id", f"{call['function']['name']!r} has no id; it is called {call['id']!r}"
            )
    row: Row = {"role": role, "content": flat(texts)}
    if message.get("name"):
        row["name"] = message["name"]
    if role == "assistant":
        row |= {"tool_calls": calls} if calls else {}
        row |= {"reasoning": "\n\n".join(thinking)} if any(thinking) else {}
    row |= {"_meta": noted} if noted else {}
    if role != "assistant" and results and not texts:
        return results
    # An Anthropic message may hold the results of tools that the provider ran: they follow it.
    return [row, *results] if role == "assistant" else [*results, row]


def flat(blocks: Sequence[Mapping[str, Any]]) -> str | list[Any]:
    """Blocks as text where they are nothing else; text blocks of one message are parted by a line end."""
    if all(word(block.get("type")) in _TEXT for block in blocks):
        return "\n".join(str(block.get("text") or block.get("refusal") or "") for block in blocks)
    return [
        {"type": "text", "text": str(b.get("text", ""))} if word(b.get("type")) in _TEXT else dict(b)
        for b in blocks
    ]


def _blocks(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    content = message.get("content")
    if content is None:
        content = message.get("parts", message.get("value"))
    if isinstance(content, (str, int, float)):
        if content != "":
            yield {"type": "text", "text": str(content)}
        return
    for block in [content] if isinstance(content, dict) else listed(content):
        yield block_of(block)


def block_of(block: Any) -> dict[str, Any]:
    """One block with a type; Google's parts have their kind as a key."""
    if not isinstance(block, dict):
        return {"type": "text", "text": str(block)}
    if "type" in block:
        return block
    for kind in ("functionCall", "functionResponse"):
        if isinstance(block.get(kind), dict):
            # Without an id a result names the function that was called.
            return {"id": f"function_{block[kind].get('name')}", **block[kind], "type": kind}
    if "text" in block:
        return {"type": "thinking" if block.get("thought") else "text", "text": block["text"]}
    return {"type": "text", "text": json.dumps(block, ensure_ascii=False)}


def _calls(message: Mapping[str, Any]) -> list[Any]:
    extra = mapped(message.get("additional_kwargs"))
    calls = message.get("tool_calls") or message.get("toolCalls") or extra.get("tool_calls")
    broken = message.get("invalid_tool_calls")
    legacy = message.get("function_call") or extra.get("function_call")
    if isinstance(legacy, dict) and not calls:
        calls = [{"id": f"function_{legacy.get('name')}", **legacy}]
    return [c for c in (*listed(calls), *listed(broken)) if isinstance(c, dict)]


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    inner = call.get("function")
    if isinstance(inner, dict):
        return call_row(inner.get("name"), inner.get("arguments"), call.get("id"))
    raw = next((call[k] for k in ("input", "args", "arguments", "action") if call.get(k) is not None), None)
    name = call.get("name") or call.get("toolName") or call.get("tool")
    found = next((call[k] for k in ("call_id", "id", "toolCallId", "toolUseId") if call.get(k)), None)
    return call_row(name, raw, found)


def _result_row(result: Mapping[str, Any], meta: Mapping[str, Any]) -> Row:
    body = next(
        (result[k] for k in ("content", "output", "result", "response", "run") if result.get(k) is not None),
        "",
    )
    if isinstance(body, dict):
        inner = next(
            (
                body[k]
                for k in ("output", "content", "text", "result")
                if isinstance(body.get(k), (str, list))
            ),
            None,
        )
        body = inner if inner is not None else json.dumps(body, ensure_ascii=False)
    if isinstance(body, list):
        body = flat([block_of(block) for block in body])
    call_id = next((result[k] for k in _IDS if result.get(k)), None)
    if call_id is None or (result.get("role") == "function"):
        call_id = f"function_{result.get('name')}"
    failed = result.get("is_error") or result.get("isError") or result.get("status") == "error"
    noted = {**meta, "is_error": True} if failed else dict(meta)
    name = result.get("name") or result.get("toolName")
    row: Row = {
        "role": "tool",
        "tool_call_id": str(call_id),
        "content": body if isinstance(body, list) else str(body),
    }
    return row | ({"name": name} if name else {}) | ({"_meta": noted} if noted else {})


def _thinking(message: Mapping[str, Any]) -> list[Any]:
    extra = mapped(message.get("additional_kwargs"))
    for key in ("reasoning", "reasoning_content", "reasoning_text", "thinking", "thoughts"):
        found = message.get(key) or extra.get(key)
        if isinstance(found, str) and found:
            return [found]
        if isinstance(found, list) and found:
            return [_thought(t) if isinstance(t, dict) else t for t in found]
    return []


def _thought(block: Mapping[str, Any]) -> str:
    for key in ("thinking", "text", "reasoning", "description"):
        if isinstance(block.get(key), str):
            return str(block[key])
    parts = [*listed(block.get("summary")), *listed(block.get("content"))]
    return "\n".join(str(p.get("text", "")) if isinstance(p, dict) else str(p) for p in parts)


def _meta(message: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(message.get("_meta"), dict):
        return dict(message["_meta"])
    said = mapped(message.get("response_metadata"))
    usage = (
        message.get("usage") or message.get("usage_metadata") or said.get("token_usage") or said.get("usage")
    )
    stamp = next((message[k] for k in ("timestamp", "created_at", "ts", "time") if message.get(k)), None)
    found = {
        "ts": stamp if isinstance(stamp, (str, int, float)) else None,
        "model": message.get("model") or said.get("model_name") or said.get("model"),
        "usage": usage,
        "stop_reason": message.get("stop_reason")
        or message.get("finish_reason")
        or said.get("finish_reason"),
    }
    return {key: value for key, value in found.items() if value}

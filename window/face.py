"""How one message looks in the window: its tag, its edit, its hint, and what every provider accepts.

A pure function of the message, its tag and what the frame holds for the tag. Content is never empty,
lone surrogates never reach a client, and a malformed tool call becomes one that can be sent.
"""

import re
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

from headwater.window.cues import pins_in
from headwater.window.frame import Edit
from headwater.window.marks import STAMP, mark
from headwater.window.message_price import compact
from headwater.window.providers import DEFAULT, Provider
from headwater.window.reasoning import has_text, may_strip, sendable, without_reasoning
from headwater.window.stubs import dropped, is_only_stub, stub, stub_arguments
from headwater.window.tokens import count_message, count_text

NO_TEXT = "(no text)"
NO_OUTPUT = "(no output)"
HUMAN_PREVIEW = 300
# Blocks that say again what `tool_calls` says; clients write their own form of a call from that.
_CALL_BLOCKS = ("tool_call", "tool_call_chunk", "invalid_tool_call", "function_call", "input_json_delta")
_UNPORTABLE = re.compile(r"[^a-zA-Z0-9_-]")

Content = str | list[str | dict[str, Any]]


def text_of(message: BaseMessage) -> str:
    """All text of a message's content, blocks joined by line ends."""
    if isinstance(message.content, str):
        return message.content
    parts = [b if isinstance(b, str) else b.get("text") for b in message.content]
    return "\n".join(part for part in parts if isinstance(part, str))


def human_face(message: BaseMessage, tag: int, edit: str | None = None, hint: str = "") -> HumanMessage:
    """A user message, or anything else that a provider only takes from a user; offloaded, its head stays, and
    of a user's what is pinned: a pin is in sight where its message stands (E14).
    """
    role = "[system] " if isinstance(message, SystemMessage) else ""
    if edit == Edit.OFFLOAD:
        shown = stub(tag, text_of(message), preview_tokens=HUMAN_PREVIEW)
        pinned = () if role else (text for _, text in pins_in(text_of(message)) if text not in shown)
        content: Content = f"{mark(tag)} {role}" + "\n".join([shown, *map(safe, pinned)])
    elif role:
        content = f"{mark(tag) + ' ' if tag else ''}{role}{safe(text_of(message)).strip() or NO_TEXT}"
    else:
        content = _marked(message, tag, NO_TEXT)
    return HumanMessage(content=_with_hint(content, hint), id=message.id)


def tool_face(message: ToolMessage, tag: int, edit: str | None, call_id: str, hint: str = "") -> ToolMessage:
    """A tool result under its edit, answering `call_id`."""
    content: Content
    if edit == Edit.OFFLOAD:
        text = text_of(message)
        body = safe(text) if is_only_stub(text) else stub(tag, text)
        content = f"{mark(tag)} {body}"
    elif edit in (Edit.DROP, Edit.SKELETON):
        content = dropped(tag)
    else:
        content = _marked(message, tag, NO_OUTPUT)
    return ToolMessage(
        content=_with_hint(content, hint),
        tool_call_id=call_id,
        name=portable_name(message.name) if message.name else None,
        status=message.status,
        id=message.id,
    )


def assistant_face(
    message: AIMessage, tag: int, edit: str | None, calls: list[ToolCall], provider: Provider = DEFAULT
) -> AIMessage:
    """An assistant message under its edit, with `calls` in place of its own (same order)."""
    content, kwargs = sendable(message, provider)
    if edit in (Edit.STRIP, Edit.OFFLOAD, Edit.CLOSE) and may_strip(message, provider):
        content, kwargs = without_reasoning(content, kwargs)
    kwargs = _renamed(kwargs, message, calls)
    if edit in (Edit.OFFLOAD, Edit.CLOSE):
        calls = [{**call, "args": stub_arguments(tag, call["args"])} for call in calls]
    calls = [{**call, "args": _safe_value(call["args"])} for call in calls]
    content = _clean(_with_calls(content, calls))
    if not has_text(content) and not calls:
        content = NO_TEXT
    elif isinstance(content, str) and not content.strip():
        content = ""
    # What else a client keeps here it wants back (signatures, item ids), but for its own copy of the calls.
    kept = {k: _safe_value(v) for k, v in kwargs.items() if k not in (STAMP, "tool_calls", "function_call")}
    return AIMessage(
        content=content,
        tool_calls=calls,
        id=message.id,
        additional_kwargs=kept,
        response_metadata=message.response_metadata,
    )


def _renamed(kwargs: dict[str, Any], message: AIMessage, calls: list[ToolCall]) -> dict[str, Any]:
    """What a client keeps by call id (Gemini's thought signatures), under the ids that are sent."""
    new: dict[str, Any] = {}
    for old, call in zip([*message.tool_calls, *message.invalid_tool_calls], calls, strict=False):
        # Where an id stands for two calls of one message, the first is meant: it is the one that is signed.
        new.setdefault(str(old["id"]), call["id"])
    tables = {k: v for k, v in kwargs.items() if isinstance(v, dict) and v and v.keys() <= new.keys()}
    return {**kwargs, **{k: {new[i]: v for i, v in table.items()} for k, table in tables.items()}}


def valid_calls(message: AIMessage) -> list[ToolCall]:
    """A message's tool calls, malformed ones included as calls that a provider accepts."""
    calls = list(message.tool_calls)
    for bad in message.invalid_tool_calls:
        calls.append(
            ToolCall(
                name=bad.get("name") or "unknown",
                args={"malformed_arguments": bad.get("args") or ""},
                id=bad.get("id"),
                type="tool_call",
            )
        )
    return [{**call, "name": portable_name(call["name"])} for call in calls]


def portable_name(name: str | None) -> str:
    """A tool's name as every provider accepts it; models invent others."""
    return _UNPORTABLE.sub("_", name or "unknown")[:64]


def gain_of(message: BaseMessage, tag: int, edit: Edit) -> int:
    """Tokens that an edit frees in a message as it is shown; ≤ 0 where it would free none.

    What holds more than text frees none: no stub can give back what an image shows.
    """
    if not isinstance(message, AIMessage) and not _is_text(message.content):
        return 0
    return count_message(_face(message, tag, None)) - count_message(_face(message, tag, edit))


def _is_text(content: Content) -> bool:
    return isinstance(content, str) or all(isinstance(b, str) or b.get("type") == "text" for b in content)


def _face(message: BaseMessage, tag: int, edit: Edit | None) -> BaseMessage:
    if isinstance(message, ToolMessage):
        return tool_face(message, tag, edit, message.tool_call_id)
    if isinstance(message, AIMessage):
        return assistant_face(message, tag, edit, valid_calls(message))
    return human_face(message, tag, edit)


def argument_tokens(message: AIMessage) -> int:
    """Tokens of the arguments of a message's tool calls."""
    return sum(count_text(compact(call["args"])) for call in valid_calls(message))


def safe(text: str) -> str:
    """The text without lone surrogates, which no client can send."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode("utf-8")
    return text


def _safe_value(value: Any) -> Any:
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, dict):
        return {_safe_value(k): _safe_value(v) for k, v in value.items()}
    return [_safe_value(v) for v in value] if isinstance(value, list) else value


def _with_hint(content: Content, hint: str) -> Content:
    if not hint:
        return content
    if isinstance(content, str):
        return f"{content}\n\n{safe(hint)}"
    return [*content, {"type": "text", "text": safe(hint)}]


def _marked(message: BaseMessage, tag: int, empty: str) -> Content:
    """Content with the visible tag in front, never empty."""
    sign = f"{mark(tag)} " if tag else ""
    if isinstance(message.content, str):
        return sign + (safe(message.content) if message.content.strip() else empty)
    blocks: list[str | dict[str, Any]] = _clean(message.content)
    if not blocks:
        return sign + empty
    if not sign:
        return blocks
    first = blocks[0]
    if isinstance(first, dict) and first.get("type") == "text":
        return [{**first, "text": sign + first["text"]}, *blocks[1:]]
    return [{"type": "text", "text": sign.strip()}, *blocks]


def _clean(content: Content) -> Any:
    """Content without empty text blocks and lone surrogates; bare strings become text blocks."""
    if isinstance(content, str):
        return safe(content)
    blocks: list[dict[str, Any]] = []
    for block in content:
        if isinstance(block, str):
            block = {"type": "text", "text": block}
        if block.get("type") == "text":
            text = block.get("text") or ""
            if not text.strip():
                continue
            block = {**block, "text": safe(text)}
        blocks.append(_safe_value(block))
    return blocks


def _with_calls(content: Content, calls: list[ToolCall]) -> Content:
    """Content whose tool_use blocks agree with `calls`, for clients that send blocks as they stand."""
    if isinstance(content, str):
        return content
    left = list(calls)
    blocks: list[str | dict[str, Any]] = []
    for block in content:
        if isinstance(block, dict) and block.get("type") == "tool_use":
            if not left:
                continue
            call = left.pop(0)
            block = {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["args"]}
        elif isinstance(block, dict) and block.get("type") in _CALL_BLOCKS:
            continue
        blocks.append(block)
    return blocks

"""Anthropic messages on the wire."""

import json
from collections.abc import Iterator
from typing import Any

from headwater.lab.rules import Ask, blocks_of
from headwater.lab.rules_anthropic import ANTHROPIC_RULES
from headwater.lab.script import ToolCall
from headwater.lab.wire import (
    IMAGE_TOKENS,
    MESSAGE_TOKENS,
    Answer,
    View,
    json_tokens,
    row,
    slices,
    text_tokens,
)

_STOP = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}
_KINDS = {
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


class AnthropicWire:
    """`POST /v1/messages`. The cache works without markers, as under automatic caching."""

    name = "anthropic"
    path = "/v1/messages"
    call_prefix = "toolu_"
    rules = ANTHROPIC_RULES
    signs = True
    joint = True

    def parts(self, ask: Ask) -> Iterator[tuple[str, Any]]:
        """One piece a tool, a system block and a content block: clients join consecutive user messages."""
        for tool in ask.body.get("tools") or []:
            yield "tool", tool
        for block in blocks_of(ask.body.get("system")):
            yield "system", block
        for merged in ask.merged:
            for number, part in enumerate(merged.parts):
                yield (f"{merged.role} opens" if number == 0 else merged.role), part.block

    def part_tokens(self, kind: str, part: Any) -> int:
        """Text, calls, results and thinking once each; an image or document at its bounded price."""
        if kind == "tool":
            return json_tokens(part)
        return _block_tokens(part) + (MESSAGE_TOKENS if kind.endswith("opens") else 0)

    def view(self, body: dict[str, Any]) -> View:
        """Tool results as rows of their own, before the text of the user message that brought them."""
        system = "\n".join(str(block.get("text", "")) for block in blocks_of(body.get("system")))
        rows: list[dict[str, Any]] = []
        for message in body["messages"]:
            rows.extend(_rows(message["role"], blocks_of(message.get("content"))))
        return system, rows, [str(tool["name"]) for tool in body.get("tools") or []]

    def cap(self, body: dict[str, Any]) -> int | None:
        """`max_tokens`, which this API requires; counting alone goes without."""
        cap = body.get("max_tokens")
        return cap if isinstance(cap, int) else None

    def error(self, text: str, status: int = 400) -> dict[str, Any]:
        """An error body of the type that goes with the status."""
        kind = _KINDS.get(status, "invalid_request_error" if status < 500 else "api_error")
        return {"type": "error", "error": {"type": kind, "message": text}}

    def cap_error(self, model: str, cap: int, most: int) -> dict[str, Any]:
        """Anthropic's text for a cap over the model's maximum."""
        return self.error(
            f"max_tokens: {cap} > {most}, which is the maximum allowed number of output tokens for {model}"
        )

    def overflow(self, window: int, tokens: int, cap: int | None) -> dict[str, Any]:
        """Anthropic's texts for an input, or input and `max_tokens`, over the window."""
        if cap is None:
            return self.error(f"prompt is too long: {tokens} tokens > {window} maximum")
        return self.error(
            f"input length and `max_tokens` exceed context limit: {tokens} + {cap} > {window}, "
            "decrease input length or `max_tokens` and try again"
        )

    def whole(self, answer: Answer) -> dict[str, Any]:
        """A `message` object."""
        content = [_filled(*block) for block in _blocks(answer)]
        return {**_message(answer), "content": content, "stop_reason": _stop(answer), "usage": _usage(answer)}

    def events(self, answer: Answer, body: dict[str, Any]) -> Iterator[str]:
        """`message_start`, each block's start, deltas and stop, then stop reason and output usage."""
        start = {**_message(answer), "content": [], "usage": {**_usage(answer), "output_tokens": 1}}
        yield _event("message_start", message=start)
        for index, (empty, deltas) in enumerate(_blocks(answer)):
            # A stream opens a call with no input and sends it as text.
            opened = {**empty, "input": {}} if "input" in empty else empty
            yield _event("content_block_start", index=index, content_block=opened)
            for delta in deltas:
                yield _event("content_block_delta", index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        delta = {"stop_reason": _stop(answer), "stop_sequence": None}
        yield _event("message_delta", delta=delta, usage=_usage(answer))
        yield _event("message_stop")


def _block_tokens(block: dict[str, Any]) -> int:
    kind = block.get("type")
    if kind == "text":
        return text_tokens(block.get("text"))
    if kind == "thinking":
        return text_tokens(block.get("thinking"))
    if kind == "tool_use":
        return text_tokens(block.get("name")) + json_tokens(block.get("input"))
    if kind == "tool_result":
        return sum(_block_tokens(inner) for inner in blocks_of(block.get("content")))
    return text_tokens(block.get("data")) if kind == "redacted_thinking" else IMAGE_TOKENS


def _rows(role: str, blocks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for block in blocks:
        if block.get("type") == "tool_result":
            text = "".join(str(inner.get("text", "")) for inner in blocks_of(block.get("content")))
            yield row("tool", text, tool_call_id=block.get("tool_use_id"))
    rest = [block for block in blocks if block.get("type") != "tool_result"]
    if rest or not blocks:
        calls = [
            {"name": b.get("name"), "args": b.get("input"), "id": b.get("id")}
            for b in rest
            if b.get("type") == "tool_use"
        ]
        text, thinking = ("".join(str(b.get(k, "")) for b in rest) for k in ("text", "thinking"))
        yield row(role, text, tool_calls=calls, thinking=thinking)


_Delta = dict[str, Any]


def _blocks(answer: Answer) -> Iterator[tuple[dict[str, Any], list[_Delta]]]:
    """Each content block as it starts out empty, and the deltas that fill it."""
    reply = answer.reply
    if reply.thinking:
        fill: list[_Delta] = [{"type": "thinking_delta", "thinking": p} for p in slices(reply.thinking)]
        fill.append({"type": "signature_delta", "signature": answer.signature})
        yield {"type": "thinking", "thinking": "", "signature": ""}, fill
    if reply.text:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": p} for p in slices(reply.text)]
    for call in reply.tool_calls:
        empty = {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call)}
        yield empty, [{"type": "input_json_delta", "partial_json": p} for p in slices(call.raw())]


def _filled(block: dict[str, Any], deltas: list[_Delta]) -> dict[str, Any]:
    for key in ("thinking", "text", "signature"):
        if key in block:
            block = {**block, key: "".join(delta.get(key, "") for delta in deltas)}
    return block


def _input(call: ToolCall) -> dict[str, Any]:
    if isinstance(call.args, dict):
        return call.args
    try:
        parsed = json.loads(call.args)
    except ValueError:
        parsed = None
    # The API's own advice for arguments it could not parse.
    return parsed if isinstance(parsed, dict) else {"INVALID_JSON": call.args}


def _message(answer: Answer) -> dict[str, Any]:
    return {
        "id": f"msg_{answer.number}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "stop_reason": None,
        "stop_sequence": None,
    }


def _stop(answer: Answer) -> str:
    finish = answer.reply.finish or ("tool_use" if answer.reply.tool_calls else "end_turn")
    return _STOP.get(finish, finish)


def _usage(answer: Answer) -> dict[str, Any]:
    hit = answer.hit
    return {
        "input_tokens": hit.input - hit.cached - hit.written,
        "cache_read_input_tokens": hit.cached,
        "cache_creation_input_tokens": hit.written,
        "output_tokens": answer.output_tokens,
    }


def _event(kind: str, **data: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"


ANTHROPIC = AnthropicWire()

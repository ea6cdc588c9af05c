"""OpenAI chat completions on the wire."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from headwater.lab.rules import Ask, Rule, blocks_of
from headwater.lab.rules_dialects import DEEPSEEK_RULES, MISTRAL_RULES, VLLM_RULES
from headwater.lab.rules_openai import OPENAI_RULES
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

_FINISH = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"}


class OpenAIWire:
    """`POST /v1/chat/completions`. Thinking goes out as `reasoning_content`, as DeepSeek and vLLM send it."""

    call_prefix = "call_"
    signs = False
    joint = True

    def __init__(self, name: str = "openai", prefix: str = "", rules: Sequence[Rule] = OPENAI_RULES) -> None:
        """A dialect of the format, served under a prefix of its own with rules of its own."""
        self.name = name
        self.path: str = f"{prefix}/v1/chat/completions"
        self.rules = rules

    def parts(self, ask: Ask) -> Iterator[tuple[str, Any]]:
        """One piece a tool and one a message; a system prompt is a message here."""
        for tool in ask.body.get("tools") or []:
            yield "tool", tool
        for message in ask.messages:
            yield "message", message

    def part_tokens(self, kind: str, part: Any) -> int:
        """Text, calls and reasoning once each; an image at its bounded price."""
        if kind == "tool":
            return json_tokens(part.get("function", part))
        total = MESSAGE_TOKENS + text_tokens(part.get("name"), part.get("reasoning_content"))
        for block in blocks_of(part.get("content")):
            if block.get("type") in ("text", "refusal"):
                total += text_tokens(block.get("text"), block.get("refusal"))
            else:
                total += IMAGE_TOKENS
        for call in part.get("tool_calls") or []:
            total += text_tokens(call["function"]["name"], call["function"]["arguments"])
        return total

    def view(self, body: dict[str, Any]) -> View:
        """A leading system message apart, the rest as rows."""
        rows = [_row(message) for message in body["messages"]]
        system = ""
        if rows and rows[0]["role"] in ("system", "developer"):
            system = rows.pop(0)["text"]
        return system, rows, [tool["function"]["name"] for tool in body.get("tools") or []]

    def cap(self, body: dict[str, Any]) -> int | None:
        """Either name of the parameter."""
        cap = body.get("max_completion_tokens", body.get("max_tokens"))
        return cap if isinstance(cap, int) else None

    def error(self, text: str, status: int = 400) -> dict[str, Any]:
        """A refusal that is about the messages."""
        kind = "invalid_request_error" if status < 500 else "server_error"
        return _error(text, kind=kind, param="messages" if status == 400 else None, code=None)

    def cap_error(self, model: str, cap: int, most: int) -> dict[str, Any]:
        """OpenAI's text for a cap over the model's maximum."""
        text = (
            f"max_tokens is too large: {cap}. This model supports at most {most} completion tokens, whereas "
            f"you provided {cap}."
        )
        return _error(text, param="max_tokens", code="invalid_value")

    def overflow(self, window: int, tokens: int, cap: int | None) -> dict[str, Any]:
        """OpenAI's texts for an input, or input and completion, over the window."""
        text = f"This model's maximum context length is {window} tokens. However, "
        if cap is None:
            text += f"your messages resulted in {tokens} tokens. Please reduce the length of the messages."
        else:
            text += (
                f"you requested {tokens + cap} tokens ({tokens} in the messages, {cap} in the completion). "
                "Please reduce the length of the messages or completion."
            )
        return _error(text, param="messages", code="context_length_exceeded")

    def whole(self, answer: Answer) -> dict[str, Any]:
        """A `chat.completion` object."""
        reply = answer.reply
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
        if not reply.tool_calls:
            message["content"] = reply.text
        if reply.thinking:
            message["reasoning_content"] = reply.thinking
        if reply.tool_calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.raw()}}
                for call in reply.tool_calls
            ]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(answer)}
        return {**_frame(answer, "chat.completion"), "choices": [choice], "usage": _usage(answer)}

    def events(self, answer: Answer, body: dict[str, Any]) -> Iterator[str]:
        """Chunks, then usage when `stream_options.include_usage` asks for it, then `[DONE]`."""
        reply = answer.reply
        yield _chunk(answer, {"role": "assistant", "content": ""})
        for piece in slices(reply.thinking):
            yield _chunk(answer, {"reasoning_content": piece})
        for piece in slices(reply.text):
            yield _chunk(answer, {"content": piece})
        for index, call in enumerate(reply.tool_calls):
            head = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
            yield _chunk(answer, {"tool_calls": [{"index": index, **head}]})
            for piece in slices(call.raw()):
                yield _chunk(answer, {"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield _chunk(answer, {}, _finish(answer))
        if (body.get("stream_options") or {}).get("include_usage"):
            usage = {"choices": [], "usage": _usage(answer)}
            yield _data({**_frame(answer, "chat.completion.chunk"), **usage})
        yield "data: [DONE]\n\n"


def _row(message: dict[str, Any]) -> dict[str, Any]:
    calls = [
        {"name": c["function"]["name"], "args": _parsed(c["function"]["arguments"]), "id": c["id"]}
        for c in message.get("tool_calls") or []
    ]
    return row(
        message["role"],
        "".join(str(block.get("text", "")) for block in blocks_of(message.get("content"))),
        tool_calls=calls,
        tool_call_id=message.get("tool_call_id"),
        thinking=message.get("reasoning_content", ""),
    )


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _finish(answer: Answer) -> str:
    finish = answer.reply.finish or ("tool_calls" if answer.reply.tool_calls else "stop")
    return _FINISH.get(finish, finish)


def _usage(answer: Answer) -> dict[str, Any]:
    hit, out = answer.hit, answer.output_tokens
    return {
        "prompt_tokens": hit.input,
        "completion_tokens": out,
        "total_tokens": hit.input + out,
        "prompt_tokens_details": {"cached_tokens": hit.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": text_tokens(answer.reply.thinking)},
    }


def _frame(answer: Answer, kind: str) -> dict[str, Any]:
    # A constant time: nothing in an answer may differ between two runs of the same script.
    return {"id": f"chatcmpl-{answer.number}", "object": kind, "created": 0, "model": answer.model}


def _chunk(answer: Answer, delta: dict[str, Any], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _data({**_frame(answer, "chat.completion.chunk"), "choices": [choice]})


def _data(value: dict[str, Any]) -> str:
    return f"data: {json.dumps(value)}\n\n"


def _error(
    text: str, *, kind: str = "invalid_request_error", param: str | None, code: str | None
) -> dict[str, Any]:
    return {"error": {"message": text, "type": kind, "param": param, "code": code}}


OPENAI = OpenAIWire()
DIALECTS = (
    OpenAIWire("mistral", "/mistral", MISTRAL_RULES),
    OpenAIWire("vllm", "/vllm", VLLM_RULES),
    OpenAIWire("deepseek", "/deepseek", DEEPSEEK_RULES),
)

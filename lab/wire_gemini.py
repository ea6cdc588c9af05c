"""Gemini's `generateContent` on the wire."""

import json
import re
from collections.abc import Iterator
from typing import Any

from headwater.lab.rules import Ask
from headwater.lab.rules_gemini import GEMINI_RULES, contents_of, field_of, parts_of
from headwater.lab.rules_gemini_thoughts import sign_call, signs
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

# Clients differ in the version they ask for; the format is one.
_ADDRESS = re.compile(r"/v1(?:beta)?/models/([^/:]+):(generateContent|streamGenerateContent)")
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_FINISH = {
    "stop": "STOP",
    "end_turn": "STOP",
    "tool_calls": "STOP",
    "tool_use": "STOP",
    "length": "MAX_TOKENS",
    "max_tokens": "MAX_TOKENS",
}


def address(path: str) -> dict[str, Any] | None:
    """What the path of a request says, `{model, stream}`, or None where it is none of Gemini's.

    Example:
        >>> address("/v1beta/models/gemini-x:streamGenerateContent")
        {'model': 'gemini-x', 'stream': True}
    """
    found = _ADDRESS.fullmatch(path)
    return found and {"model": found[1], "stream": found[2] == "streamGenerateContent"}


class GeminiWire:
    """`POST /v1beta/models/{model}:generateContent`, and `:streamGenerateContent` as events (`alt=sse`).

    The cap bounds the output alone: input and output have limits of their own here.
    """

    name = "gemini"
    path = "/v1beta/models/{model}:generateContent"
    call_prefix = "call_"
    rules = GEMINI_RULES
    signs = False
    joint = False

    def parts(self, ask: Ask) -> Iterator[tuple[str, Any]]:
        """One piece a declared function, a part of the instruction and a part of a turn."""
        for declared in _declared(ask.body):
            yield "tool", declared
        for part in parts_of(field_of(ask.body, "systemInstruction")):
            yield "system", part
        for content in contents_of(ask.body):
            for number, part in enumerate(parts_of(content)):
                yield (f"{content.get('role')} opens" if number == 0 else str(content.get("role"))), part

    def part_tokens(self, kind: str, part: Any) -> int:
        """Text, calls and responses once each; an image or file at its bounded price."""
        if kind == "tool":
            return json_tokens(part)
        return _part_tokens(part) + (MESSAGE_TOKENS if kind.endswith("opens") else 0)

    def view(self, body: dict[str, Any]) -> View:
        """Function responses as rows of their own, the role `model` as `assistant`."""
        system = "\n".join(str(p.get("text", "")) for p in parts_of(field_of(body, "systemInstruction")))
        rows = [found for content in contents_of(body) for found in _rows(content)]
        return system, rows, [str(declared["name"]) for declared in _declared(body)]

    def cap(self, body: dict[str, Any]) -> int | None:
        """`generationConfig.maxOutputTokens`."""
        cap = field_of(field_of(body, "generationConfig") or {}, "maxOutputTokens")
        return cap if isinstance(cap, int) else None

    def error(self, text: str, status: int = 400) -> dict[str, Any]:
        """An error body with the status that goes with the code."""
        return {"error": {"code": status, "message": text, "status": _STATUS.get(status, "INTERNAL")}}

    def cap_error(self, model: str, cap: int, most: int) -> dict[str, Any]:
        """Gemini's text for a cap over the model's maximum."""
        return self.error(
            f"Unable to submit request because it has a maxOutputTokens value of {cap} but the supported "
            f"range is from 1 (inclusive) to {most + 1} (exclusive)."
        )

    def overflow(self, window: int, tokens: int, cap: int | None) -> dict[str, Any]:
        """Gemini's text for an input over the window; the cap has no part in it."""
        return self.error(
            f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window})."
        )

    def whole(self, answer: Answer) -> dict[str, Any]:
        """A `GenerateContentResponse`."""
        content = {"role": "model", "parts": _answered(answer)}
        return _response(answer, {"content": content, "finishReason": _finish(answer), "index": 0})

    def events(self, answer: Answer, body: dict[str, Any]) -> Iterator[str]:
        """Responses with a portion of a part each, calls whole, then the reason to finish."""
        for part in _answered(answer):
            for portion in _portions(part):
                content = {"role": "model", "parts": [portion]}
                yield _event(_response(answer, {"content": content, "index": 0}))
        content = {"role": "model", "parts": [{"text": ""}]}
        last = {"content": content, "finishReason": _finish(answer), "index": 0}
        yield _event(_response(answer, last))


def _declared(body: dict[str, Any]) -> list[dict[str, Any]]:
    tools = body.get("tools") or []
    return [declared for tool in tools for declared in field_of(tool, "functionDeclarations") or []]


def _part_tokens(part: dict[str, Any]) -> int:
    for name, held in (("functionCall", "args"), ("functionResponse", "response")):
        found = field_of(part, name)
        if found is not None:
            images = sum(IMAGE_TOKENS for _ in parts_of(found))
            return text_tokens(found.get("name")) + json_tokens(found.get(held)) + images
    return text_tokens(part["text"]) if "text" in part else IMAGE_TOKENS


def _rows(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for response in parts_of(content, "functionResponse"):
        yield row("tool", _said(response.get("response")), tool_call_id=response.get("id"))
    rest = [part for part in parts_of(content) if field_of(part, "functionResponse") is None]
    if rest:
        calls = [
            {"name": call.get("name"), "args": call.get("args"), "id": call.get("id")}
            for call in parts_of(content, "functionCall")
        ]
        thinking, text = (
            "".join(str(p.get("text", "")) for p in rest if bool(p.get("thought")) == thought)
            for thought in (True, False)
        )
        role = "assistant" if content.get("role") == "model" else "user"
        yield row(role, text, tool_calls=calls, thinking=thinking)


def _said(response: Any) -> str:
    """What a tool said: clients put it under `output`, or under `error`."""
    if isinstance(response, dict) and len(response) == 1:
        only = next(iter(response.values()))
        if isinstance(only, str):
            return only
    return json.dumps(response, ensure_ascii=False)


def _answered(answer: Answer) -> list[dict[str, Any]]:
    """The reply's parts. A call whose arguments are no object is not sent: the reason to finish says so."""
    reply = answer.reply
    parts: list[dict[str, Any]] = []
    if reply.thinking:
        parts.append({"text": reply.thinking, "thought": True})
    if reply.text or not (reply.tool_calls or parts):
        parts.append({"text": reply.text})
    if not _malformed(answer):
        parts += [
            {"functionCall": {"name": call.name, "args": call.args, "id": call.id}}
            for call in reply.tool_calls
        ]
    if signs(answer.model) and parts:
        # On the first of parallel calls, else on the last part.
        at = next((i for i, part in enumerate(parts) if "functionCall" in part), len(parts) - 1)
        name = str(parts[at].get("functionCall", {}).get("name", ""))
        parts[at] = {**parts[at], "thoughtSignature": sign_call(answer.number, name)}
    return parts


def _malformed(answer: Answer) -> bool:
    return any(not isinstance(call.args, dict) for call in answer.reply.tool_calls)


def _portions(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "text" not in part:
        yield part
        return
    signature = part.get("thoughtSignature")
    for piece in slices(part["text"]):
        yield {name: value for name, value in part.items() if name != "thoughtSignature"} | {"text": piece}
    if signature:
        yield {"text": "", "thoughtSignature": signature}


def _finish(answer: Answer) -> str:
    if _malformed(answer):
        return "MALFORMED_FUNCTION_CALL"
    finish = answer.reply.finish or "stop"
    return _FINISH.get(finish, finish)


def _response(answer: Answer, candidate: dict[str, Any]) -> dict[str, Any]:
    return {
        "candidates": [candidate],
        "usageMetadata": _usage(answer),
        "modelVersion": answer.model,
        "responseId": f"response-{answer.number}",
    }


def _usage(answer: Answer) -> dict[str, Any]:
    """The prompt's count holds what was cached; thoughts are counted apart from the candidates."""
    hit, out = answer.hit, answer.output_tokens
    thoughts = text_tokens(answer.reply.thinking)
    usage = {
        "promptTokenCount": hit.input,
        "cachedContentTokenCount": hit.cached,
        "candidatesTokenCount": out - thoughts,
        "thoughtsTokenCount": thoughts,
        "totalTokenCount": hit.input + out,
    }
    # As in the protocol's JSON, a count of nothing is left out.
    return {name: count for name, count in usage.items() if count or name == "promptTokenCount"}


def _event(value: dict[str, Any]) -> str:
    return f"data: {json.dumps(value)}\r\n\r\n"


GEMINI = GeminiWire()

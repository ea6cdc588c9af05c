"""A conversation in a file of messages: an array, an object that holds one, a log of requests."""

from collections.abc import Mapping, Sequence
from typing import Any

from headwater.lab.document import Document
from headwater.lab.message_rows import block_of, extend, flat, is_message, is_talk
from headwater.lab.recording import Recording, Row, listed, mapped

EXPECTS = (
    'OpenAI or Anthropic messages: {"messages": [{"role", "content"}, ...]}, the array alone, or a line each'
)

_LISTS = ("messages", "input", "contents", "conversations", "conversation", "history", "trajectory", "items")
_HOLDERS = ("request", "body", "kwargs", "payload", "params", "input")
_PROMPTS = (
    "system",
    "instructions",
    "system_prompt",
    "systemPrompt",
    "systemInstruction",
    "system_instruction",
)


def read(document: Document) -> Recording | None:
    """The conversation of a file, None where it holds none."""
    value = document.value
    said = conversation(value) if value is not None else None
    recording = Recording("messages")
    if said is None and (rows := document.events):
        whole = bool(rows) and all(is_message(row) for row in rows)
        said = rows if whole else _longest(rows, recording)
    if said is None:
        return None
    for number, error, _ in document.broken:
        recording.odd("broken_line", f"line {number} is not JSON ({error})")
    if isinstance(value, dict):
        recording.rows += _system_rows(value)
    extend(recording, said)
    return recording if recording.rows else None


def _longest(rows: Sequence[Any], recording: Recording) -> list[Any] | None:
    """A log of requests, each with the whole conversation so far: the longest is the session."""
    logs = [found for row in rows if (found := conversation(row))]
    if not logs or len(logs) < len(rows):
        return None
    if len(logs) > 1:
        recording.odd("several_conversations", f"the longest of {len(logs)} was read")
    return max(logs, key=len)


def conversation(value: Any) -> list[Any] | None:
    """The list of messages that a JSON value is or holds, with the response behind it."""
    if isinstance(value, list):
        if value and all(isinstance(inner, list) for inner in value) and len(value) == 1:
            value = value[0]
        return value if is_talk(value) else None
    if not isinstance(value, dict):
        return None
    for key in _HOLDERS:
        inner = value.get(key)
        if isinstance(inner, dict) and (found := conversation(inner)):
            chosen = [m for m in listed(value.get("preferred_output")) if is_message(m)]
            return [*_system_rows(inner), *found, *_answer(value.get("response")), *chosen]
    for key in _LISTS:
        said = value.get(key)
        if key == "input" and isinstance(said, str) and ("output" in value or "model" in value):
            said = [{"role": "user", "content": said}]
        if found := conversation(said) if isinstance(said, list) else None:
            return [*found, *_answer(value), *_answer(value.get("response"))]
    return _answer(value) or _answer(value.get("response")) or None


def _answer(response: Any) -> list[Any]:
    """The assistant's message in a chat completion, a response, or a message object."""
    if not isinstance(response, dict):
        return []
    if isinstance(response.get("body"), dict):
        response = response["body"]
    choices = response.get("choices")
    extra = {"usage": response.get("usage"), "model": response.get("model")}
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        message = choices[0].get("message")
        return [{**message, **extra}] if isinstance(message, dict) and is_message(message) else []
    drawn = response.get("candidates")
    if isinstance(drawn, list) and drawn and isinstance(drawn[0], dict):
        said = {"role": "model", **mapped(drawn[0].get("content")), "usage": response.get("usageMetadata")}
        return [said] if is_message(said) else []
    output = response.get("output")
    if isinstance(output, list) and output and all(is_message(item) for item in output):
        return list(output)
    if response.get("role") == "assistant" and "content" in response:
        return [response]
    return []


def _system_rows(value: Mapping[str, Any]) -> list[Row]:
    """The system prompt that Anthropic and the Responses API put beside the messages."""
    for key in _PROMPTS:
        prompt = value.get(key)
        prompt = prompt.get("parts") if isinstance(prompt, dict) else prompt
        if isinstance(prompt, str) and prompt:
            return [{"role": "system", "content": prompt}]
        if isinstance(prompt, list) and prompt:
            return [{"role": "system", "content": flat([block_of(b) for b in prompt])}]
    return []

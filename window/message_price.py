"""The price of one message in tokens: all that is sent, and each thing once (cases 9, 10).

What a message says in two places (a call as a content block and in `tool_calls`, reasoning as a block and in
`additional_kwargs`) is sent once and counted once. Images and other media have a bounded price; their base64
is never tokenised.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from headwater.window.images import KINDS

MESSAGE_TOKENS = 4
"""Role and separators of one message."""
IMAGE_TOKENS = 1_600
"""An image: the most that Anthropic charges for one; others ask less."""
MEDIA_TOKENS = 4_800
"""Any other attached medium: audio, video, PDF."""

_TEXTS = frozenset({"text", "input_text", "output_text", "text-plain", "refusal"})
_THOUGHTS = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content", "thought"})
_CALLS = frozenset({"tool_use", "tool_call", "function_call", "tool_call_chunk", "invalid_tool_call"})
_RESULTS = frozenset({"tool_result", "function_call_output"})
_MEDIA = frozenset({"audio", "input_audio", "video", "video_url", "file", "input_file", "document", "media"})
_REASONING_KWARGS = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")
_THOUGHT_KEYS = (
    *("thinking", "reasoning", "text", "reasoning_content", "summary", "content"),
    *("signature", "data", "encrypted_content", "extras"),
)
# A long string under one of these keys is bytes in base64, not words.
_BYTES_KEYS = frozenset({"data", "base64", "bytes", "file_data", "image_base64", "url"})
_BYTES_CHARS = 512


class MessagePrice:
    """Prices one message; it remembers which calls and which reasoning it has counted.

    Args:
        count: Tokens of a text.
    """

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._calls: set[str] = set()
        self._thoughts: set[str] = set()

    def message(self, message: BaseMessage) -> int:
        """Tokens of the message."""
        total = MESSAGE_TOKENS + self._count(message.name or "")
        extras = message.additional_kwargs
        if isinstance(message, AIMessage):
            # First, for they hold the arguments whole; a streamed block may hold only pieces of them.
            total += sum(self._call(call) for call in [*message.tool_calls, *message.invalid_tool_calls])
            if not self._calls and isinstance(extras.get("function_call"), Mapping):
                total += self._call(extras["function_call"])
        elif isinstance(message, ToolMessage):
            total += self._count(message.tool_call_id)
        total += self._content(message.content)
        return total + sum(self._thought(extras[key]) for key in _REASONING_KWARGS if key in extras)

    def _content(self, content: Any) -> int:
        if isinstance(content, str):
            return self._count(content)
        if isinstance(content, Mapping):
            return self._block(content)
        if isinstance(content, (list, tuple)):
            return sum(map(self._content, content))
        return 0 if content is None else self._count(str(content))

    def _block(self, block: Mapping[str, Any]) -> int:
        kind = block.get("type") or _kind_without_type(block)
        if kind in _TEXTS:
            return self._content(block.get("refusal" if kind == "refusal" else "text"))
        if kind in _THOUGHTS:
            return self._thought(block)
        if kind in _CALLS:
            return 0 if _call_key(block) in self._calls else self._call(block)
        if kind in _RESULTS:
            result = block.get("content", block.get("output"))
            return self._count(str(block.get("tool_use_id") or block.get("call_id") or "")) + self._content(
                result
            )
        if kind in KINDS:
            return IMAGE_TOKENS
        if kind in _MEDIA:
            return self._medium(block)
        return self._other(block)

    def _call(self, call: Mapping[str, Any]) -> int:
        self._calls.add(_call_key(call))
        arguments: Any = next((call[key] for key in ("args", "input", "arguments") if call.get(key)), {})
        sent = arguments if isinstance(arguments, str) else compact(arguments)
        return sum(map(self._count, (_call_id(call), str(call.get("name") or ""), sent)))

    def _thought(self, thought: Any) -> int:
        if isinstance(thought, str):
            if thought in self._thoughts:
                return 0
            self._thoughts.add(thought)
            return self._count(thought)
        if isinstance(thought, Mapping):
            return sum(self._thought(thought[key]) for key in _THOUGHT_KEYS if key in thought)
        return sum(map(self._thought, thought)) if isinstance(thought, (list, tuple)) else 0

    def _medium(self, block: Mapping[str, Any]) -> int:
        """A document given as text is text; anything else has the price of a medium."""
        source = block.get("source")
        if isinstance(source, Mapping) and source.get("type") in ("text", "content"):
            return self._content(source.get("data", source.get("content")))
        if block.get("source_type") == "text":
            return self._content(block.get("text"))
        return MEDIA_TOKENS

    def _other(self, block: Mapping[str, Any]) -> int:
        """A block of a kind not listed here goes by its JSON, its bytes apart."""
        media = 0

        def words(value: Any, key: str = "") -> Any:
            nonlocal media
            if isinstance(value, Mapping):
                return {str(k): words(v, str(k)) for k, v in value.items()}
            if isinstance(value, (list, tuple)):
                return [words(item, key) for item in value]
            if isinstance(value, bytes) or (
                isinstance(value, str)
                and key in _BYTES_KEYS
                and len(value) > _BYTES_CHARS
                and " " not in value
            ):
                media += 1
                return ""
            return value

        return self._count(compact(words(block))) + media * MEDIA_TOKENS


def _kind_without_type(block: Mapping[str, Any]) -> str:
    return next((kind for kind in ("text", "image", "document", "video") if kind in block), "")


def _call_id(call: Mapping[str, Any]) -> str:
    return str(call.get("call_id") or call.get("id") or "")


def _call_key(call: Mapping[str, Any]) -> str:
    return _call_id(call) or f"name:{call.get('name')}"


def compact(value: Any) -> str:
    """A value as JSON without blanks, as it is sent and counted."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)

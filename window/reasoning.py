"""Reasoning in a message: what counts as such, what it weighs, and what of it may go back to a provider."""

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage

from headwater.window.providers import Provider, Reasoning
from headwater.window.tokens import count_text

BLOCKS = ("thinking", "redacted_thinking", "reasoning")
KEYS = ("reasoning_content", "reasoning")
SIGNATURES = "__gemini_function_call_thought_signatures__"
"""Where Google's client keeps, by call id, the signatures that its calls came with."""
_GOOGLE = ("google_genai", "google_vertexai")
# The name a client writes into `response_metadata["model_provider"]`, by row.
_ORIGINS = {
    "anthropic": ("anthropic", "bedrock"),
    "anthropic-bound": ("anthropic", "bedrock"),
    "gemini": _GOOGLE,
    "gemini-signed": _GOOGLE,
    "deepseek": ("deepseek",),
}

Content = str | list[str | dict[str, Any]]


def reasoning_tokens(message: AIMessage) -> int:
    """Tokens of reasoning that a message carries."""
    kwargs = message.additional_kwargs.items()
    total = sum([count_text(v) for k, v in kwargs if k in KEYS and isinstance(v, str)])
    if isinstance(message.content, list):
        for block in message.content:
            if isinstance(block, dict) and _is_reasoning(block):
                total += sum([count_text(v) for v in block.values() if isinstance(v, str)])
    return total


def has_text(content: Content) -> bool:
    """Whether there is anything but reasoning and blank text."""
    if isinstance(content, str):
        return bool(content.strip())
    return any(isinstance(b, dict) and b.get("type") not in BLOCKS for b in content)


def without_reasoning(content: Content, kwargs: Mapping[str, Any]) -> tuple[Content, dict[str, Any]]:
    """Content and extras of a message without any reasoning."""
    kept = {k: v for k, v in kwargs.items() if k not in KEYS}
    if isinstance(content, str):
        return content, kept
    return [b for b in content if not _is_reasoning(b)], kept


def may_strip(message: AIMessage, provider: Provider) -> bool:
    """Whether a STRIP may take the reasoning of a message: not where its calls need it for good."""
    return provider.reasoning is not Reasoning.KEPT or not (message.tool_calls or message.invalid_tool_calls)


def holds_round(message: AIMessage, provider: Provider) -> bool:
    """Whether a message that is being answered must stay as it is, for its reasoning's sake."""
    signed = provider.reasoning in (Reasoning.SIGNED, Reasoning.BOUND)
    return signed and bool(message.tool_calls) and reasoning_tokens(message) > 0


def sendable(message: AIMessage, provider: Provider) -> tuple[Content, dict[str, Any]]:
    """Content and extras with the reasoning that this provider takes back: its own, whole, or none."""
    content, kwargs = message.content, message.additional_kwargs
    if provider.reasoning is Reasoning.FREE and provider.name == "openai":
        # This client sends what it knows and drops the rest by itself.
        return content, kwargs
    if provider.reasoning is Reasoning.ABSENT or not _is_from(message, provider):
        return without_reasoning(content, kwargs)
    if provider.reasoning is Reasoning.KEPT:
        return without_reasoning(content, {})[0], kwargs
    if provider.reasoning in (Reasoning.SIGNED, Reasoning.BOUND) and not isinstance(content, str):
        content = [b for b in content if not _is_reasoning(b) or _is_signed(b)]
    return content, kwargs


def _is_from(message: AIMessage, provider: Provider) -> bool:
    """Whether a message may be this provider's own; one that does not say is given the benefit."""
    made_by = message.response_metadata.get("model_provider")
    known = _ORIGINS.get(provider.name)
    return not made_by or known is None or made_by in known


def _is_reasoning(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") in BLOCKS


def _is_signed(block: Any) -> bool:
    return bool(block.get("signature") if block.get("type") == "thinking" else block.get("data"))

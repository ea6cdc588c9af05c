"""What each provider wants of a request beyond the common rules: one table, with its sources.

What is common needs no row, for every request keeps it: one system message and first, a user's message after
it, no empty content, calls answered in the next message, ids unique in the request. A row says where a
provider differs, and `render` writes the request for its row. All of it only ever appends: a log that grows
still gives a request that grows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable

from headwater.window.sizes import Model, model_name, unbound


class UnknownProvider(ValueError):
    """A provider that has no row in the table."""


class Reasoning(StrEnum):
    """What may become of the reasoning of earlier assistant messages.

    FREE: it may be sent, edited and left out. SIGNED: a block goes back as it came or not at all, and the
    tool round that is being answered keeps it. BOUND: as SIGNED, and a block is valid only behind the very
    bytes it was made behind; when those change it must go. KEPT: an assistant message with tool calls keeps
    it for good. ABSENT: it must not be sent.
    """

    FREE = "free"
    SIGNED = "signed"
    BOUND = "bound"
    KEPT = "kept"
    ABSENT = "absent"


class Ids(NamedTuple):
    """The shape of a tool-call id: the pattern of a whole id, and the length that made-up ones must have."""

    pattern: str
    length: int | None = None


PORTABLE = Ids(r"[a-zA-Z0-9_-]{1,40}")
NINE = Ids(r"[a-zA-Z0-9]{9}", 9)


@dataclass(frozen=True)
class Provider:
    """One row.

    Attributes:
        name: What the row is called, and what `WindowPolicy(provider=...)` names.
        alternate: Two user messages may not follow each other.
        bridge: A user message may not follow a tool result; an assistant message must stand between.
        ids: The shape of tool-call ids. They are unique in every request, which serves those that ask for
            unique in an arc and those that ask for unique in the request.
        reasoning: See `Reasoning`.
        tool_images: A tool result may hold an image; where not, a user message after the arc shows it.
        images: Images a request may hold; None for no limit that a session could reach.
        signed_calls: In the round that is being answered, the first call of each assistant message carries
            the signature it came with; the client has it by the call's id, and says for a call without
            one that there is none.
        sources: For each field that departs from the default, where the rule is known from.
    """

    name: str
    alternate: bool = False
    bridge: bool = False
    ids: Ids = PORTABLE
    reasoning: Reasoning = Reasoning.FREE
    tool_images: bool = True
    images: int | None = None
    signed_calls: bool = False
    sources: dict[str, str] = field(default_factory=dict, hash=False, compare=False)


_ANTHROPIC = {
    "reasoning": "Anthropic docs, extended thinking with tool use; anthropics/claude-code#63226",
    "images": "Anthropic docs, vision: above 20 each must be within 2,000 px; charmbracelet/crush#3810",
}
_GEMINI = {"images": "Gemini docs, image understanding: thousands a request"}
_MISTRAL_IDS = "mistral-common validator; langchain-ai/langchain#24668"

TABLE: tuple[Provider, ...] = (
    Provider(
        "openai",
        tool_images=False,
        images=500,
        sources={
            "ids": "OpenAI reference, tool_calls: id of at most 40 characters",
            "tool_images": "OpenAI reference, image_url: only with role 'user'",
            "images": "OpenAI docs, images and vision: at most 500 in a request",
        },
    ),
    Provider("anthropic", reasoning=Reasoning.SIGNED, images=20, sources=_ANTHROPIC),
    Provider(
        "anthropic-bound",
        reasoning=Reasoning.BOUND,
        images=20,
        sources={
            **_ANTHROPIC,
            "reasoning": "Anthropic docs, preserved thinking (Claude 5.1 and on); anomalyco/opencode#46653",
        },
    ),
    Provider("gemini", images=3_000, sources=_GEMINI),
    Provider(
        "gemini-signed",
        images=3_000,
        signed_calls=True,
        sources={
            **_GEMINI,
            "signed_calls": "Gemini docs, thought signatures (Gemini 3 and on): a call of the current turn "
            "without one is refused; langchain-ai/langchain-google#1364",
        },
    ),
    Provider(
        "mistral",
        bridge=True,
        ids=NINE,
        reasoning=Reasoning.ABSENT,
        tool_images=False,
        images=8,
        sources={
            "bridge": "mistral-common validator: 'Unexpected role user after role tool'; "
            "NousResearch/hermes-agent#20154",
            "ids": _MISTRAL_IDS,
            "reasoning": "Mistral reference, chat completions: extra inputs are not permitted",
            "tool_images": "Mistral docs, vision: images in user messages",
            "images": "Mistral docs, vision: at most 8 in a request; earendil-works/pi#120",
        },
    ),
    Provider(
        "vllm",
        alternate=True,
        bridge=True,
        ids=NINE,
        reasoning=Reasoning.ABSENT,
        tool_images=False,
        sources={
            "alternate": "chat templates of Mistral and Gemma under vLLM; vllm-project/vllm#6862",
            "bridge": "the same templates count tool results out; charmbracelet/crush#279",
            "ids": f"{_MISTRAL_IDS}: the template checks the length as well",
            "reasoning": "the templates read content only",
            "tool_images": "vLLM docs, multimodal inputs: images in user messages",
        },
    ),
    Provider(
        "deepseek",
        reasoning=Reasoning.KEPT,
        tool_images=False,
        sources={
            "reasoning": "DeepSeek docs, thinking mode with tool calls; rikkahub/rikkahub#1587",
            "tool_images": "DeepSeek reference: a tool message holds text",
        },
    ),
)
ROWS = {row.name: row for row in TABLE}
DEFAULT = ROWS["openai"]

# First that fits: the client's class, then the address, then the model's name (whatever the gateway).
_CLASSES = (
    ("ChatMistralAI", "mistral"),
    ("ChatDeepSeek", "deepseek"),
    ("ChatAnthropic", "anthropic"),
    ("ChatGoogle", "gemini"),
    ("ChatVertexAI", "gemini"),
    ("VLLM", "vllm"),
)
_HOSTS = (
    ("api.mistral.ai", "mistral"),
    ("api.deepseek.com", "deepseek"),
    ("anthropic.com", "anthropic"),
    ("googleapis.com", "gemini"),
    ("api.openai.com", "openai"),
)
_NAMES = (
    (r"(?:mi[sx]tral|ministral|devstral|codestral|magistral|pixtral)", "vllm"),
    (r"gemma", "vllm"),
    (r"deepseek", "deepseek"),
    (r"claude", "anthropic"),
    (r"gemini", "gemini"),
)
_CLAUDE = re.compile(r"claude-(?:[a-z]+-)?(\d+)(?:[-.](\d{1,2})(?!\d))?")
_GEMINI_MAJOR = re.compile(r"gemini-(\d+)")
# The clients' names for the address they talk to.
_ADDRESSES = (
    *("openai_api_base", "anthropic_api_url", "endpoint", "base_url"),
    *("azure_endpoint", "endpoint_url"),
)


def provider_of(model: Model, *, explicit: str | None = None) -> Provider:
    """The row of a model: as set, else by the client's class, the address, the model's name, else OpenAI's.

    Args:
        model: As for `window_of`.
        explicit: A row's name, for a server that nothing else tells (a vLLM behind a name of its own).

    Raises:
        UnknownProvider: `explicit` is no row.

    Example:
        >>> provider_of("mistralai:mistral-large-latest").name, provider_of("claude-sonnet-5-1").name
        ('mistral', 'anthropic-bound')
    """
    if explicit is not None:
        if explicit not in ROWS:
            raise UnknownProvider(f"provider={explicit!r} has no row; there are {', '.join(sorted(ROWS))}")
        return ROWS[explicit]
    name = model_name(model).lower()
    found = _by_prefix(name) if isinstance(model, str) else _by_client(unbound(model))
    found = found or next((row for pattern, row in _NAMES if re.search(pattern, name)), DEFAULT.name)
    if found == "anthropic" and _binds_thinking(name):
        found = "anthropic-bound"
    if found == "gemini" and any(int(major) >= 3 for major in _GEMINI_MAJOR.findall(name)):
        found = "gemini-signed"
    return ROWS[found]


def cap_name(model: object) -> str:
    """The setting by which a call to this client caps the output: the client's, whatever model is behind."""
    return "max_output_tokens" if hasattr(unbound(model), "max_output_tokens") else "max_tokens"


def caching_asked(model: BaseChatModel) -> dict[str, Any]:
    """What a call must say so that all that is sent is cached.

    Anthropic caches up to a marked block only; the others cache any prefix by themselves.
    """
    return {"cache_control": {"type": "ephemeral"}} if model._llm_type == "anthropic-chat" else {}


def addresses_of(model: object) -> list[str]:
    """The addresses that a client says it talks to, the likeliest first; mostly one or none."""
    return [str(found) for name in _ADDRESSES if (found := getattr(model, name, None))]


def _by_prefix(name: str) -> str | None:
    vendor = name.partition(":")[0]
    known = {"mistralai": "mistral", "google_genai": "gemini", "google_vertexai": "gemini"}
    return known.get(vendor) or (vendor if vendor in ROWS and ":" in name else None)


def _by_client(model: BaseChatModel | Runnable[object, object] | object) -> str | None:
    classes = [kind.__name__ for kind in type(model).__mro__]
    for prefix, row in _CLASSES:
        if any(kind.startswith(prefix) for kind in classes):
            return row
    addresses = addresses_of(model)
    return next((row for host, row in _HOSTS if any(host in address for address in addresses)), None)


def _binds_thinking(name: str) -> bool:
    """Claude 5.1 and later; a snapshot's date is no minor version."""
    found = _CLAUDE.search(name)
    return found is not None and (int(found[1]), int(found[2] or 0)) >= (5, 1)

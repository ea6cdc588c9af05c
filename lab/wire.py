"""What a wire format has to tell the strict provider: in `wire_openai` and its like."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headwater.lab.prefix_cache import Hit
from headwater.lab.rules import Ask, Rule
from headwater.lab.script import Reply
from headwater.window.tokens import count_text

# Tokens for any image: both providers scale large ones down, so the price is bounded.
IMAGE_TOKENS = 1_600
# Tokens of role and separators around one message.
MESSAGE_TOKENS = 4

View = tuple[str, list[dict[str, Any]], list[str]]
"""A request's system text, normalised messages and tool names, as `Request` shows them."""


@dataclass(frozen=True)
class Answer:
    """An accepted request's reply on its way out; the calls have their ids, the thinking its signature."""

    number: int
    model: str
    reply: Reply
    signature: str
    hit: Hit
    output_tokens: int


class Wire(Protocol):
    """One provider's format: how to read, size and refuse a request, and how to write an answer."""

    @property
    def name(self) -> str:
        """What exchanges call it."""

    @property
    def path(self) -> str:
        """Where it is served."""

    @property
    def call_prefix(self) -> str:
        """How the ids that the server gives to calls begin."""

    @property
    def rules(self) -> Sequence[Rule]:
        """What it refuses, in order."""

    @property
    def signs(self) -> bool:
        """Whether thinking goes out signed."""

    @property
    def joint(self) -> bool:
        """Whether input and output cap share the window."""

    def parts(self, ask: Ask) -> Iterator[tuple[str, Any]]:
        """The request in serialised order (tools, system, messages) as cache pieces with their kind."""

    def part_tokens(self, kind: str, part: Any) -> int:
        """Tokens of one piece."""

    def view(self, body: dict[str, Any]) -> View:
        """The request in the one shape that scripts see."""

    def cap(self, body: dict[str, Any]) -> int | None:
        """The output cap the request sets, in tokens."""

    def error(self, text: str, status: int = 400) -> dict[str, Any]:
        """An error body with this text."""

    def cap_error(self, model: str, cap: int, most: int) -> dict[str, Any]:
        """The body that refuses an output cap over the model's maximum."""

    def overflow(self, window: int, tokens: int, cap: int | None) -> dict[str, Any]:
        """The body that refuses an input (or, with `cap`, input and output together) over the window."""

    def whole(self, answer: Answer) -> dict[str, Any]:
        """The body of an answer that is not streamed."""

    def events(self, answer: Answer, body: dict[str, Any]) -> Iterator[str]:
        """The answer as server-sent events."""


def row(role: str, text: str, **more: Any) -> dict[str, Any]:
    """A message as scripts see it, in every wire's `view`."""
    return {"role": role, "text": text, "tool_calls": [], "tool_call_id": None, "thinking": "", **more}


def text_tokens(*texts: Any) -> int:
    """Tokens of several texts, each by itself; None counts nothing."""
    return sum(count_text(str(text)) for text in texts if text)


def json_tokens(value: Any) -> int:
    """Tokens of a value as JSON text."""
    return count_text(json.dumps(value, ensure_ascii=False))


def slices(text: str, size: int = 48) -> Iterator[str]:
    """A text in the portions a stream carries."""
    return (text[start : start + size] for start in range(0, len(text), size))


def output_tokens(reply: Reply) -> int:
    """Tokens a reply would be billed as output."""
    return text_tokens(reply.thinking, reply.text, *(t for c in reply.tool_calls for t in (c.name, c.raw())))

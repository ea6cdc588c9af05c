"""What providers refuse, one rule a function: a request in, the provider's own words out, or None.

Each table is tried in order and the first violation answers, as a provider would. The tables are in
`rules_openai` and `rules_anthropic`; to teach the server another provider, write one more. Nothing here
does I/O or keeps state.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

# What both wires ask of a tool's name, and Anthropic of a call's id.
NAME_PATTERN = r"^[a-zA-Z0-9_-]+$"


@dataclass(frozen=True)
class Strictness:
    """Which optional rules hold.

    Attributes:
        one_system: OpenAI wire: one system message and first, as Qwen's and vLLM's templates want it.
        call_id_limit: OpenAI wire: longest tool-call id in characters (OpenAI itself: 40), or None.
        signed_thinking: Anthropic wire: thinking carries this server's signature, and the latest tool round
            keeps the thinking it was issued with.
        bound_thinking: The signature also covers every byte before the thinking.
        foreign_thinking: Let through thinking that another server signed, or nobody (recorded sessions).
    """

    one_system: bool = True
    call_id_limit: int | None = None
    signed_thinking: bool = True
    bound_thinking: bool = False
    foreign_thinking: bool = False


class Part(NamedTuple):
    """A content block, with the path by which errors name it."""

    path: str
    block: dict[str, Any]


class Merged(NamedTuple):
    """Consecutive Anthropic messages of one role, as the API reads them."""

    role: str
    path: str
    parts: list[Part]


@dataclass(frozen=True)
class Ask:
    """A request as the rules see it.

    `issued` maps a tool-call id to the thinking signatures it was answered with ("" for none); `model` is
    the one that is asked, where the address names it.
    """

    body: dict[str, Any]
    strict: Strictness = Strictness()
    issued: Mapping[str, Set[str]] = field(default_factory=dict)
    model: str = ""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The raw messages."""
        messages: list[dict[str, Any]] = self.body["messages"]
        return messages

    @cached_property
    def merged(self) -> list[Merged]:
        """Anthropic only: the messages with consecutive roles joined."""
        out: list[Merged] = []
        for i, message in enumerate(self.messages):
            path = f"messages.{i}"
            parts = [Part(f"{path}.content.{j}", b) for j, b in enumerate(blocks_of(message.get("content")))]
            if out and out[-1].role == message["role"]:
                out[-1].parts.extend(parts)
            else:
                out.append(Merged(message["role"], path, parts))
        return out


@dataclass(frozen=True)
class Rule:
    """One thing a provider enforces, and where that is known from."""

    name: str
    source: str
    check: Callable[[Ask], str | None]


def first_violation(rules: Sequence[Rule], ask: Ask) -> tuple[Rule, str] | None:
    """The first rule the request breaks, with the text the provider would answer."""
    for rule in rules:
        text = rule.check(ask)
        if text is not None:
            return rule, text
    return None


def well_formed(messages: Any) -> bool:
    """Whether `messages` is a list of objects with a role and content of a known type."""
    return isinstance(messages, list) and all(
        isinstance(m, dict) and "role" in m and isinstance(m.get("content"), (str, list, type(None)))
        for m in messages
    )


def blocks_of(content: Any) -> list[dict[str, Any]]:
    """Content as blocks: a string is one text block, None is none."""
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block if isinstance(block, dict) else {"type": "text", "text": str(block)} for block in content]

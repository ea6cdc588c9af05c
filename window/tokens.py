"""What a request weighs, in tokens: texts, messages and tool schemas, each counted once (E1).

The tokenizer is o200k_base (`encoding.py`); `count_tokens` remembers each message it has priced, so that a
step only pays for what is new.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from headwater.window.encoding import Tokenizer
from headwater.window.message_price import MessagePrice, compact

_FIELDS = attrgetter("__dict__")


class _Ref(weakref.ref[Any]):
    """A weak reference that knows under which key it is filed."""

    __slots__ = ("key",)
    key: int


class _Counted(NamedTuple):
    content: Any
    parts: int
    calls: Any
    tokens: int
    ref: _Ref


class _Tool(NamedTuple):
    ref: _Ref
    says: tuple[Any, ...]
    tokens: int


class TokenCounter:
    """Prices messages and tools by one tokenizer, and remembers what it has priced.

    A message is remembered by object, not by its `id`: two messages that share an id, or one whose content
    or calls were replaced, are counted afresh. Other edits in place are not noticed; messages are not edited
    here. Nothing is remembered while the tokenizer is still loading.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._messages: dict[int, _Counted] = {}
        self._tools: dict[int, _Tool] = {}

    def messages(self, messages: Sequence[BaseMessage]) -> int:
        """Tokens of a list of messages."""
        known = self._messages
        total = 0
        # This loop is what a step pays for a long session, so the lookups are done by `map`.
        for message, key, fields in zip(messages, map(id, messages), map(_FIELDS, messages), strict=True):
            found = known.get(key)
            if found is not None:
                content = fields["content"]
                # No liveness check: a dying message takes its entry along before its id can be used again.
                if found[0] is content and found[1] == len(content) and found[2] is fields.get("tool_calls"):
                    total += found[3]
                    continue
            total += self._price(message)
        return total

    def _price(self, message: BaseMessage) -> int:
        settled = self.tokenizer.settled
        tokens = MessagePrice(self.tokenizer.count).message(message)
        if settled:
            ref = self._ref(message, self._forget_message)
            content, calls = message.content, getattr(message, "tool_calls", None)
            self._messages[ref.key] = _Counted(content, len(content), calls, tokens, ref)
        return tokens

    def tools(self, tools: Sequence[Any]) -> int:
        """Tokens of tool definitions, as the compact JSON of their OpenAI form."""
        return sum(map(self._tool, tools))

    def _tool(self, tool: Any) -> int:
        if isinstance(tool, Mapping):
            return self.tokenizer.count(_definition(tool))
        says = (
            getattr(tool, "name", None),
            getattr(tool, "description", None),
            getattr(tool, "args_schema", None),
        )
        found = self._tools.get(id(tool))
        if found is not None and found.ref() is tool and found.says == says:
            return found.tokens
        settled = self.tokenizer.settled
        tokens = self.tokenizer.count(_definition(tool))
        if settled:
            ref = self._ref(tool, self._forget_tool)
            self._tools[ref.key] = _Tool(ref, says, tokens)
        return tokens

    @staticmethod
    def _ref(thing: Any, forget: Any) -> _Ref:
        ref = _Ref(thing, forget)
        ref.key = id(thing)
        return ref

    def _forget_message(self, ref: _Ref) -> None:
        # The key may belong to a newer object by now.
        found = self._messages.get(ref.key)
        if found is not None and found.ref is ref:
            self._messages.pop(ref.key, None)

    def _forget_tool(self, ref: _Ref) -> None:
        found = self._tools.get(ref.key)
        if found is not None and found.ref is ref:
            self._tools.pop(ref.key, None)


def _definition(tool: Any) -> str:
    from langchain_core.utils.function_calling import convert_to_openai_tool

    try:
        schema: Any = convert_to_openai_tool(tool)
    except ValueError:
        # A provider's own built-in tool is a dict without a schema; it goes out as it is.
        if not isinstance(tool, Mapping):
            raise
        schema = dict(tool)
    return compact(schema)


_COUNTER = TokenCounter(Tokenizer())


def count_text(text: str) -> int:
    """Tokens of a text.

    Exact by o200k_base once its ranks are loaded (but never under 0.6 a Han character, case 9), and linear in
    the length of the text. The first call loads the ranks: outside any event loop it waits for them (about
    0.5 s), inside one it answers with an estimate and never waits.

    Returns:
        0 for an empty text, at least 1 for any other. Over 4 million characters, a count by sample.
    """
    return _COUNTER.tokenizer.count(text)


def count_message(message: BaseMessage) -> int:
    """Tokens of one message as it is sent, at least 4; priced once an object."""
    return _COUNTER.messages((message,))


def count_tools(tools: Sequence[Any]) -> int:
    """Tokens of tool definitions (case 7).

    Args:
        tools: Tools, dicts in OpenAI's or Anthropic's form, functions, or pydantic classes.

    Raises:
        ValueError: langchain cannot turn a thing that is no dict into a tool.
    """
    return _COUNTER.tools(tools)


def count_tokens(messages: Sequence[BaseMessage], tools: Sequence[Any] = ()) -> int:
    """Tokens of a request: its messages and its tool definitions."""
    return _COUNTER.messages(messages) + _COUNTER.tools(tools)


def warm_up() -> None:
    """Start loading the ranks in the background, if nobody has; returns at once.

    The last fifth of a second of the load is one native call that holds the interpreter lock, so it is best
    started before an event loop runs.
    """
    _COUNTER.tokenizer.warm_up()


def ready() -> bool:
    """Whether counts are exact by now."""
    return _COUNTER.tokenizer.ready


def tokenizer() -> str:
    """What counts at present: `o200k_base`, or `estimate: ` and the reason."""
    return _COUNTER.tokenizer.name

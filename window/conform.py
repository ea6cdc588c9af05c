"""Whether a rendered request keeps the rules: the common ones, and those of a provider's row."""

import re
from collections.abc import Iterator, Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from headwater.window.images import images_in
from headwater.window.providers import Provider, Reasoning
from headwater.window.reasoning import SIGNATURES, reasoning_tokens


def violations(request: Sequence[BaseMessage], provider: Provider) -> list[str]:
    """What a provider would refuse in a request, in order; empty where it keeps every rule.

    Signatures are not looked into: whether a block is as it came only the provider can tell.
    """
    signed = _signed(request) if provider.signed_calls else ()
    return [*_roles(request, provider), *_arcs(request, provider), *_contents(request, provider), *signed]


def _roles(request: Sequence[BaseMessage], provider: Provider) -> Iterator[str]:
    said = list(request)
    if said and isinstance(said[0], SystemMessage):
        said = said[1:]
    if not said or not isinstance(said[0], HumanMessage):
        yield "the first message is not a user's"
    if said and isinstance(said[-1], AIMessage):
        yield "the last message is the assistant's"
    last: BaseMessage | None = None
    for at, message in enumerate(said):
        if isinstance(message, SystemMessage):
            yield f"system message at {at}, not first"
        if isinstance(message, HumanMessage):
            if provider.alternate and isinstance(last, HumanMessage):
                yield f"two user messages meet at {at}"
            if provider.bridge and isinstance(last, ToolMessage):
                yield f"a user follows a tool result at {at}"
        if isinstance(message, AIMessage) and isinstance(last, AIMessage):
            yield f"two assistant messages meet at {at}"
        last = message


def _arcs(request: Sequence[BaseMessage], provider: Provider) -> Iterator[str]:
    shape = re.compile(provider.ids.pattern)
    seen: set[str] = set()
    waiting: list[str] = []
    for at, message in enumerate(request):
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in waiting:
                yield f"the result at {at} answers no call of its arc"
            else:
                waiting.remove(message.tool_call_id)
            continue
        if waiting:
            yield f"calls {waiting!r} before {at} have no result"
        waiting = [str(call["id"]) for call in message.tool_calls] if isinstance(message, AIMessage) else []
        for call_id in waiting:
            if call_id in seen:
                yield f"the id {call_id!r} at {at} is used twice"
            if not shape.fullmatch(call_id):
                yield f"the id {call_id!r} at {at} has not the shape {provider.ids.pattern}"
            seen.add(call_id)
    if waiting:
        yield f"calls {waiting!r} at the end have no result"


def _contents(request: Sequence[BaseMessage], provider: Provider) -> Iterator[str]:
    for at, message in enumerate(request):
        calls = isinstance(message, AIMessage) and bool(message.tool_calls)
        if isinstance(message.content, str):
            if not message.content.strip() and not calls:
                yield f"the content at {at} is empty"
        elif not message.content and not calls:
            yield f"the content at {at} is empty"
        elif any(
            isinstance(b, dict) and b.get("type") == "text" and not b["text"].strip() for b in message.content
        ):
            yield f"a text block at {at} is empty"
        if isinstance(message, ToolMessage) and images_in(message) and not provider.tool_images:
            yield f"the tool result at {at} holds an image"
        if (
            provider.reasoning is Reasoning.ABSENT
            and isinstance(message, AIMessage)
            and reasoning_tokens(message)
        ):
            yield f"the assistant message at {at} holds reasoning"
    count = sum(map(images_in, request))
    if provider.images is not None and count > provider.images:
        yield f"{count} images where {provider.images} are allowed"


def _signed(request: Sequence[BaseMessage]) -> Iterator[str]:
    """What came with signatures still has them: one on its first call, none on a call that is not there."""
    for at, message in enumerate(request):
        table = message.additional_kwargs.get(SIGNATURES)
        if not table or not isinstance(message, AIMessage) or not message.tool_calls:
            continue
        asked = [call["id"] for call in message.tool_calls]
        if asked[0] not in table:
            yield f"the first call at {at} has lost its signature"
        if not table.keys() <= set(asked):
            yield f"signatures at {at} stand for no call"

"""The lab's OpenAI clients send what the plain ones send, byte for byte, and read the same answers."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from headwater.lab.provider import Reply, StrictProvider, ToolCall

WORDS = st.text(max_size=30)
PNG = "data:image/png;base64,iVBORw0KGgo="


@tool
def look(place: str, depth: int = 1) -> str:
    """Look at a place."""
    return f"{place} {depth}"


def plain(provider: StrictProvider, **given: Any) -> ChatOpenAI:
    """The same client without the detour."""
    made = provider.openai(**given)
    made.client, made.async_client = made.client.completions, made.async_client.completions
    return made


def log(text: str, place: str) -> list[BaseMessage]:
    return [
        SystemMessage(f"Be brief. {text}"),
        HumanMessage([{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": PNG}}]),
        AIMessage("", tool_calls=[{"name": "look", "args": {"place": place, "depth": 2}, "id": "call_1"}]),
        ToolMessage(f"found: {text}", tool_call_id="call_1"),
        AIMessage(f"so: {text}"),
        HumanMessage("go on"),
    ]


@settings(max_examples=25, deadline=None)
@given(WORDS, WORDS)
def test_any_request_goes_out_with_the_same_bytes(text: str, place: str) -> None:
    with StrictProvider(lambda _: Reply("seen"), keep_raw=True, lenient=True) as provider:
        for client in (plain(provider), provider.openai()):
            client.bind_tools([look]).invoke(log(text, place))
        first, second = (x.raw for x in provider.requests)
    assert first == second


@pytest.mark.parametrize(
    "given",
    [
        {"max_tokens": 50, "temperature": 0.2, "seed": 7, "stop": ["end"]},
        {"extra_body": {"cache_salt": "one"}, "model_kwargs": {"user": "someone"}},
        {"streaming": True},
    ],
)
def test_every_other_parameter_stands_where_it_stood(given: dict[str, Any]) -> None:
    reply = Reply("seen", (ToolCall("look", {"place": "here"}),))
    answers = []
    with StrictProvider(lambda _: reply, keep_raw=True) as provider:
        for client in (plain(provider, **given), provider.openai(**given)):
            answers.append(client.bind_tools([look], tool_choice="any").invoke(log("x", "there")))
        first, second = (x.raw for x in provider.requests)
    assert first == second
    assert [a.text for a in answers] == ["seen", "seen"]
    assert answers[0].tool_calls[0]["args"] == answers[1].tool_calls[0]["args"] == {"place": "here"}


async def test_the_async_client_sends_the_same_bytes() -> None:
    with StrictProvider(lambda _: Reply("seen"), keep_raw=True) as provider:
        for client in (plain(provider), provider.openai()):
            await client.bind_tools([look]).ainvoke(log("x", "there"))
        first, second = (x.raw for x in provider.requests)
    assert first == second

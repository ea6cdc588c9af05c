"""Messages survive the archive exactly: types, content lists, malformed calls, NULs, surrogates, sizes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from headwater.memory import codec

TEXT = st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF), max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
BLOCK = st.fixed_dictionaries({"type": st.sampled_from(["text", "thinking", "image", "other"]), "x": JSON})
CONTENT = TEXT | st.lists(TEXT | BLOCK, max_size=3)
EXTRA = st.dictionaries(TEXT, JSON, max_size=2)
CALL = st.fixed_dictionaries(
    {"name": TEXT, "args": st.dictionaries(TEXT, JSON, max_size=2), "id": st.none() | TEXT}
)
BAD_CALL = st.fixed_dictionaries({"name": TEXT, "args": TEXT, "id": TEXT, "error": st.none() | TEXT})


def back(message: BaseMessage) -> BaseMessage:
    record = codec.record(message)
    return codec.message(record.body, record.content)


@given(content=CONTENT, extra=EXTRA, calls=st.lists(CALL, max_size=2), bad=st.lists(BAD_CALL, max_size=2))
def test_m10_assistant_messages_come_back_exactly(
    content: Any, extra: dict[str, Any], calls: list[Any], bad: list[Any]
) -> None:
    extra.pop("tool_calls", None)
    before = AIMessage(content, additional_kwargs=extra, tool_calls=calls, invalid_tool_calls=bad, id="1")
    assert back(before) == before


@given(content=CONTENT, name=st.none() | TEXT, number=st.none() | TEXT)
def test_m10_human_and_tool_messages_come_back_exactly(
    content: Any, name: str | None, number: str | None
) -> None:
    for before in (
        HumanMessage(content, name=name, id=number),
        SystemMessage(content, name=name, id=number),
        ToolMessage(content, tool_call_id=number or "c", name=name, status="error", artifact={"rows": [1]}),
    ):
        assert back(before) == before


@pytest.mark.parametrize(
    "before",
    [
        ChatMessage(content="a", role="critic"),
        FunctionMessage(content="a", name="f"),
        AIMessageChunk(content="half", id="run-1"),
        AIMessage(
            [{"type": "thinking", "thinking": "…", "signature": "Eq/="}, {"type": "text", "text": "好"}],
            usage_metadata={"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
            response_metadata={"model": "m", "stop_reason": "max_tokens"},
        ),
        HumanMessage([{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}]),
        HumanMessage("a\ud83d\ude00b"),
        HumanMessage("nul \0 and lone \udcb2"),
        HumanMessage([{"type": "media", "data": b"\x00\xff"}]),
        HumanMessage("x" * 5_000_000),
    ],
    ids=lambda m: f"{type(m).__name__}-{str(m.content)[:12]!r}",
)
def test_m10_odd_messages_come_back_exactly(before: BaseMessage) -> None:
    after = back(before)
    assert after == before
    assert type(after) is type(before)


def test_what_json_cannot_hold_is_kept_as_its_text() -> None:
    message = ToolMessage("ok", tool_call_id="c", artifact={"when": {1, 2}})
    assert back(message).artifact == {"when": "{1, 2}"}  # type: ignore[attr-defined]


def test_key_tells_content_apart_and_overlooks_annotations() -> None:
    plain = AIMessage("a", id="1")
    annotated = AIMessage(
        "a", id="1", additional_kwargs={"headwater_tag": 3}, response_metadata={"model": "m"}
    )
    assert codec.record(plain).key == codec.record(annotated).key
    for other in (
        AIMessage("b", id="1"),
        AIMessage("a", id="2"),
        HumanMessage("a", id="1"),
        AIMessage("a", id="1", additional_kwargs={"reasoning_content": "r"}),
        AIMessage("a", id="1", tool_calls=[{"name": "f", "args": {}, "id": "c"}]),
    ):
        assert codec.record(other).key != codec.record(plain).key


def test_searchable_text_holds_calls_and_reasoning_but_no_images() -> None:
    message = AIMessage(
        [{"type": "text", "text": "shown"}, {"type": "image", "data": "iVBOhidden"}],
        tool_calls=[{"name": "grep", "args": {"pattern": "端口"}, "id": "c"}],
        additional_kwargs={"reasoning_content": "because"},
    )
    text = codec.searchable(message)
    assert all(part in text for part in ("shown", "grep", "端口", "because"))
    assert "iVBO" not in text

"""Random logs as they are found in the field: every oddity of a recorded session, none of its order."""

from typing import Any

from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

from headwater.window.marks import stamp
from headwater.window.reasoning import SIGNATURES

# Ids that repeat across turns, that no provider accepts, and that look like the ones we make up.
IDS = ["a", "b", "c", "call-3-0", "call-3-0-1", "functions.read:0", "x" * 70, "带", "", "toolu_01", "a b"]
LONG = "line one\nline two\n" * 60
TEXTS = ["", " \n", "ok", "你好，世界", "bad \udcb2 byte", LONG, "§3§ echoed", "e\u0301 😀" * 9]
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
THINKING = {"type": "thinking", "thinking": "Let me think. " * 20, "signature": "sig"}
EXTRAS: list[dict[str, Any]] = [{}, {}, {"reasoning_content": "because " * 30}, {"unknown": "key"}]

texts = st.sampled_from(TEXTS)
ids = st.sampled_from(IDS)
names = st.sampled_from(["read", "search", "functions.read", "", "写"])
blocks = st.one_of(texts.map(lambda text: {"type": "text", "text": text}), st.just(IMAGE), texts)
contents = st.one_of(texts, st.lists(blocks, max_size=3))
keys = st.sampled_from(["q", "path", "content"])
arguments = st.dictionaries(keys, st.one_of(texts, st.integers(), st.lists(texts, max_size=2)), max_size=2)


@st.composite
def assistants(draw: st.DrawFn) -> AIMessage:
    """Parallel calls, repeated ids, malformed calls, thinking, call blocks, or nothing at all."""
    calls = [
        ToolCall(name=draw(names), args=draw(arguments), id=draw(st.none() | ids), type="tool_call")
        for _ in range(draw(st.integers(0, 3)))
    ]
    bad = [
        InvalidToolCall(name="write", args=draw(texts), id=draw(ids), error="no", type="invalid_tool_call")
        for _ in range(draw(st.sampled_from([0, 0, 0, 1])))
    ]
    content: str | list[Any] = draw(texts)
    if draw(st.booleans()):
        uses = [{"type": "tool_use", "id": c["id"], "name": c["name"], "input": c["args"]} for c in calls]
        content = [THINKING, {"type": "text", "text": content}, *uses]
    extra = draw(st.sampled_from(EXTRAS))
    made = [call["id"] for call in [*calls, *bad]]
    if made and made[0] is not None and draw(st.booleans()):
        extra = {**extra, SIGNATURES: {made[0]: "c2ln"}}
    return AIMessage(content=content, tool_calls=calls, invalid_tool_calls=bad, additional_kwargs=extra)


@st.composite
def results(draw: st.DrawFn, answers: list[str]) -> ToolMessage:
    """A tool result: mostly to one of the ids given, else to a call that nobody made."""
    known = bool(answers) and draw(st.sampled_from([True, True, True, True, False]))
    call_id = draw(st.sampled_from(answers) if known else ids)
    status = draw(st.sampled_from(["success", "success", "error"]))
    return ToolMessage(content=draw(contents), tool_call_id=call_id, name="read", status=status)


@st.composite
def logs(draw: st.DrawFn, max_size: int = 14) -> list[BaseMessage]:
    """A numbered log with missing, late, duplicate and strange results, and roles in any order."""
    log: list[BaseMessage] = []
    asked: list[str] = []
    for tag in range(1, draw(st.integers(0, max_size)) + 1):
        kind = draw(st.sampled_from(["human", "ai", "ai", "tool", "tool", "tool", "system"]))
        message: BaseMessage
        if kind == "ai":
            message = draw(assistants())
            asked = [str(c["id"] or "") for c in [*message.tool_calls, *message.invalid_tool_calls]]
        elif kind == "tool":
            message = draw(results(asked))
        else:
            content: Any = draw(contents)
            message = HumanMessage(content=content) if kind == "human" else SystemMessage(content=content)
        log.append(stamp(message.model_copy(update={"id": f"m{tag}"}), tag))
    return log


def dumps(messages: list[BaseMessage]) -> list[dict[str, Any]]:
    """Messages as plain values, all fields."""
    return [message.model_dump() for message in messages]

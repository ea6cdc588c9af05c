"""Gemini's own format at the strict server: its rules bite, its real client is served, and a governed session
survives its overflow."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.memory import InMemorySaver

from headwater import WindowPolicy, build_agent
from headwater.lab.provider import Refuse, Reply, Request, StrictProvider, ToolCall
from headwater.lab.rules_gemini import GEMINI_RULES
from headwater.nodes.asking import arun, run
from headwater.nodes.historian import Answer, Ask, Telling, Told
from headwater.window.overflow import parse_overflow
from headwater.window.providers import ROWS, cap_name, provider_of
from tests.graph.world import calls_then, config, inspector, last_text, memory_in, of, says, watch
from tests.lab.test_provider_rules import post

PATH = "/v1beta/models/gemini-x:generateContent"
Body = dict[str, Any]
CALL = {"functionCall": {"name": "read", "args": {"path": "x"}}}
RESPONSE = {"functionResponse": {"name": "read", "response": {"output": "text"}}}
IMAGE = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}


def turn(role: str, *parts: Body) -> Body:
    return {"role": role, "parts": [copy.deepcopy(part) for part in parts]}


def good() -> Body:
    return {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": [{"name": "read", "parameters": {"type": "OBJECT"}}]}],
        "generationConfig": {"maxOutputTokens": 100},
        "contents": [
            turn("user", {"text": "读这两个文件"}, IMAGE),
            turn("model", {"text": "Both."}, CALL, CALL),
            turn("user", RESPONSE, RESPONSE),
            turn("model", {"text": "done"}),
            turn("user", {"text": "again"}),
        ],
    }


Harm = Callable[[list[Body], Body], Any]
CASES: list[tuple[str, Harm]] = [
    ("contents_given", lambda c, b: c.clear()),
    ("contents_given", lambda c, b: b.update(contents=["text"])),
    ("contents_given", lambda c, b: b.update(systemInstruction="Be brief.")),
    ("system_apart", lambda c, b: c.insert(0, turn("system", {"text": "Be brief."}))),
    ("roles_known", lambda c, b: c[3].update(role="assistant")),
    ("roles_known", lambda c, b: c[2].update(role="tool")),
    ("user_opens", lambda c, b: c.insert(0, turn("model", {"text": "Hello."}))),
    ("user_opens", lambda c, b: c.pop(0)),
    ("parts_filled", lambda c, b: c[4].update(parts=[])),
    ("parts_filled", lambda c, b: c[4]["parts"].append({"text": ""})),
    ("parts_filled", lambda c, b: c[4]["parts"].append({"thought": True})),
    ("parts_filled", lambda c, b: b["systemInstruction"].update(parts=[{"text": ""}])),
    ("calls_follow_user", lambda c, b: c.insert(1, turn("model", {"text": "First."}))),
    ("calls_answered", lambda c, b: c[2]["parts"].pop()),
    ("calls_answered", lambda c, b: c[2]["parts"].append(copy.deepcopy(RESPONSE))),
    ("calls_answered", lambda c, b: c.pop(2)),
    ("calls_answered", lambda c, b: c.append(turn("model", CALL))),
    ("responses_follow_calls", lambda c, b: c[4]["parts"].append(copy.deepcopy(RESPONSE))),
    ("responses_named", lambda c, b: c[2]["parts"][0]["functionResponse"].pop("name")),
]


@pytest.mark.parametrize(("rule", "harm"), CASES, ids=[f"{i}-{rule}" for i, (rule, _) in enumerate(CASES)])
def test_users_22_gemini_refuses_what_breaks_its_rule(rule: str, harm: Harm) -> None:
    bad = good()
    harm(bad["contents"], bad)
    with StrictProvider(lambda request: Reply("ok")) as provider:
        assert post(provider, PATH, good())[0] == 200
        status, answer = post(provider, PATH, bad)
        assert (status, provider.requests[-1].rule) == (400, rule)
    assert answer["error"]["code"] == 400
    assert answer["error"]["status"] == "INVALID_ARGUMENT"
    assert answer["error"]["message"] == provider.requests[-1].violation


def test_every_rule_of_gemini_has_a_case_and_a_source() -> None:
    # Those of the signatures have theirs in `test_gemini_signatures`.
    signatures = {"calls_signed", "signatures_hold"}
    assert {rule.name for rule in GEMINI_RULES} == {rule for rule, _ in CASES} | signatures
    assert all(rule.source for rule in GEMINI_RULES)


def test_fields_are_read_by_either_name() -> None:
    body: Body = {
        "system_instruction": {"parts": [{"text": "S"}]},
        "contents": [
            turn("user", {"text": "q"}),
            turn("model", {"function_call": {"name": "read", "args": {}}}),
            turn("user", {"text": "no response"}),
        ],
    }
    with StrictProvider(lambda request: Reply(request.system)) as provider:
        assert post(provider, PATH, body)[0] == 400
        assert provider.requests[-1].rule == "calls_answered"
        response = {"function_response": {"name": "read", "response": {}}}
        body["contents"] = [*body["contents"][:2], turn("user", response)]
        answer = post(provider, PATH, body)[1]
    assert answer["candidates"][0]["content"]["parts"] == [{"text": "S"}]


def test_input_and_output_have_limits_of_their_own() -> None:
    with StrictProvider(lambda request: Reply("ok"), window=2_000, max_output=1_990) as provider:
        body = good()
        body["generationConfig"]["maxOutputTokens"] = 1_990
        assert post(provider, PATH, body)[0] == 200
        body["generationConfig"]["maxOutputTokens"] = 1_991
        status, answer = post(provider, PATH, body)
        assert status == 400
        assert "the supported range is from 1 (inclusive) to 1991 (exclusive)" in answer["error"]["message"]
        body["contents"][0]["parts"][0]["text"] = "word " * 3_000
        del body["generationConfig"]
        status, answer = post(provider, PATH, body)
        counted = provider.requests[-1].input_tokens
    assert status == 400
    text = f"The input token count ({counted}) exceeds the maximum number of tokens allowed (2000)."
    assert answer["error"] == {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}


def read(path: str) -> str:
    """Read a file."""
    return path


async def say(model: Any, way: str, messages: list[BaseMessage]) -> AIMessage:
    if way == "ainvoke":
        answer: AIMessage = await model.ainvoke(messages)
        return answer
    if way == "invoke":
        whole: AIMessage = model.invoke(messages)
        return whole
    chunks = list(model.stream(messages)) if way == "stream" else [c async for c in model.astream(messages)]
    joined = chunks[0]
    for chunk in chunks[1:]:
        joined = joined + chunk
    assert isinstance(joined, AIMessageChunk)
    return joined


TEXT = "我先看一下 README，then I answer. " * 5


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
async def test_the_real_client_holds_a_tool_conversation(way: str) -> None:
    seen: list[Request] = []
    calls = (ToolCall("read", {"path": "文件.py"}), ToolCall("read", {"path": "b" * 200}))
    replies = iter([Reply(TEXT, calls, "Think first. " * 9), Reply("done")])

    def script(request: Request) -> Reply:
        seen.append(request)
        return next(replies)

    with StrictProvider(script) as provider:
        model = provider.gemini(purpose="main").bind_tools([read])
        log: list[BaseMessage] = [SystemMessage("S"), HumanMessage("go")]
        first = await say(model, way, log)
        assert str(first.text) == TEXT
        assert [call["args"] for call in first.tool_calls] == [call.args for call in calls]
        log += [first, *(ToolMessage(f"r{i}", tool_call_id=c["id"]) for i, c in enumerate(first.tool_calls))]
        second = await say(model, way, log)
        assert str(second.text) == "done"
        noted = provider.requests
        assert provider.violations == []
    assert [x.purpose for x in noted] == ["main", "main"]
    assert {x.stream for x in noted} == {way.endswith("stream")}
    assert {(x.wire, x.model) for x in noted} == {("gemini", "gemini-strict")}
    for answer, exchange in zip((first, second), noted, strict=True):
        usage = answer.usage_metadata
        assert usage is not None
        assert usage["input_tokens"] == exchange.input_tokens
        assert usage["output_tokens"] == exchange.output_tokens
        assert usage.get("input_token_details", {}).get("cache_read", 0) == exchange.cached_tokens
    assert noted[1].cached_tokens == noted[0].input_tokens
    assert (seen[1].system, seen[1].tools) == ("S", ["read"])
    assert [row["role"] for row in seen[1].messages] == ["user", "assistant", "tool", "tool"]
    assert [row["text"] for row in seen[1].messages[2:]] == ["r0", "r1"]


def test_a_call_that_is_no_object_is_said_to_be_malformed() -> None:
    with StrictProvider([Reply("", (ToolCall("read", '{"path": '),))]) as provider:
        answer = provider.gemini().invoke("go")
    assert answer.tool_calls == []
    assert answer.response_metadata["finish_reason"] == "MALFORMED_FUNCTION_CALL"


def test_m17_the_client_hands_on_what_an_overflow_says() -> None:
    with StrictProvider([], window=500) as provider:
        with pytest.raises(Exception, match="exceeds the maximum number of tokens allowed") as caught:
            provider.gemini().invoke("word " * 1_000)
        counted = provider.requests[-1].input_tokens
        assert provider.totals().requests == 1
    found = parse_overflow(caught.value)
    assert found is not None
    assert (found.limit, found.requested) == (500, counted)


def test_users_22_the_real_client_has_its_row() -> None:
    with StrictProvider([]) as provider:
        assert provider_of(provider.gemini()) is ROWS["gemini"]
        assert provider_of(provider.gemini().bind_tools([read])) is ROWS["gemini"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_g33_m17_a_governed_session_survives_an_overflow_with_one_lost_request(
    tmp_path: Path, stream: bool
) -> None:
    with StrictProvider(calls_then(60), window=12_000) as provider:
        agent = build_agent(
            provider.gemini(streaming=stream),
            tools=[inspector(300)],
            policy=WindowPolicy(window=24_000),
            memory=memory_in(tmp_path),
            checkpointer=InMemorySaver(),
        )
        events = watch(agent, says("Inspect all."), config())
        assert last_text(agent.get_state(config()).values) == "All done."
        totals = provider.totals()
    assert provider.violations == []
    assert totals.over_window == totals.refused == 1
    assert totals.requests >= 61
    assert len(of(events, "overflow")) == 1
    assert {x.stream for x in provider.requests} == {stream}


def test_g33_a_refusal_that_is_no_overflow_is_not_taken_for_one() -> None:
    refused = {"error": {"code": 429, "message": "Quota exceeded.", "status": "RESOURCE_EXHAUSTED"}}

    def script(request: Request) -> Reply:
        raise Refuse(429, refused)

    with StrictProvider(script) as provider:
        with pytest.raises(Exception, match="Quota exceeded") as caught:
            provider.gemini().invoke("go")
        assert provider.totals().requests == 1
    assert parse_overflow(caught.value) is None


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_a_summarizer_is_asked_with_the_cap_by_its_clients_name(asynchronous: bool) -> None:
    answers: list[Answer] = []

    def telling() -> Telling:
        answers.append((yield Ask([HumanMessage("Sum it up.")], 321, 60.0)))
        return Told([], [], 1, 0, [])

    with StrictProvider([Reply("A summary.")], keep_raw=True) as provider:
        models = [provider.gemini(purpose="summarizer")]
        _ = await arun(telling(), models) if asynchronous else run(telling(), models)
        sent = json.loads(provider.requests[-1].raw or b"")
    assert isinstance(answers[0], AIMessage)
    assert str(answers[0].text) == "A summary."
    assert sent["generationConfig"]["maxOutputTokens"] == 321


def test_the_cap_goes_by_the_client_and_not_by_the_model_behind() -> None:
    with StrictProvider([]) as provider:
        assert cap_name(provider.gemini().bind_tools([read])) == "max_output_tokens"
        assert provider_of(provider.openai("google/gemini-3-pro")) is ROWS["gemini-signed"]
        assert cap_name(provider.openai("google/gemini-3-pro")) == "max_tokens"

"""The strict provider bites: for every rule a request that breaks it, and one that does not."""

import copy
import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from headwater.lab.provider import Exchange, Reply, StrictProvider, ToolCall
from headwater.lab.rules_anthropic import ANTHROPIC_RULES
from headwater.lab.rules_openai import OPENAI_RULES
from headwater.lab.rules_thinking import sign

Body = dict[str, Any]
OPENAI, ANTHROPIC = "/v1/chat/completions", "/v1/messages"


def post(provider: StrictProvider, path: str, body: Any) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(provider.url.removeprefix("http://"), timeout=20)
    try:
        connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body))
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def openai_body() -> Body:
    call = {"id": "a", "type": "function", "function": {"name": "read", "arguments": '{"path": "x"}'}}
    other = {**call, "id": "b"}
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
    return {
        "model": "m",
        "tools": [{"type": "function", "function": {"name": "read", "parameters": parameters}}],
        "tool_choice": {"type": "function", "function": {"name": "read"}},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "读这两个文件"}]},
            {"role": "assistant", "content": None, "tool_calls": [call, other]},
            {"role": "tool", "tool_call_id": "b", "content": "two"},
            {"role": "tool", "tool_call_id": "a", "content": "one"},
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "again"},
            # The same id in a later arc is no fault: real sessions reuse them.
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": "one"},
        ],
    }


def anthropic_body() -> Body:
    def use(call_id: str) -> Body:
        return {"type": "tool_use", "id": call_id, "name": "read", "input": {"path": "x"}}

    def result(call_id: str) -> Body:
        return {"type": "tool_result", "tool_use_id": call_id, "content": "text"}

    return {
        "model": "m",
        "max_tokens": 100,
        "system": "Be brief.",
        "tools": [{"name": "read", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "tool", "name": "read"},
        "messages": [
            {"role": "user", "content": "读这两个文件"},
            {"role": "user", "content": "now"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": sign("hm")},
                    use("a"),
                    use("b"),
                ],
            },
            {"role": "user", "content": [result("b")]},
            {"role": "user", "content": [result("a"), {"type": "text", "text": "and then?"}]},
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "good"},
        ],
    }


class Case(NamedTuple):
    """A way to break a rule: change the good body in place; `says` must be in the refusal."""

    rule: str
    says: str
    harm: Callable[[Body], Any]


def _insert(at: int, **message: Any) -> Callable[[Body], Any]:
    return lambda body: body["messages"].insert(at, message)


def _set(index: int, **values: Any) -> Callable[[Body], Any]:
    return lambda body: body["messages"][index].update(values)


def _duplicate_call(body: Body) -> None:
    body["messages"][2]["tool_calls"][1]["id"] = "a"


OPENAI_CASES = [
    Case("messages_shape", "'messages'", lambda b: b.update(messages=[])),
    Case("messages_shape", "'messages'", lambda b: b.update(messages=[{"content": "x"}])),
    Case("messages_shape", "'messages'", lambda b: b.update(messages=[{"role": "user", "content": 5}])),
    Case("roles_known", "Invalid value: 'robot'", _set(1, role="robot")),
    Case(
        "one_system_first", "System message must be at the beginning", _insert(5, role="system", content="x")
    ),
    Case(
        "one_system_first", "System message must be at the beginning", _insert(1, role="system", content="x")
    ),
    Case("first_is_user", "roles must alternate", _insert(1, role="assistant", content="hello")),
    Case("first_is_user", "No user query", lambda b: b["messages"].__delitem__(slice(1, None))),
    Case("content_not_empty", "expected a string, got null", _set(5, content=None)),
    Case("content_not_empty", "got an empty string", _set(5, content="")),
    Case("content_not_empty", "messages[1].content", _set(1, content="")),
    Case("content_not_empty", "messages[1].content", _set(1, content=[{"type": "text", "text": ""}])),
    Case("content_not_empty", "messages[3].content", _set(3, content="")),
    Case(
        "images_from_user", "role 'tool'", _set(3, content=[{"type": "image_url", "image_url": {"url": "x"}}])
    ),
    Case("call_ids_unique", "Duplicate call_ids", _duplicate_call),
    Case("calls_answered", "did not have response messages: b", lambda b: b["messages"].pop(3)),
    Case("calls_answered", "messages: a (", lambda b: b["messages"].__setitem__(4, {**b["messages"][6]})),
    Case("results_paired", "preceeding message", _insert(4, role="user", content="wait")),
    Case("calls_answered", "did not have response messages: a", lambda b: b["messages"].pop()),
    Case("results_paired", "preceeding message", _insert(6, role="tool", tool_call_id="a", content="late")),
    Case("results_paired", "'z' not found", _set(3, tool_call_id="z")),
    Case("results_paired", "Duplicate value for 'tool_call_id' of 'b'", _set(4, tool_call_id="b")),
    Case(
        "arguments_are_json",
        "as JSON",
        lambda b: b["messages"][7]["tool_calls"][0]["function"].update(arguments='{"path": '),
    ),
    Case("tools_exist", "empty array", lambda b: b.update(tools=[])),
    Case("tools_exist", "'write' not found", lambda b: b["tool_choice"]["function"].update(name="write")),
    Case("tools_exist", "only allowed when 'tools'", lambda b: b.pop("tools")),
    Case("tools_exist", "does not match pattern", lambda b: b["tools"][0]["function"].update(name="a b")),
]


def _block(message: int, block: int, **values: Any) -> Callable[[Body], Any]:
    return lambda body: body["messages"][message]["content"][block].update(values)


def _result_late(body: Body) -> None:
    body["messages"][4]["content"].reverse()


def _repeat_arc(body: Body) -> None:
    body["messages"].extend(copy.deepcopy(body["messages"][2:5]))


ANTHROPIC_CASES = [
    Case("messages_shape", "at least one message", lambda b: b.update(messages=[])),
    Case("messages_shape", "valid list", lambda b: b.update(messages="hi")),
    Case("messages_shape", "max_tokens: Field required", lambda b: b.pop("max_tokens")),
    Case("messages_shape", "greater than or equal to 1", lambda b: b.update(max_tokens=0)),
    Case("roles_known", 'Unexpected role "system"', _insert(2, role="system", content="x")),
    Case("roles_known", "'user' or 'assistant'", _set(0, role="tool")),
    Case(
        "first_is_user", 'first message must use the "user" role', _insert(0, role="assistant", content="x")
    ),
    Case("content_not_empty", "must have non-empty content", _set(0, content="")),
    Case("content_not_empty", "must be non-empty", _set(0, content=[{"type": "text", "text": ""}])),
    Case("content_not_empty", "non-whitespace", _set(0, content=" \n")),
    Case("content_not_empty", "must be non-empty", _block(3, 0, content=[{"type": "text", "text": ""}])),
    Case("content_not_empty", "system:", lambda b: b.update(system="")),
    Case("no_trailing_space", "trailing whitespace", _insert(7, role="assistant", content="So: ")),
    Case("call_ids_unique", "String should match pattern", _block(2, 1, id="read:0")),
    Case("call_ids_unique", "must be unique", _block(2, 2, id="a")),
    Case("call_ids_unique", "must be unique", _repeat_arc),
    Case("call_ids_unique", "valid dictionary", _block(2, 1, input="{}")),
    Case("results_paired", "unexpected `tool_use_id`", _block(3, 0, tool_use_id="z")),
    Case("results_paired", "must have a single result", _block(3, 0, tool_use_id="a")),
    Case("calls_answered", "immediately after: b", lambda b: b["messages"].pop(3)),
    Case("calls_answered", "immediately after: a", _result_late),
    Case("calls_answered", "immediately after: a, b", lambda b: b["messages"].__delitem__(slice(3, None))),
    Case("tools_exist", "must be unique", lambda b: b["tools"].append(b["tools"][0])),
    Case("tools_exist", "'write' not found", lambda b: b["tool_choice"].update(name="write")),
    Case("tools_exist", "providing `tools`", lambda b: b.pop("tools")),
    Case("tools_exist", "String should match pattern", lambda b: b["tools"][0].update(name="a b")),
    Case("thinking_signed", "Invalid `signature`", _block(2, 0, thinking="hmm")),
    Case("thinking_signed", "Invalid `signature`", _block(2, 0, signature="")),
]


@pytest.fixture
def provider() -> Iterator[StrictProvider]:
    with StrictProvider(lambda request: Reply("ok")) as running:
        yield running


@pytest.mark.parametrize("case", OPENAI_CASES, ids=lambda c: c.rule)
def test_openai_rule_refuses_what_breaks_it(provider: StrictProvider, case: Case) -> None:
    bad = openai_body()
    case.harm(bad)
    status, answer = post(provider, OPENAI, bad)
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    assert case.says in answer["error"]["message"]
    assert provider.requests[0].rule == case.rule
    assert provider.violations == [answer["error"]["message"]]
    assert post(provider, OPENAI, openai_body())[0] == 200


@pytest.mark.parametrize("case", ANTHROPIC_CASES, ids=lambda c: c.rule)
def test_anthropic_rule_refuses_what_breaks_it(provider: StrictProvider, case: Case) -> None:
    bad = anthropic_body()
    case.harm(bad)
    status, answer = post(provider, ANTHROPIC, bad)
    assert (status, answer["type"], answer["error"]["type"]) == (400, "error", "invalid_request_error")
    assert case.says in answer["error"]["message"]
    assert provider.requests[0].rule == case.rule
    assert provider.violations == [answer["error"]["message"]]
    assert post(provider, ANTHROPIC, anthropic_body())[0] == 200


def test_every_rule_of_both_tables_has_a_case_and_a_source() -> None:
    # thinking_kept_in_round needs a reply of the server's and has its own tests below.
    assert {case.rule for case in OPENAI_CASES} == {rule.name for rule in OPENAI_RULES}
    assert {case.rule for case in ANTHROPIC_CASES} | {"thinking_kept_in_round"} == {
        rule.name for rule in ANTHROPIC_RULES
    }
    assert all(rule.source for rule in (*OPENAI_RULES, *ANTHROPIC_RULES))


def test_options_relax_and_tighten_openai_rules() -> None:
    two_systems = openai_body()
    two_systems["messages"].insert(5, {"role": "system", "content": "x"})
    with StrictProvider(lambda request: Reply("ok"), one_system=False, call_id_limit=40) as provider:
        assert post(provider, OPENAI, two_systems)[0] == 200
        long_id = openai_body()
        for message in long_id["messages"]:
            if message.get("tool_call_id") == "a":
                message["tool_call_id"] = "a" * 41
            for call in message.get("tool_calls") or []:
                call["id"] = "a" * 41 if call["id"] == "a" else call["id"]
        status, answer = post(provider, OPENAI, long_id)
        assert status == 400
        assert "maximum length 40" in answer["error"]["message"]


def _arc(provider: StrictProvider, opening: Body) -> tuple[Body, Body]:
    """The server's own thinking and call for `opening`, and the request that answers it."""
    status, answer = post(provider, ANTHROPIC, opening)
    assert status == 200
    call_id = next(block["id"] for block in answer["content"] if block["type"] == "tool_use")
    result = {"type": "tool_result", "tool_use_id": call_id, "content": "text"}
    following = copy.deepcopy(opening)
    following["messages"] += [
        {"role": "assistant", "content": answer["content"]},
        {"role": "user", "content": [result]},
    ]
    return answer, following


def _thinker(**options: Any) -> StrictProvider:
    call = ToolCall("read", {"path": "x"})
    return StrictProvider(lambda request: Reply("", (call,), "I should read it."), **options)


OPENING: Body = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "go"}]}


def test_thinking_of_the_latest_round_must_come_back() -> None:
    with _thinker() as provider:
        _, kept = _arc(provider, OPENING)
        assert post(provider, ANTHROPIC, kept)[0] == 200
        stripped = copy.deepcopy(kept)
        del stripped["messages"][1]["content"][0]
        status, answer = post(provider, ANTHROPIC, stripped)
        assert (status, provider.requests[-1].rule) == (400, "thinking_kept_in_round")
        assert "found `tool_use`" in answer["error"]["message"]
        # Once the round is over its thinking may go.
        stripped["messages"] += [
            {"role": "assistant", "content": "read"},
            {"role": "user", "content": "thanks"},
        ]
        assert post(provider, ANTHROPIC, stripped)[0] == 200


def test_thinking_of_the_latest_round_must_be_unchanged() -> None:
    with _thinker() as provider:
        _, changed = _arc(provider, OPENING)
        changed["messages"][1]["content"][0]["thinking"] += " Or not."
        status, answer = post(provider, ANTHROPIC, changed)
        assert status == 400
        assert "cannot be modified" in answer["error"]["message"]


def test_bound_thinking_refuses_any_earlier_edit_unless_it_is_stripped() -> None:
    with _thinker(bound_thinking=True) as provider:
        _, second = _arc(provider, OPENING)
        _, third = _arc(provider, second)
        assert post(provider, ANTHROPIC, third)[0] == 200
        edits: list[Callable[[Body], Any]] = [
            _set(0, content="go!"),
            lambda b: b.update(system="new"),
            _block(2, 0, content="[dropped]"),
        ]
        for edit in edits:
            edited = copy.deepcopy(third)
            edit(edited)
            assert post(provider, ANTHROPIC, edited)[0] == 400
            assert provider.requests[-1].rule == "thinking_signed"
        # A cache marker is no edit.
        marked = copy.deepcopy(third)
        marked["messages"][2]["content"][0]["cache_control"] = {"type": "ephemeral"}
        assert post(provider, ANTHROPIC, marked)[0] == 200
    with _thinker() as unbound:
        _, second = _arc(unbound, OPENING)
        second["messages"][0]["content"] = "go!"
        assert post(unbound, ANTHROPIC, second)[0] == 200


def test_foreign_thinking_passes_only_where_asked_for() -> None:
    body = anthropic_body()
    body["messages"][2]["content"][0] = {"type": "thinking", "thinking": "recorded", "signature": "EqRk"}
    unsigned = anthropic_body()
    del unsigned["messages"][2]["content"][0]["signature"]
    with StrictProvider(lambda request: Reply("ok"), foreign_thinking=True) as lenient:
        assert [post(lenient, ANTHROPIC, b)[0] for b in (body, unsigned)] == [200, 200]
        body["messages"][2]["content"][0]["signature"] = sign("other")
        assert post(lenient, ANTHROPIC, body)[0] == 400
    with StrictProvider(lambda request: Reply("ok"), signed_thinking=False) as off:
        assert post(off, ANTHROPIC, body)[0] == 200


def test_overflow_is_refused_in_the_providers_own_words() -> None:
    words = "word " * 400
    with StrictProvider(lambda request: Reply("ok"), window=300) as provider:
        size = {"model": "m", "messages": [{"role": "user", "content": words}]}
        status, answer = post(provider, OPENAI, size)
        seen = provider.requests[-1]
        assert (status, answer["error"]) == (
            400,
            {
                "message": "This model's maximum context length is 300 tokens. However, your messages "
                f"resulted in {seen.input_tokens} tokens. Please reduce the length of the messages.",
                "type": "invalid_request_error",
                "param": "messages",
                "code": "context_length_exceeded",
            },
        )
        assert (seen.over_window, seen.violation, seen.cached_tokens) == (True, None, 0)
        status, answer = post(provider, ANTHROPIC, {**size, "max_tokens": 10})
        tokens = provider.requests[-1].input_tokens
        assert answer == {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": f"prompt is too long: {tokens} tokens > 300 maximum",
            },
        }
        assert provider.totals().over_window == 2


def test_an_output_cap_counts_against_the_window_and_the_model() -> None:
    with StrictProvider(lambda request: Reply("ok"), window=300, max_output=400) as provider:
        body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
        tokens = 300 - _tokens(provider, body)
        assert post(provider, OPENAI, {**body, "max_completion_tokens": tokens})[0] == 200
        status, answer = post(provider, OPENAI, {**body, "max_tokens": tokens + 1})
        assert (status, answer["error"]["code"]) == (400, "context_length_exceeded")
        assert f"you requested 301 tokens ({300 - tokens} in the messages, {tokens + 1} in" in str(answer)
        assert post(provider, ANTHROPIC, {**body, "max_tokens": tokens})[0] == 200
        status, answer = post(provider, ANTHROPIC, {**body, "max_tokens": tokens + 1})
        assert answer["error"]["message"] == (
            f"input length and `max_tokens` exceed context limit: {300 - tokens} + {tokens + 1} > 300, "
            "decrease input length or `max_tokens` and try again"
        )
        for path in (OPENAI, ANTHROPIC):
            status, answer = post(provider, path, {**body, "max_tokens": 401})
            assert (status, "401" in answer["error"]["message"]) == (400, True)
            assert provider.requests[-1].rule == "cap_within_model"


def _tokens(provider: StrictProvider, body: Body) -> int:
    assert post(provider, OPENAI, body)[0] == 200
    last: Exchange = provider.requests[-1]
    return last.input_tokens


@pytest.mark.parametrize("path", [OPENAI, ANTHROPIC])
def test_a_body_that_is_no_json_object_is_a_violation(provider: StrictProvider, path: str) -> None:
    for raw in (b"{", b"[]", b"\xff"):
        assert post(provider, path, raw)[0] == 400
        assert provider.requests[-1].rule == "body_is_json"

"""The table's rows at the strict server: what is rendered for a provider its real client may send there."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage

from headwater.lab.provider import Reply, StrictProvider, ToolCall
from headwater.lab.rules_dialects import DEEPSEEK_RULES, MISTRAL_RULES, VLLM_RULES
from headwater.lab.rules_openai import OPENAI_RULES
from headwater.window.frame import Frame
from headwater.window.providers import ROWS, Provider, provider_of
from headwater.window.render import Texts, render
from tests.lab.test_provider_rules import post
from tests.window.histories import logs
from tests.window.test_providers import frames, heads

Body = dict[str, Any]
CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "read", "arguments": "{}"}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


def good() -> Body:
    return {
        "model": "m",
        "messages": [
            {"role": "system", "content": "S"},
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "", "tool_calls": [copy.deepcopy(CALL)]},
            {"role": "tool", "tool_call_id": "abcdefghi", "content": "r"},
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "next"},
        ],
    }


def _rename(body: Body) -> None:
    body["messages"][2]["tool_calls"][0]["id"] = body["messages"][3]["tool_call_id"] = "call_1"


def _tail(body: Body) -> None:
    """An answer, then a round whose result a user follows: the roles alternate, the user is out of place."""
    call, result = copy.deepcopy(body["messages"][2]), copy.deepcopy(body["messages"][3])
    body["messages"][4:] = [
        {"role": "assistant", "content": "done"},
        call,
        result,
        {"role": "user", "content": "x"},
    ]


Harm = Callable[[Body], Any]
CASES: list[tuple[str, str, Harm]] = [
    ("mistral", "user_not_after_tool", lambda b: b["messages"].pop(4)),
    ("mistral", "ids_of_nine", _rename),
    ("mistral", "reasoning_absent", lambda b: b["messages"][4].update(reasoning_content="hm")),
    ("mistral", "images_few", lambda b: b["messages"][5].update(content=[IMAGE] * 9)),
    ("vllm", "roles_alternate", lambda b: b["messages"].insert(5, {"role": "user", "content": "x"})),
    ("vllm", "user_not_after_tool", _tail),
    ("vllm", "ids_of_nine", _rename),
    ("vllm", "reasoning_absent", lambda b: b["messages"][4].update(reasoning_content="hm")),
    ("deepseek", "tool_text", lambda b: b["messages"][3].update(content=[{"type": "audio"}])),
]


@pytest.mark.parametrize(
    ("dialect", "rule", "harm"), CASES, ids=[f"{dialect}-{rule}" for dialect, rule, _ in CASES]
)
def test_users_22_a_dialect_refuses_what_breaks_its_rule(dialect: str, rule: str, harm: Harm) -> None:
    bad = good()
    harm(bad)
    with StrictProvider(lambda request: Reply("ok")) as provider:
        path = f"/{dialect}/v1/chat/completions"
        assert post(provider, path, good())[0] == 200
        assert post(provider, path, bad)[0] == 400
        assert provider.requests[-1].rule == rule


def test_case_34_deepseek_wants_the_reasoning_of_a_tool_round_back() -> None:
    with StrictProvider(lambda request: Reply("", (ToolCall("read", {}),), "I should.")) as provider:
        path = "/deepseek/v1/chat/completions"
        opening = {"model": "m", "messages": [{"role": "user", "content": "go"}]}
        _, answer = post(provider, path, opening)
        message = answer["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "r"}
        kept = {"model": "m", "messages": [*opening["messages"], message, result]}
        assert post(provider, path, kept)[0] == 200
        del message["reasoning_content"]
        assert post(provider, path, kept)[0] == 400
        assert provider.requests[-1].rule == "reasoning_kept"


def test_every_rule_of_the_dialects_has_a_case_and_a_source() -> None:
    own = {"mistral": MISTRAL_RULES, "vllm": VLLM_RULES, "deepseek": DEEPSEEK_RULES}
    for name, rules in own.items():
        added = [rule for rule in rules if rule not in OPENAI_RULES]
        covered = {rule for dialect, rule, _ in CASES if dialect == name} | {"reasoning_kept"}
        assert {rule.name for rule in added} <= covered
        assert all(rule.source for rule in added)


@pytest.fixture(scope="module")
def lenient() -> Any:
    with StrictProvider(
        lambda request: Reply("ok"), window=10_000_000, max_output=10**6, foreign_thinking=True
    ) as provider:
        yield provider


CLIENTS = {
    "openai": lambda provider: provider.openai(),
    "anthropic": lambda provider: provider.anthropic(),
    "mistral": lambda provider: provider.mistral(),
    "vllm": lambda provider: provider.vllm(),
    "deepseek": lambda provider: provider.deepseek(),
    "gemini": lambda provider: provider.gemini(),
}


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_users_21_22_random_histories_under_random_edits_pass_the_strict_server(
    lenient: StrictProvider, name: str
) -> None:
    model: BaseChatModel = CLIENTS[name](lenient)
    row = ROWS[name]
    if name not in ("openai", "vllm"):
        assert provider_of(model) is row

    @settings(max_examples=25, deadline=None, derandomize=True)
    @given(logs(), frames, heads)
    def sent(log: list[BaseMessage], frame: Frame, texts: Texts) -> None:
        check(model, row, log, frame, texts)

    sent()
    assert lenient.violations == []


def check(model: BaseChatModel, row: Provider, log: list[BaseMessage], frame: Frame, texts: Texts) -> None:
    model.invoke(render(frame, log, texts, row))

"""Window sizes: one table, read by name as models are really named, and where each number comes from."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_openai import ChatOpenAI

from headwater.window.sizes import WindowError, WindowSize, families, max_output_of, model_name, window_of
from headwater.window.sizes_table import DEFAULT_WINDOW, FAMILIES

NAMES = [
    ("claude-opus-4-6", 1_000_000),
    ("claude-opus-5-5", 1_000_000),
    ("claude-sonnet-4-6", 1_000_000),
    ("claude-sonnet-5", 1_000_000),
    ("claude-fable-5-1", 1_000_000),
    ("claude-mythos-5", 1_000_000),
    ("claude-haiku-5-5", 1_000_000),
    ("claude-opus-4-5", 200_000),
    ("claude-sonnet-4-5-20250929", 200_000),
    ("claude-haiku-4-5", 200_000),
    ("claude-sonnet-4-20250514", 200_000),
    ("claude-3-5-sonnet-20241022", 200_000),
    ("gpt-5", 272_000),
    ("gpt-5.3-codex", 272_000),
    ("gpt-5.4", 1_050_000),
    ("gpt-5.5-pro", 1_050_000),
    ("gpt-5.6", 922_000),
    ("gpt-6.1-sol", 922_000),
    ("gpt-4.1-mini", 1_047_576),
    ("gpt-4o", 128_000),
    ("gpt-4o-mini-2024-07-18", 128_000),
    ("o1", 200_000),
    ("o3-mini", 200_000),
    ("o4-mini", 200_000),
    ("gpt-4", 8_192),
    ("gpt-4-0613", 8_192),
    ("gpt-4-turbo-2024-04-09", 128_000),
    ("gpt-4-1106-preview", 128_000),
    ("gpt-oss-120b", 131_072),
    ("gemini-2.5-pro", 1_048_576),
    ("gemini-3-pro-preview", 1_048_576),
    ("gemini-4-flash", 1_048_576),
    ("grok-4.20", 1_000_000),
    ("grok-4.3", 1_000_000),
    ("grok-4.6", 500_000),
    ("grok-code-fast-1", 256_000),
    ("deepseek-v4", 1_000_000),
    ("deepseek-chat", 131_072),
    ("deepseek-reasoner", 131_072),
    ("deepseek-v3.2", 163_840),
    ("kimi-k2.5", 262_144),
    ("kimi-k3", 1_048_576),
    ("glm-4.5", 128_000),
    ("glm-4.6", 200_000),
    ("glm-5.1", 200_000),
    ("glm-5.3", 1_000_000),
    ("qwen3.5-plus", 991_808),
    ("qwen3-max", 258_048),
    ("qwen3-coder-plus", 997_952),
    ("qwen-max", 30_720),
    ("minimax-m2", 200_000),
    ("MiniMax-M2.1", 1_000_000),
    ("mistral-large-3", 262_144),
    ("mistral-large-4", 1_000_000),
    ("mistral-medium-2508", 262_144),
    ("doubao-seed-2-0-pro", 256_000),
    ("doubao-seed-2.1-0915", 1_024_000),
    ("command-a-03-2025", 256_000),
    ("mimo-v2.6", 1_048_576),
]


@pytest.mark.parametrize(("name", "tokens"), NAMES)
def test_m23_window_by_name(name: str, tokens: int) -> None:
    for spelling in (name, name.upper(), f"openai:{name}", f"some/{name}", f"models/{name}", f" {name} "):
        size = window_of(spelling)
        assert size.tokens == tokens, spelling
        assert size.source.startswith("name:")


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("claude-sonnet-4-5-1m", 1_000_000),
        ("claude-sonnet-4-5[1m]", 1_000_000),
        ("anthropic:claude-opus-4-5-1m", 1_000_000),
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", 200_000),
        ("anthropic/claude-sonnet-4.5", 200_000),
        ("claude-opus-4-5@20251101", 200_000),
        ("ft:gpt-4o-mini-2024-07-18:org::id", 128_000),
        ("moonshot-v1-32k", 32_768),
        ("gpt-4-32k-0613", 32_768),
        ("accounts/fireworks/models/deepseek-v3p2", 163_840),
    ],
)
def test_m23_names_as_they_are_written(name: str, tokens: int) -> None:
    assert window_of(name).tokens == tokens


@pytest.mark.parametrize("name", ["", "my-model", "gpt-40", "o12", "xgpt-4o", "custom:1m", "模型"])
def test_m23_unknown_models_get_the_floor(name: str) -> None:
    assert window_of(name) == WindowSize(DEFAULT_WINDOW, "default") == (128_000, "default")


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.pattern)
def test_m24_every_family_answers_with_its_own_number(family: Any) -> None:
    name = family.pattern.replace("*", "any")
    assert window_of(name) == WindowSize(family.tokens, f"name:{family.pattern}")
    assert (family.pattern, family.tokens) in families()


def test_m24_one_table_without_double_entries() -> None:
    patterns = [pattern for pattern, _ in families()]
    assert len(set(patterns)) == len(patterns) == len(FAMILIES)
    assert all(1_024 <= tokens <= 10_000_000 for _, tokens in families())
    assert all(family.output is None or 0 < family.output <= family.tokens for family in FAMILIES)


def test_m24_gpt_4_is_8k_in_the_only_copy() -> None:
    assert dict(families())["gpt-4"] == 8_192


def chat(profile: Any, name: str = "gpt-4o") -> ChatOpenAI:
    model = ChatOpenAI(model=name, api_key="none")  # type: ignore[arg-type]
    model.profile = profile
    return model


def test_m23_order_explicit_learned_profile_name() -> None:
    model = chat({"max_input_tokens": 50_000, "max_output_tokens": 5_000})
    assert window_of(model, explicit=9_000, learned=40_000) == (9_000, "explicit")
    assert window_of(model, learned=40_000) == (40_000, "learned")
    assert window_of(model) == (50_000, "profile")
    assert max_output_of(model) == 5_000
    assert window_of("gpt-4o", learned=40_000) == (40_000, "learned")


@pytest.mark.parametrize("profile", [None, {}, {"max_input_tokens": 0}, {"max_input_tokens": None}])
def test_m23_an_empty_profile_is_unknown(profile: Any) -> None:
    assert window_of(chat(profile)) == (128_000, "name:gpt-4o")
    assert max_output_of(chat(profile)) == 16_384


def test_m23_real_clients_and_bindings() -> None:
    claude = ChatAnthropic(model="claude-opus-4-5", api_key="none")  # type: ignore[call-arg, arg-type]
    assert window_of(claude) == (200_000, "profile")
    assert model_name(claude) == "claude-opus-4-5"
    bound = chat(None).bind_tools([]).with_config({"tags": ["a"]})
    assert window_of(bound) == (128_000, "name:gpt-4o")
    assert model_name(bound) == "gpt-4o"
    assert window_of(FakeListChatModel(responses=["a"])) == (128_000, "default")


@pytest.mark.parametrize("explicit", [0, -1, True, 1.5, "32k"])
def test_m23_an_impossible_window_is_refused(explicit: Any) -> None:
    with pytest.raises(WindowError, match="positive number of tokens"):
        window_of("gpt-4o", explicit=explicit)


@pytest.mark.parametrize("learned", [0, -5, 1_023, 10_000_001])
def test_g33_a_learned_limit_out_of_range_is_ignored(learned: int) -> None:
    assert window_of("gpt-4o", learned=learned) == (128_000, "name:gpt-4o")


def test_m23_output_limits_by_name() -> None:
    assert max_output_of("claude-opus-4-6") == 128_000
    assert max_output_of("claude-haiku-4-5") == 64_000
    assert max_output_of("no-such-model") is None


@given(st.text(max_size=60))
def test_m23_any_name_has_a_window(name: str) -> None:
    assert window_of(name).tokens >= 1_024

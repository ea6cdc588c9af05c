"""The table of provider rules: every request that is rendered for a row keeps the row's rules."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage

from headwater.window.conform import violations
from headwater.window.frame import Edit, Frame
from headwater.window.marks import stamp
from headwater.window.providers import DEFAULT, ROWS, TABLE, Provider, Reasoning, UnknownProvider, provider_of
from headwater.window.render import Renderer, Texts, render
from headwater.window.view import View
from tests.window.histories import IMAGE, THINKING, dumps, logs

HEAD = Texts(system="You are an agent.", baseline="<m0>", delta="<m1>")
rows = st.sampled_from(TABLE)
heads = st.sampled_from([Texts(), Texts(system="S"), HEAD, Texts(baseline="<m0>")])
edits = st.dictionaries(st.integers(1, 18), st.sampled_from(list(Edit)).map(str), max_size=8)
hints = st.dictionaries(st.integers(1, 18), st.just("recall: x"), max_size=2)
frames = st.builds(Frame, boundary=st.integers(0, 8), edits=edits, hints=hints)
each = pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)


def number(*messages: BaseMessage) -> list[BaseMessage]:
    return [stamp(message, tag) for tag, message in enumerate(messages, 1)]


def ai(*ids: str, **more: Any) -> AIMessage:
    return AIMessage(content="", tool_calls=[ToolCall(name="read", args={}, id=i) for i in ids], **more)


@settings(max_examples=400, deadline=None)
@given(logs(max_size=18), frames, heads, rows)
def test_users_21_22_every_request_keeps_every_rule_of_its_provider(
    log: list[BaseMessage], frame: Frame, texts: Texts, row: Provider
) -> None:
    assert violations(render(frame, log, texts, row), row) == []


@settings(max_examples=100, deadline=None)
@given(logs(max_size=18), frames, heads, rows)
def test_g10_the_view_of_a_provider_gives_the_bytes_of_render(
    log: list[BaseMessage], frame: Frame, texts: Texts, row: Provider
) -> None:
    view = View(row)
    for read in range(1, len(log) + 1):
        view.sync(frame, log[:read], texts)
    if log:
        assert dumps(view.request()) == dumps(render(frame, log, texts, row))


@settings(max_examples=150, deadline=None)
@given(logs(max_size=18), frames, heads, rows)
def test_g10_a_growing_log_gives_a_growing_request_at_every_provider(
    log: list[BaseMessage], frame: Frame, texts: Texts, row: Provider
) -> None:
    whole = dumps(render(frame, log, texts, row))
    renderer = Renderer(frame, has_head=bool(texts.baseline or texts.delta), provider=row)
    for read, message in enumerate(log, 1):
        renderer.feed(message)
        if renderer.shown and not renderer.finish():
            earlier = dumps(render(frame, log[:read], texts, row))
            assert whole[: len(earlier)] == earlier


def test_every_rule_that_departs_from_the_default_names_its_source() -> None:
    for row in TABLE:
        for name in ("alternate", "bridge", "ids", "reasoning", "tool_images", "images", "signed_calls"):
            default = getattr(Provider("x"), name)
            if getattr(row, name) != default:
                assert row.sources.get(name), f"{row.name}.{name}"


@each
def test_ids_that_repeat_across_turns_are_paired_by_arc(row: Provider) -> None:
    log = number(
        HumanMessage("q"), ai("x"), ToolMessage("one", tool_call_id="x"), HumanMessage("again"),
        ai("x", "x"), ToolMessage("two", tool_call_id="x"), ToolMessage("three", tool_call_id="x"),
    )  # fmt: skip
    request = render(Frame(), log, provider=row)
    assert violations(request, row) == []
    results = {m.tool_call_id: m.text for m in request if isinstance(m, ToolMessage)}
    asked = [call["id"] for m in request if isinstance(m, AIMessage) for call in m.tool_calls]
    assert [results[str(i)].split()[-1] for i in asked] == ["one", "two", "three"]


@each
def test_case_32_images_beyond_the_limit_are_the_oldest(row: Provider) -> None:
    log = number(*[HumanMessage([{"type": "text", "text": f"picture {i}"}, IMAGE]) for i in range(30)])
    request = render(Frame(), log, provider=row)
    assert violations(request, row) == []
    newest = [m for m in request if isinstance(m, HumanMessage)][-1]
    assert IMAGE in newest.content


@pytest.mark.parametrize(
    ("rows", "kept"), [(("anthropic", "anthropic-bound"), True), (("mistral", "vllm"), False)]
)
def test_users_34_signed_thinking_goes_back_as_it_came_or_not_at_all(
    rows: tuple[str, ...], kept: bool
) -> None:
    message = AIMessage(content=[THINKING, {"type": "text", "text": "so"}], tool_calls=ai("a").tool_calls)
    for name in rows:
        request = render(
            Frame(),
            number(HumanMessage("q"), message, ToolMessage("r", tool_call_id="a")),
            provider=ROWS[name],
        )
        assert (THINKING in request[1].content) is kept


def test_case_34_reasoning_of_a_message_with_calls_is_never_stripped_where_it_must_be_kept() -> None:
    message = ai("a", additional_kwargs={"reasoning_content": "because"})
    log = number(HumanMessage("q"), message, ToolMessage("r", tool_call_id="a"))
    for edit in (None, Edit.STRIP, Edit.OFFLOAD):
        frame = Frame(edits={2: str(edit)} if edit else {})
        shown = render(frame, log, provider=ROWS["deepseek"])[1]
        assert shown.additional_kwargs == {"reasoning_content": "because"}


def test_users_34_a_closed_round_ends_in_a_word_of_the_users_for_good() -> None:
    row = ROWS["anthropic-bound"]
    message = AIMessage(content=[THINKING], tool_calls=ai("a").tool_calls)
    log = number(HumanMessage("q"), message, ToolMessage("r", tool_call_id="a"), AIMessage("done"))
    frame = Frame(edits={2: str(Edit.CLOSE)})
    during, later = render(frame, log[:3], provider=row), render(frame, log, provider=row)
    assert [m.type for m in during] == ["human", "ai", "tool", "ai", "human"]
    assert THINKING not in during[1].content
    assert dumps(later)[: len(during)] == dumps(during)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("mistralai:mistral-large-latest", "mistral"),
        ("openai:gpt-6", "openai"),
        ("claude-sonnet-5-1", "anthropic-bound"),
        ("claude-opus-4-20250514", "anthropic"),
        ("google_genai:gemini-2.5-pro", "gemini"),
        ("google_genai:gemini-3-pro", "gemini-signed"),
        ("google/gemini-3.1-flash", "gemini-signed"),
        ("deepseek-chat", "deepseek"),
        ("a-model-of-my-own", DEFAULT.name),
    ],
)
def test_a_model_finds_its_row(model: str, name: str) -> None:
    assert provider_of(model).name == name


def test_a_row_that_is_set_wins_and_an_unknown_one_is_refused() -> None:
    assert provider_of("gpt-6", explicit="vllm").reasoning is Reasoning.ABSENT
    with pytest.raises(UnknownProvider, match="'nobody' has no row"):
        provider_of("gpt-6", explicit="nobody")

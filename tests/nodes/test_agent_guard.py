"""The agent node's overflow guard, call by call: what it sends, what it takes out, and when it gives up."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.graph import START, StateGraph

from headwater.nodes.agent import OverflowUnresolved, exchange
from headwater.nodes.engine import Engine
from headwater.nodes.state import State
from headwater.window.calibration import MAX_SCALE, MIN_SCALE
from headwater.window.face import text_of
from headwater.window.frame import Frame
from headwater.window.policy import WindowPolicy
from headwater.window.tokens import count_tokens
from tests.nodes.bench import CONFIG, engine, session, state_of

Reply = Callable[[int, list[BaseMessage]], AIMessage | Exception]
TOO_LONG = ValueError(
    "This model's maximum context length is 4000 tokens. However, you requested 9000 tokens."
)
NO_NUMBERS = ValueError("prompt is too long")


def step(made: Engine, state: State, reply: Reply) -> tuple[dict[str, Any], list[list[BaseMessage]]]:
    """Drive one step; what it returns, and every request it sent."""
    dialogue = exchange(made, state, CONFIG)
    sent = [next(dialogue)]
    try:
        while True:
            sent.append(dialogue.send(reply(len(sent) - 1, sent[-1])))
    except StopIteration as stop:
        return stop.value, sent


def weigh(request: list[BaseMessage]) -> int:
    return count_tokens(request)


def large(tmp_path: Path) -> tuple[Engine, State]:
    made = engine(tmp_path, WindowPolicy(window=64_000))
    return made, state_of(made, session(8, 600))


def test_e10_an_answer_ends_the_step_with_one_request(tmp_path: Path) -> None:
    made, state = large(tmp_path)
    update, sent = step(made, state, lambda n, r: AIMessage("ok"))
    assert len(sent) == 1
    assert [m.content for m in update["messages"]] == ["ok"]
    assert update["edits"] == {}


@pytest.mark.parametrize(
    ("answered", "planned", "kind"),
    [
        ("the same", "defer", "defer"),
        ("the same", "execute", "defer"),
        ("another", "defer", "execute"),
        ("another", "execute", "execute"),
        ("another", "fold", "fold"),
        ("", "defer", "defer"),
    ],
)
def test_g10_g13_a_pass_is_what_has_moved_and_not_what_was_tried(
    tmp_path: Path, answered: str, planned: str, kind: str
) -> None:
    """G10: a remedy that found nothing leaves a DEFER; what moved unplanned (an `undo`) is none."""
    made, state = large(tmp_path)
    revision = str(state["frame"]["revision"])
    state["frame"]["answered"] = revision if answered == "the same" else answered
    state["step"] = {"pass": planned, "tried": ["offload", "reclaim"]}
    graph = StateGraph(State)
    graph.add_node("agent", lambda state: step(made, state, lambda n, r: AIMessage("ok"))[0])
    graph.add_edge(START, "agent")
    stream = graph.compile().stream(state, stream_mode=["custom", "values"])
    told: list[tuple[str, Any]] = list(stream)  # type: ignore[arg-type]
    asked = [event for mode, event in told if mode == "custom" and event["type"] == "headwater.request"]
    assert [event["kind"] for event in asked] == [kind]
    assert told[-1][1]["frame"]["answered"] == revision


@pytest.mark.parametrize("error", [TOO_LONG, NO_NUMBERS])
def test_m17_m19_m20_a_refusal_is_answered_with_less_and_never_with_the_same(
    tmp_path: Path, error: ValueError
) -> None:
    made, state = large(tmp_path)
    update, sent = step(made, state, lambda n, r: error if n < 2 else AIMessage("ok"))
    sizes = [weigh(r) for r in sent]
    assert sizes == sorted(set(sizes), reverse=True), "M19: each request is smaller than the one refused"
    assert update["edits"]
    assert update["messages"][0].content == "ok"


def test_m20_with_stated_numbers_one_retry_is_enough(tmp_path: Path) -> None:
    """M18, M20: the limit and the size that the provider states say how much must go."""
    made, state = large(tmp_path)
    with made.view(Frame.from_state(state["frame"]), state["messages"]) as view:
        tokens = view.tokens
    error = ValueError(f"prompt is too long: {tokens} tokens > {tokens // 2} maximum")
    update, sent = step(made, state, lambda n, r: error if weigh(r) > tokens // 2 else AIMessage("ok"))
    assert len(sent) == 2
    assert update["messages"][0].content == "ok"


def test_m19_it_gives_up_after_four_requests_at_the_most(tmp_path: Path) -> None:
    made, state = large(tmp_path)
    sent: list[str] = []

    def refuse(number: int, request: list[BaseMessage]) -> Exception:
        sent.append("\n".join(map(text_of, request)))
        return ValueError("prompt is too long: 210000 tokens > 200000 maximum")

    with pytest.raises(OverflowUnresolved, match="nothing is lost"):
        step(made, state, refuse)
    assert 2 <= len(sent) <= 4
    assert len(set(sent)) == len(sent)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("Rate limit reached: tokens per minute limit 30000, requested 40000"),
        ValueError("Invalid value for temperature"),
        RuntimeError("connection reset"),
    ],
)
def test_m21_m22_any_other_error_is_raised_as_it_is(tmp_path: Path, error: Exception) -> None:
    made, state = large(tmp_path)
    with pytest.raises(type(error)) as raised:
        step(made, state, lambda n, r: error)
    assert raised.value is error


@pytest.mark.parametrize(
    ("ratio", "low", "high"), [(1.5, 1.45, 1.55), (9.0, MAX_SCALE, MAX_SCALE), (0.1, 0.9, 1.0)]
)
def test_m17_calibration_is_up_at_once_down_slowly_and_bounded(
    tmp_path: Path, ratio: float, low: float, high: float
) -> None:
    made, state = large(tmp_path)
    with made.view(Frame.from_state(state["frame"]), state["messages"]) as view:
        counted = view.tokens + made.fixed_tokens
    used = int(counted * ratio)
    usage: Any = {"input_tokens": used, "output_tokens": 1, "total_tokens": used + 1}
    update, _ = step(made, state, lambda n, r: AIMessage("ok", usage_metadata=usage))
    assert low <= update["frame"]["scale"] <= high
    assert MIN_SCALE <= update["frame"]["scale"] <= MAX_SCALE


def test_case_16_usage_is_remembered_for_the_next_estimate(tmp_path: Path) -> None:
    made, state = large(tmp_path)
    usage: Any = {"input_tokens": 9_000, "output_tokens": 5, "total_tokens": 9_005}
    update, _ = step(made, state, lambda n, r: AIMessage("ok", usage_metadata=usage))
    frame = Frame.from_state(update["frame"])
    assert frame.sent == 17
    assert frame.size > 0
    with made.view(frame, state["messages"]) as view:
        assert made.estimate(frame, view) == pytest.approx(9_000, rel=0.02)

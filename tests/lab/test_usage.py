"""Recorded usage: what was charged, what stood in the request, and how the one is told from the other."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from benchmarks.calibration import BOUND, ENOUGH, guess_all, measure, p95, report
from headwater.lab.sessions import Session
from headwater.lab.usage import Point, points, usage_of
from headwater.window.tokens import count_message

SESSIONS = Path(__file__).parents[2].parent / "shared" / "data" / "sessions"


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"input_tokens": 2, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 400}, 432),
        ({"input_tokens": 900, "cached_input_tokens": 800, "output_tokens": 5}, 900),
        ({"prompt_tokens": 77, "completion_tokens": 5}, 77),
        ({"input": 5, "cacheRead": 60, "cacheWrite": 700, "output": 1}, 765),
        ({"input": 5, "output": 1, "cache": {"read": 60, "write": 700}}, 765),
        ({"output_tokens": 5}, 0),
        (None, 0),
    ],
)
def test_m17_what_was_charged_is_read_under_every_name(usage: dict[str, Any] | None, tokens: int) -> None:
    found = usage_of(usage)
    assert (found.input if found else 0) == tokens


def recording(rows: list[tuple[BaseMessage, dict[str, Any]]]) -> Session:
    """A session of rows and what was noted of each."""
    return Session(
        name="s",
        messages=[message for message, _ in rows],
        times=[None] * len(rows),
        usage=[meta.get("usage") for _, meta in rows],
        anomalies=[],
        meta=[meta for _, meta in rows],
    )


def test_m17_a_point_counts_what_stood_before_the_answer() -> None:
    usage = {"prompt_tokens": 50}
    said, answer = HumanMessage("How are the valves?"), AIMessage("Fine.")
    found = list(points(recording([(said, {}), (answer, {"usage": usage, "model": "m"}), (answer, {})])))
    assert found == [Point(1, "m", 0, count_message(said), 50)]


def test_m17_what_left_the_recorded_window_is_not_counted() -> None:
    usage = {"usage": {"prompt_tokens": 50}}
    call = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}
    asked, result = AIMessage("", tool_calls=[call]), ToolMessage("x " * 500, tool_call_id="c1")
    micro = {"event": "microcompact_boundary", "compact": {"compactedToolIds": ["c1"]}}
    summary = HumanMessage("So far: nothing.")
    rows: list[tuple[BaseMessage, dict[str, Any]]] = [
        (HumanMessage("Look."), {}),
        (asked, usage),
        (result, {}),
        (AIMessage("Seen."), usage),
        (AIMessage("Again."), {**usage, "events_before": [micro]}),
        (AIMessage("Once more."), {**usage, "events_before": [{"event": "compacted"}]}),
        (summary, {"compact_summary": True}),
        (AIMessage("Go on."), usage),
    ]
    found = list(points(recording(rows)))
    said = count_message(HumanMessage("Look."))
    assert [point.revision for point in found] == [0, 0, 1, 2, 3]
    assert found[1].counted - found[2].counted == count_message(result) - count_message(AIMessage("Seen."))
    assert found[3].counted == said
    assert found[4].counted == count_message(summary)


def test_m17_each_point_is_predicted_from_earlier_ones_only() -> None:
    found = [Point(n, "m", 0, 2_000 * n, 30_000 + 2_400 * n) for n in range(1, 12)]
    guesses = list(guess_all(found, {}))
    other = [*found[:6], *(point._replace(reported=1) for point in found[6:])]
    again = list(guess_all(other, {}))
    assert [g.calibrated for g in guesses[:7]] == [g.calibrated for g in again[:7]]
    assert guesses[0].calibrated == found[0].counted
    assert max(g.error(g.calibrated) for g in guesses[2:]) < 0.02


def test_m17_the_next_session_starts_with_the_scale_of_the_last() -> None:
    known: dict[str, float] = {}
    list(guess_all([Point(n, "m", 0, 2_000 * n, 2_400 * n) for n in range(1, 12)], known))
    assert known["m"] == pytest.approx(1.2, abs=0.01)
    (first,) = guess_all([Point(1, "m", 0, 10_000, 12_000)], known)
    assert first.error(first.calibrated) < 0.01


def test_p95_is_the_nearest_rank() -> None:
    assert p95([float(n) for n in range(1, 101)]) == 95.0
    assert p95([1.0] * 19 + [9.0]) == 1.0
    assert p95([1.0, 2.0]) == 2.0


@pytest.mark.skipif(not SESSIONS.exists(), reason="needs ../shared")
def test_m17_after_calibration_the_p95_is_under_ten_percent_for_every_source() -> None:
    found = measure(SESSIONS)
    judged = {
        s.name: p95([g.error(g.calibrated) for g in s.guesses]) for s in found if len(s.guesses) > ENOUGH
    }
    assert len(judged) >= 9
    assert {name: error for name, error in judged.items() if error >= BOUND} == {}
    page = report(found)
    assert "(9 of 9)" in page
    assert "Taken for cut: 0 of" in page

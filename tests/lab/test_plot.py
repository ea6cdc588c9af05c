"""The picture of the window: what it reads from the events, and that it can be drawn."""

import io
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig

from headwater.graph import build_agent
from headwater.lab.plot import plot_window, spread
from headwater.lab.provider import Reply, Request, StrictProvider, ToolCall
from headwater.lab.trace import BLOCKS, SENT, Sample, Trace, TraceError, noting, trace
from headwater.memory import Memory
from headwater.window.policy import Level, WindowPolicy

WINDOW = 8_000
POLICY = WindowPolicy(window=WINDOW)
LINES = POLICY.lines()


def read_log(part: int) -> str:
    """Read a part of the log."""
    return "\n".join(f"part {part} line {n}: request served in {n * part % 97} ms" for n in range(40))


@pytest.fixture(scope="module")
def story(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[list[dict[str, Any]], list[dict[str, int]], list[int]]:
    """Events, blocks, and the provider's count of each request, of a session that outgrows its window."""
    blocks: list[dict[str, int]] = []

    def script(request: Request) -> Reply:
        if request.index == 20:
            return Reply("Read.")
        return Reply(f"Part {request.index} next.", (ToolCall("read_log", {"part": request.index}),))

    folder: Path = tmp_path_factory.mktemp("memory")
    with Memory(folder) as memory, StrictProvider(noting(script, blocks), window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(), tools=[read_log], policy=POLICY, memory=memory, context_tools=False
        )
        config: RunnableConfig = {"configurable": {"thread_id": "t"}, "recursion_limit": 1_000}
        events = list(
            agent.stream({"messages": [HumanMessage("Read the log.")]}, config, stream_mode="custom")
        )
        assert provider.violations == []
        counted = [exchange.input_tokens for exchange in provider.requests]
    return events, blocks, counted


def test_m2_every_step_has_its_level_and_what_the_provider_counted(story: Any) -> None:
    events, blocks, counted = story
    went = trace(events, blocks)
    assert went.lines == LINES
    assert [s.step for s in went.samples] == list(range(1, 22))
    for sample, tokens in zip(went.samples, counted, strict=True):
        assert abs(sample.sent - tokens) <= len(BLOCKS)
        assert sample.level is LINES.level(sample.peak) or sample.peak == sample.sent
        assert sample.peak >= sample.sent


def test_m5_m8_a_step_that_offloads_sends_less_than_its_peak(story: Any) -> None:
    events, blocks, _ = story
    moved = [s for s in trace(events, blocks).samples if s.moves]
    assert moved
    assert all(s.level >= Level.OFFLOAD and s.sent < s.peak for s in moved)
    assert all(s.moves[0] == "offload" for s in moved)
    assert moved[-1].blocks["stubs"] > 0


def test_without_blocks_a_request_is_one_block(story: Any) -> None:
    events, _, counted = story
    assert [dict(s.blocks) for s in trace(events).samples] == [{SENT: tokens} for tokens in counted]


def test_another_sessions_events_are_not_mixed_in(story: Any) -> None:
    events, _, _ = story
    child = [{**event, "session": "t/child"} for event in events]
    mixed = [event for pair in zip(events, child, strict=True) for event in pair]
    assert trace(mixed) == trace(events)
    assert trace(mixed, session="t/child") == trace(events)


def test_m7_a_halted_step_sent_nothing() -> None:
    mark = {"type": "headwater.watermark", "session": "s", "estimate": 7_000, "level": "EXHAUSTED"}
    went = trace([{**mark, "lines": LINES._asdict()}, {"type": "headwater.halt", "session": "s"}])
    assert went.samples == [Sample(1, Level.EXHAUSTED, 7_000, {}, ("halt",))]
    assert _png(went)


def test_what_cannot_be_told_is_said() -> None:
    with pytest.raises(TraceError, match="stream_mode='custom'"):
        trace([])
    with pytest.raises(TraceError, match="no step to draw"):
        plot_window(Trace([], LINES))


def test_missing_blocks_are_an_error_not_a_guess(story: Any) -> None:
    events, blocks, _ = story
    with pytest.raises(TraceError, match="blocks are known for 3 requests"):
        trace(events, blocks[:3])


@pytest.mark.parametrize("with_blocks", [True, False])
def test_the_picture_is_drawn_with_every_line_and_remedy_named(story: Any, with_blocks: bool) -> None:
    events, blocks, _ = story
    figure = plot_window(trace(events, blocks if with_blocks else ()), title="A window")
    above, below = figure.axes
    words = {text.get_text() for text in [*above.texts, *figure.texts]}
    assert {f"{name} {getattr(LINES, name):,}" for name in LINES._fields} <= words
    assert {level.name for level in Level} | {"A window"} <= words
    assert set(BLOCKS if with_blocks else [SENT]) <= words
    assert [t.get_text() for t in below.get_yticklabels()] == ["level", "offload", "summarize", "reclaim"]
    assert _png(trace(events, blocks)).startswith(b"\x89PNG")


def test_a_report_with_samples_and_lines_can_be_drawn() -> None:
    class Report:
        samples = (
            Sample(1, Level.NORMAL, 900, {"tail": 900}),
            Sample(2, Level.NORMAL, 1_900, {"tail": 1_900}),
        )
        lines = LINES

    assert plot_window(Report()).axes


@given(st.lists(st.floats(0, 100), min_size=1, max_size=8).map(sorted))
def test_labels_stand_apart_in_order_and_below_the_top(heights: list[float]) -> None:
    places = spread(heights, 10, 100)
    assert len(places) == len(heights)
    assert all(b - a >= 10 - 1e-6 for a, b in pairwise(places))
    assert max(places) <= 100 + 1e-6


def _png(report: Any) -> bytes:
    data = io.BytesIO()
    plot_window(report).savefig(data, format="png")
    return data.getvalue()


def test_blocks_are_a_mapping_in_the_order_of_what_it_costs_to_lose_them(story: Any) -> None:
    _, blocks, _ = story
    last: Mapping[str, int] = blocks[-1]
    assert tuple(last) == BLOCKS
    assert min(last["tools"], last["observations"], last["tail"]) > 0

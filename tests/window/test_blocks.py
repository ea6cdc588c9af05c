from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage

from headwater.window.blocks import BLOCKS, newest_tag, window_report
from headwater.window.frame import Edit, Frame
from headwater.window.marks import stamp
from headwater.window.policy import WindowPolicy
from headwater.window.render import Texts, render
from headwater.window.tokens import count_message, count_tools
from tests.window.histories import LONG, logs

LINES = WindowPolicy(window=32_000).lines()
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "read", "description": "Read a file.", "parameters": {}}}
]
TEXTS = Texts(system="You are an agent.", baseline="<m0>", delta="<m1>")
LOG = [
    stamp(message, tag)
    for tag, message in enumerate(
        (
            HumanMessage("q"),
            AIMessage(content="", tool_calls=[ToolCall(name="read", args={}, id="a")]),
            ToolMessage(LONG, tool_call_id="a"),
        ),
        1,
    )
]


def test_e1_the_window_is_reported_by_block() -> None:
    assert BLOCKS == ("reserve", "tools", "contract", "tail", "history", "observations")
    report = window_report(Frame(), LOG, TEXTS, LINES, TOOLS)
    assert all(report[name] > 0 for name in BLOCKS)
    assert report["reserve"] == 8_000
    assert report["tools"] == count_tools(TOOLS)
    assert report["window"] == 32_000


@settings(max_examples=80, deadline=None)
@given(logs(), st.integers(0, 8), st.sampled_from([Texts(), TEXTS]))
def test_e1_blocks_add_up_to_what_is_sent(log: list[BaseMessage], boundary: int, texts: Texts) -> None:
    frame = Frame(boundary=boundary)
    report = window_report(frame, log, texts, LINES, TOOLS)
    sent = sum(map(count_message, render(frame, log, texts)))
    assert report["total"] == sent + report["tools"]


@pytest.mark.parametrize("frame", [Frame(), Frame(edits={3: Edit.OFFLOAD}), Frame(boundary=3)])
def test_e3_tools_and_reserve_are_the_same_at_every_pass(frame: Frame) -> None:
    report = window_report(frame, LOG, TEXTS, LINES, TOOLS)
    assert report["tools"] == count_tools(TOOLS)
    assert report["reserve"] == LINES.window - LINES.usable == 8_000


def test_e2_observations_go_before_anything_the_user_said() -> None:
    whole = window_report(Frame(), LOG, TEXTS, LINES)
    managed = window_report(Frame(edits={3: Edit.OFFLOAD}), LOG, TEXTS, LINES)
    assert managed["observations"] < whole["observations"] / 2
    for name in ("reserve", "contract", "tail", "history"):
        assert managed[name] == whole[name]


@given(st.integers(1_024, 10_000_000))
def test_e22_reserve_and_lines_never_overlap(window: int) -> None:
    lines = WindowPolicy().lines(window)
    reserve = window_report(Frame(), [], Texts(), lines)["reserve"]
    assert lines.exhausted + reserve <= window


def test_the_newest_tag_is_that_of_the_last_numbered_message() -> None:
    assert newest_tag(LOG) == 3
    assert newest_tag([*LOG, HumanMessage("new")]) == 3
    assert newest_tag([]) == 0

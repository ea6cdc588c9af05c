import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.window.frame import VERSION, Edit, Frame, FrameTooNew, Pass, Pending, Pin

tags = st.integers(1, 500)
words = st.text(max_size=12)
frames = st.builds(
    Frame,
    session=words,
    boundary=tags,
    baseline=words,
    edits=st.dictionaries(tags, st.sampled_from([str(edit) for edit in Edit]), max_size=4),
    hints=st.dictionaries(tags, words, max_size=4),
    pins=st.lists(st.builds(Pin, words, words, tags, st.sampled_from(["user", "agent"])), max_size=4).map(
        tuple
    ),
    pending=st.dictionaries(tags, st.builds(Pending, st.sampled_from(list(Edit)), tags, tags), max_size=4),
    asked=st.one_of(st.none(), st.floats(0, 1e10)),
    scale=st.floats(0.8, 3.0),
    revision=words,
)


@given(frames)
def test_case_45_a_frame_comes_back_from_a_checkpoint_as_it_was(frame: Frame) -> None:
    assert Frame.from_state(frame.to_state(), frame.edits, frame.hints) == frame


@given(frames)
def test_case_45_a_frame_is_plain_values_that_survive_json(frame: Frame) -> None:
    state = frame.to_state()
    assert "edits" not in state
    assert "hints" not in state
    again = Frame.from_state(json.loads(json.dumps(state)), frame.edits, frame.hints)
    assert again == frame
    assert all(type(tag) is int and type(p.edit) is Edit for tag, p in again.pending.items())


def test_a_session_without_a_frame_begins_with_an_empty_one() -> None:
    assert Frame.from_state(None) == Frame.from_state({}) == Frame()
    assert Frame.from_state({}, {1: "drop"}, {2: "hint"}) == Frame(edits={1: "drop"}, hints={2: "hint"})


def test_users_28_a_frame_of_a_newer_program_is_refused_loudly() -> None:
    with pytest.raises(FrameTooNew, match="upgrade"):
        Frame.from_state({**Frame().to_state(), "v": VERSION + 1})


def test_users_1_a_frame_of_an_older_program_lacks_fields_and_is_read() -> None:
    old: dict[str, Any] = {"v": VERSION, "boundary": 7, "left_by_a_plugin": True}
    assert Frame.from_state(old) == Frame(boundary=7)


def test_m1_a_frame_changes_only_by_copy() -> None:
    frame = Frame(boundary=1)
    assert frame.with_(boundary=2).boundary == 2
    assert frame.boundary == 1
    with pytest.raises(AttributeError):
        frame.boundary = 3  # type: ignore[misc]


def test_g10_passes_and_edits_have_the_names_of_the_design() -> None:
    assert [str(kind) for kind in Pass] == ["defer", "execute", "fold"]
    # CLOSE is an addition, for providers that bind their reasoning to what stands before it.
    assert [str(edit) for edit in Edit] == ["offload", "strip", "skeleton", "drop", "close"]

"""Offload: bytes on disk before a stub stands for them; frozen once applied; every gain a gain."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from headwater.nodes.engine import Engine, live
from headwater.nodes.offload import apply_edits, offload
from headwater.nodes.state import State
from headwater.nodes.watermark import watermark
from headwater.window.face import text_of
from headwater.window.frame import Edit
from headwater.window.marks import tag_of
from headwater.window.reasoning import reasoning_tokens
from headwater.window.render import render
from headwater.window.stubs import is_stub
from tests.nodes.bench import CONFIG, WINDOW, after, arc, engine, frame_of, session, state_of, text


def asked(state: State, *tags: int, edit: Edit = Edit.OFFLOAD) -> State:
    step = {"edits": {tag: str(edit) for tag in tags}, "kind": "execute", "reason": "line"}
    return after(state, {"step": step})


def request(made: Engine, state: State) -> list[str]:
    frame = frame_of(state)
    return [text_of(m) for m in render(frame, state["messages"], made.texts(frame))]


def test_m5_m10_the_bytes_are_on_disk_and_read_back_exactly(tmp_path: Path) -> None:
    made = engine(tmp_path)
    state = asked(state_of(made, session(3)), 3, 5)
    state = after(state, offload(made)(state, CONFIG))
    stubs = [line for line in request(made, state) if is_stub(line)]
    assert len(stubs) == 2
    assert [made.memory.artifacts.read_text(s.split()[2]) for s in stubs] == [text(0), text(1)]


def test_m16_every_offload_shrinks_the_request(tmp_path: Path) -> None:
    made = engine(tmp_path)
    state = asked(state_of(made, session(3)), 3)
    with made.view(frame_of(state), state["messages"]) as view:
        before = view.tokens
    state = after(state, offload(made)(state, CONFIG))
    with made.view(frame_of(state), state["messages"]) as view:
        assert view.tokens < before - 200


def test_g13_an_edit_is_frozen_a_later_one_does_not_change_it(tmp_path: Path) -> None:
    made = engine(tmp_path)
    state = asked(state_of(made, session(3)), 3)
    state = after(state, offload(made)(state, CONFIG))
    first = request(made, state)
    state = asked(state, 3, edit=Edit.DROP)
    state = after(state, offload(made)(state, CONFIG))
    assert request(made, state) == first
    assert state["edits"] == {3: "offload"}


@pytest.mark.parametrize(("arcs", "level"), [(6, "OFFLOAD"), (8, "COMPACT"), (12, "EXHAUSTED")])
def test_c5_the_first_remedy_takes_all_reasoning_that_has_left_the_zone(
    tmp_path: Path, arcs: int, level: str
) -> None:
    """C5: whatever the level, before any summary; the zone keeps its own, and the log keeps all."""
    made = engine(tmp_path)
    log = session(arcs, 420)
    for number, message in enumerate(m for m in log if isinstance(m, AIMessage)):
        message.additional_kwargs["reasoning_content"] = f"I look at table {number} because it is next."
    state = state_of(made, log, sent=2 * arcs - 1)
    state = after(state, watermark(made)(state, CONFIG))
    assert (state["step"]["level"], state["step"]["route"]) == (level, "offload")
    assert "tried" not in state["step"]
    with made.view(frame_of(state), state["messages"]) as view:
        zone = view.protected(made.policy, WINDOW, made.room(view))
    state = after(state, offload(made)(state, CONFIG))
    sent = render(frame_of(state), state["messages"], made.texts(frame_of(state)))
    shown = [reasoning_tokens(m) for m in sent if isinstance(m, AIMessage)]
    before = sum(isinstance(m, AIMessage) and tag_of(m) < zone for m in state["messages"])
    assert 0 < before < arcs
    assert shown[:before] == [0] * before
    assert all(shown[before:])
    kept = [m for _, m in made.memory.archive.read("s", 1, len(log)) if isinstance(m, AIMessage)]
    assert all(map(reasoning_tokens, kept))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from([2, 3, 4, 5, 6, 7]), unique=True),
    st.sampled_from([Edit.OFFLOAD, Edit.DROP, Edit.SKELETON]),
)
def test_m1_whatever_is_edited_the_log_and_the_state_keep_their_messages(
    tmp_path: Path, tags: list[int], edit: Edit
) -> None:
    made = engine(tmp_path)
    before = state_of(made, session(3))
    asking = asked(before, *tags, edit=edit)
    state = after(asking, offload(made)(asking, CONFIG))
    assert state["messages"] == before["messages"]
    assert [m.content for _, m in made.memory.archive.read("s", 1, 7)] == [m.content for m in session(3)]


def test_case_66_what_cannot_be_written_is_not_offloaded(tmp_path: Path) -> None:
    made = engine(tmp_path)
    state = asked(state_of(made, session(2)), 3, 5)
    (tmp_path / "artifacts").write_text("in the way")
    state = after(state, offload(made)(state, CONFIG))
    assert state["edits"] == {}
    assert not any(is_stub(line) for line in request(made, state))


def test_a_user_message_that_is_offloaded_is_on_disk_too(tmp_path: Path) -> None:
    """A pasted document leaves like a result: its stub names a file that is there."""
    made = engine(tmp_path)
    paste = text(9, 2_000)
    state = state_of(made, [HumanMessage("Go.", id="g"), HumanMessage(paste, id="p"), *arc(1)])
    frame, edits = apply_edits(made, frame_of(state), live(state), {2: Edit.OFFLOAD})
    assert edits == {2: "offload"}
    assert made.memory.artifacts.read_text(made.memory.artifacts.name_of(paste)) == paste
    assert frame.revision != frame_of(state).revision


def test_long_arguments_leave_and_the_call_stays_a_call(tmp_path: Path) -> None:
    made = engine(tmp_path)
    call = {"name": "write", "args": {"path": "a.py", "content": text(1)}, "id": "w", "type": "tool_call"}
    messages = [
        HumanMessage("Write.", id="h"),
        AIMessage("", tool_calls=[call], id="a"),
        ToolMessage("written", tool_call_id="w", name="write", id="r"),
    ]
    state = asked(state_of(made, messages), 2)
    state = after(state, offload(made)(state, CONFIG))
    frame = frame_of(state)
    sent = next(m for m in render(frame, state["messages"], made.texts(frame)) if isinstance(m, AIMessage))
    assert sent.tool_calls[0]["args"]["path"] == "a.py"
    assert is_stub(sent.tool_calls[0]["args"]["content"])
    log = made.memory.archive.get("s", 2)
    assert isinstance(log, AIMessage)
    assert log.tool_calls[0]["args"]["content"] == text(1)


def test_unknown_tags_are_passed_over(tmp_path: Path) -> None:
    made = engine(tmp_path)
    state = asked(state_of(made, session(1)), 99)
    assert after(state, offload(made)(state, CONFIG))["edits"] == {}

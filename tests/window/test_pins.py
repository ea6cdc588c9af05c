from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage

from headwater.window.frame import Pin
from headwater.window.pins import GOAL_TOKENS, MAX_NOTE_CHARS, add_pins, pins_of, shortened
from headwater.window.tokens import count_text


def note(**args: Any) -> AIMessage:
    return AIMessage(content="", tool_calls=[ToolCall(name="ctx_note", args=args, id="1")])


def test_e15_the_first_user_message_is_the_goal_verbatim() -> None:
    text = "Repair the importer.\nNever restart the database."
    assert pins_of(HumanMessage(text), 1, first=True) == [Pin("goal", text, 1)]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Never restart the database.", ["constraint"]),
        ("Restarting had no effect.", ["exclusion"]),
        ("Let's go with plan B.", ["decision"]),
        ("I prefer short answers.", ["preference"]),
        ("绝对不要重启数据库，必须先备份。", ["constraint"]),
        ("我们决定用方案B。", ["decision"]),
        ("Thanks, looks good!", []),
        ("", []),
    ],
)
def test_e15_what_a_user_states_is_pinned_when_it_arises(text: str, kinds: list[str]) -> None:
    pins = pins_of(HumanMessage(text), 7, first=False)
    assert [pin.kind for pin in pins] == kinds
    assert all(pin.text in text and pin.tag == 7 and pin.source == "user" for pin in pins)


@given(st.text(max_size=3_000), st.integers(20, 400))
def test_c2_a_request_is_verbatim_up_to_its_limit(text: str, limit: int) -> None:
    shown = shortened(text, 7, limit)
    if count_text(text) <= limit:
        assert shown == text
    else:
        head, _, rest = shown.rpartition("\n")
        assert text.startswith(head)
        assert 'ctx_expand("7")' in rest
        assert count_text(head) <= limit


def test_c22_a_constraint_behind_a_long_first_message_is_pinned_too() -> None:
    text = "Repair the importer.\n\n" + "The importer reads a row. " * 900 + "\n\nNever touch legacy.py."
    goal, *more = pins_of(HumanMessage(text), 1, first=True)
    assert goal.kind == "goal"
    assert goal.text.startswith("Repair the importer.")
    assert 'ctx_expand("1")' in goal.text
    assert ("constraint", "Never touch legacy.py.") in [(pin.kind, pin.text) for pin in more]


@pytest.mark.parametrize(
    "text", ["word " * 9_000, "数据库必须备份。" * 2_000, "😀" * 9_000, "line\n" * 9_000]
)
def test_e15_a_pasted_document_never_fills_the_note(text: str) -> None:
    goal = pins_of(HumanMessage(text), 1, first=True)[0]
    assert count_text(goal.text) <= GOAL_TOKENS + 60


def test_e15_the_agent_notes_with_ctx_note_and_only_so() -> None:
    assert pins_of(note(text="port is 8080", kind="decision"), 4, first=False) == [
        Pin("decision", "port is 8080", 4, "agent")
    ]
    assert pins_of(note(text="x", kind="whatever"), 4, first=False)[0].kind == "note"
    assert pins_of(note(text=" "), 4, first=False) == []
    assert pins_of(note(), 4, first=False) == []
    assert len(pins_of(note(text="x" * 9_999), 4, first=False)[0].text) == MAX_NOTE_CHARS
    for message in (
        AIMessage("Never do it."),
        SystemMessage("Never."),
        ToolMessage("Never.", tool_call_id="1"),
    ):
        assert pins_of(message, 4, first=False) == []


def test_c2_blocks_of_text_state_as_text_does() -> None:
    message = HumanMessage([{"type": "text", "text": "Never restart it."}, {"type": "image", "url": "x"}])
    assert [pin.text for pin in pins_of(message, 2, first=False)] == ["Never restart it."]


def test_e16_a_flood_of_statements_cannot_push_out_the_first() -> None:
    first = Pin("constraint", "Never restart the database.", 2)
    flood = [Pin("constraint", f"Always do thing number {i}.", 3 + i) for i in range(200)]
    kept = add_pins([first], flood, 100)
    assert kept[0] == first
    assert sum(count_text(pin.text) for pin in kept) <= 100
    assert len(kept) > 5


def test_e16_the_goal_is_kept_whatever_the_limit() -> None:
    assert add_pins([], [Pin("goal", "Repair it.", 1)], 0) == (Pin("goal", "Repair it.", 1),)
    # An agent cannot get round the limit by calling its note a goal.
    assert add_pins([], [Pin("goal", "Mine.", 1, "agent")], 0) == ()


def test_e15_a_repeat_is_noted_once() -> None:
    pins = add_pins([], [Pin("decision", "Use  Plan B.", 1), Pin("constraint", "use plan b.", 2)], 100)
    assert pins == (Pin("decision", "Use  Plan B.", 1),)


pin_lists = st.lists(st.builds(Pin, st.just("note"), st.text(max_size=30), st.integers(1, 99)), max_size=12)


@given(pin_lists, pin_lists, st.integers(0, 200))
def test_e16_pins_are_only_ever_added(old: list[Pin], new: list[Pin], limit: int) -> None:
    before = add_pins([], old, limit)
    after = add_pins(before, new, limit)
    assert after[: len(before)] == before
    assert add_pins(after, new, limit) == after or sum(count_text(p.text) for p in after) <= limit
    assert set(after) <= {*old, *new}

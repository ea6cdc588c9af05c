"""Intake: archived first, numbered once, cleaned, and never too large."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from headwater.memory import ArchiveError
from headwater.nodes.engine import WindowTooSmall
from headwater.nodes.intake import CLEAN_CHARS, PREVIEW_TOKENS, intake
from headwater.window.frame import Pin
from headwater.window.marks import tag_of
from headwater.window.policy import WindowPolicy
from headwater.window.stubs import MAX_STUB_BYTES, is_only_stub
from headwater.window.tokens import count_text
from tests.nodes.bench import CONFIG, WINDOW, after, arc, engine, frame_of, session, state_of, text


def result(content: Any, name: str = "shell") -> list[BaseMessage]:
    call = {"name": name, "args": {}, "id": "c", "type": "tool_call"}
    return [
        HumanMessage("Go.", id="h"),
        AIMessage("", tool_calls=[call], id="a"),
        ToolMessage(content, tool_call_id="c", name=name, id="r"),
    ]


def test_m1_c15_messages_are_archived_as_they_came_and_numbered_from_1(tmp_path: Path) -> None:
    made = engine(tmp_path)
    state = state_of(made, session(3))
    assert [tag_of(m) for m in state["messages"]] == [1, 2, 3, 4, 5, 6, 7]
    log = made.memory.archive.read("s", 1, 9)
    assert [m.content for _, m in log] == [m.content for m in session(3)]


def test_g8_a_message_is_numbered_once_and_keeps_its_number(tmp_path: Path) -> None:
    made = engine(tmp_path)
    state = state_of(made, session(2))
    again = intake(made)(state, CONFIG)
    assert "messages" not in again
    grown = after(state, {"messages": arc(7)})
    update = intake(made)(grown, CONFIG)
    assert [tag_of(m) for m in update["messages"]] == [6, 7]


def test_g8_marks_that_a_model_copies_are_stripped_from_what_is_kept(tmp_path: Path) -> None:
    made = engine(tmp_path)
    messages = [HumanMessage("Go.", id="h"), AIMessage("§12§ As §3§ says, yes.", id="a")]
    state = state_of(made, messages)
    assert state["messages"][1].content == "As says, yes."
    assert made.memory.archive.get("s", 2).content == "§12§ As §3§ says, yes."


def test_e13_tool_output_is_cleaned_in_the_window_and_raw_in_the_archive(tmp_path: Path) -> None:
    made = engine(tmp_path)
    noisy = "\x1b[31mred\x1b[0m\n" + "same line\n" * 50
    state = state_of(made, result(noisy))
    kept = str(state["messages"][2].content)
    assert "\x1b" not in kept
    assert kept.count("same line") < 5
    assert made.memory.archive.get("s", 3).content == noisy


@pytest.mark.parametrize("blocks", [False, True])
def test_m5_m9_a_result_over_the_arrival_limit_never_enters_the_window(tmp_path: Path, blocks: bool) -> None:
    """M9, case 66: 80 KB become a stub of at most 2 KB that opens to the very bytes; lists of text too."""
    made = engine(tmp_path, WindowPolicy(window=WINDOW, arrival=1_000))
    long = "".join(f"{i}: unit {i * 7} is fine\n" for i in range(3_500))
    state = state_of(made, result([{"type": "text", "text": long}] if blocks else long))
    stub = str(state["messages"][2].content)
    assert len(long) > 80_000
    assert is_only_stub(stub)
    assert len(stub.encode()) <= MAX_STUB_BYTES
    assert count_text(stub) <= PREVIEW_TOKENS + 150
    assert made.memory.artifacts.read_text(stub.split()[1]) == long


def test_a_read_may_be_larger_than_a_search(tmp_path: Path) -> None:
    """What was asked for to be read stays, up to a quarter of the window."""
    policy = WindowPolicy(window=32_000, arrival=500)
    long = text(1, 1_000)
    search = state_of(engine(tmp_path / "a", policy), result(long, "grep"))
    read = state_of(engine(tmp_path / "b", policy), result(long, "read_file"))
    assert is_only_stub(str(search["messages"][2].content))
    assert read["messages"][2].content == long


def test_m10_a_page_that_was_asked_for_is_never_offloaded_on_arrival(tmp_path: Path) -> None:
    made = engine(tmp_path, WindowPolicy(window=WINDOW, arrival=100))
    long = text(1, 400)
    state = state_of(made, result(long, "file_read"))
    assert state["messages"][2].content == long


def test_a_result_that_quotes_a_stub_is_not_let_through_for_that(tmp_path: Path) -> None:
    made = engine(tmp_path, WindowPolicy(window=WINDOW, arrival=500))
    long = '⟦stored artifacts/ab/x.txt 9 chars; read it back: ctx_expand("3")⟧\n' + text(1, 2_000)
    state = state_of(made, result(long, "shell"))
    assert len(str(state["messages"][2].content).encode()) <= MAX_STUB_BYTES


def test_an_image_stays_an_image(tmp_path: Path) -> None:
    made = engine(tmp_path, WindowPolicy(window=WINDOW, arrival=10))
    blocks = [
        {"type": "text", "text": text(1, 100)},
        {"type": "image", "base64": "AAAA", "mime_type": "image/png"},
    ]
    state = state_of(made, result(blocks))
    assert state["messages"][2].content == blocks


def test_what_is_very_long_is_not_cleaned_first(tmp_path: Path) -> None:
    """It goes to disk as it came; cleaning 200 MB would take minutes."""
    made = engine(tmp_path)
    long = "same line\n" * (CLEAN_CHARS // 10 + 1)
    state = state_of(made, result(long))
    assert made.memory.artifacts.read_text(str(state["messages"][2].content).split()[1]) == long


def test_case_66_a_disk_that_refuses_the_artifact_leaves_the_text_in_place(tmp_path: Path) -> None:
    made = engine(tmp_path, WindowPolicy(window=WINDOW, arrival=500))
    made.memory.archive.append("other", [HumanMessage("x")])
    (tmp_path / "artifacts").write_text("in the way")
    state = state_of(made, result(text(1, 1_000)))
    assert state["messages"][2].content == text(1, 1_000)


def test_nothing_is_numbered_when_the_archive_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "archive.sqlite").mkdir(parents=True)
    with pytest.raises(ArchiveError):
        state_of(engine(tmp_path), session(1))


def test_e14_the_goal_and_the_rules_are_pinned_when_they_arise(tmp_path: Path) -> None:
    made = engine(tmp_path)
    state = state_of(made, [HumanMessage("Repair the pump.", id="h")])
    assert frame_of(state).pins == (Pin("goal", "Repair the pump.", 1),)
    grown = after(state, {"messages": [HumanMessage("Never open valve 3.", id="h2")]})
    pins = frame_of(after(grown, intake(made)(grown, CONFIG))).pins
    assert pins[1] == Pin("constraint", "Never open valve 3.", 2)


def test_e16_a_pin_of_the_callers_is_shown_once_behind_the_newest_message(tmp_path: Path) -> None:
    made = engine(tmp_path)
    state: dict[str, object] = {"messages": [HumanMessage("Go.", id="h")], "pins": ["Budget: 400."]}
    update = intake(made)(state, CONFIG)  # type: ignore[arg-type]
    assert update["hints"] == {1: "[task note] Budget: 400."}
    grown = after({**state, "messages": state["messages"]}, update)  # type: ignore[typeddict-item]
    again = intake(made)(after(grown, {"messages": [HumanMessage("On.", id="i")]}), CONFIG)
    assert again["hints"] == {}


def test_leading_system_messages_become_the_contract(tmp_path: Path) -> None:
    made = engine(tmp_path, system="You inspect.")
    messages = [SystemMessage("One.", id="1"), SystemMessage("Two.", id="2"), HumanMessage("Go.", id="3")]
    frame = frame_of(state_of(made, messages))
    assert frame.lead == 2
    assert made.texts(frame).contract == "One.\n\nTwo."


def test_a_window_without_room_is_refused_with_its_sizes(tmp_path: Path) -> None:
    made = engine(tmp_path, WindowPolicy(window=2_048), system="Be exact. " * 800)
    with pytest.raises(WindowTooSmall, match=r"2,048.*WindowPolicy\(window="):
        state_of(made, session(0))


@pytest.mark.parametrize(
    ("said", "language"), [("Repair the pump.", "en"), ("请修理水泵，不要重启数据库。", "zh")]
)
def test_the_session_speaks_the_users_language(tmp_path: Path, said: str, language: str) -> None:
    assert frame_of(state_of(engine(tmp_path), [HumanMessage(said, id="h")])).language == language

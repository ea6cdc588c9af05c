"""Reclaim: classes in order, the newest arc spared at first, and then whatever it takes but the goal."""

from pathlib import Path

from langchain_core.messages import BaseMessage, HumanMessage

from headwater.nodes.reclaim import bare, reclaim, tier, tiered
from headwater.nodes.tool_names import READING, words_of
from headwater.window.frame import Edit, Pin
from tests.nodes.bench import CONFIG, after, arc, engine, frame_of, session, state_of, text


def test_g30_classes_by_name() -> None:
    """G30: T3 anything (the shell first to go), T2 edits and searches, T1 navigation."""
    assert {tier(n) for n in ("bash", "fetch_url", "inspect", "")} == {3}
    assert {tier(n) for n in ("edit_file", "write", "apply_patch", "grep", "glob", "search_code")} == {2}
    assert {tier(n) for n in ("read_file", "list_dir", "todowrite_x", "outline")} <= {1, 2}
    assert tier("read_file") == tier("ls") == 1


def test_g30_the_order_is_misc_then_work_then_navigation(tmp_path: Path) -> None:
    """G30: with room to make for all, T3 goes whole; the newest fifth of T2 and T1 stays; oldest first."""
    made = engine(tmp_path)
    messages: list[BaseMessage] = [HumanMessage("Go.", id="h")]
    names = ["read", "grep", "bash"] * 5
    for number, name in enumerate(names):
        messages += arc(number, 420, name)
    messages += arc(99, 20, "bash")
    state = state_of(made, messages, sent=31)
    with made.view(frame_of(state), state["messages"]) as view:
        chosen = tiered(made, view, frame_of(state))
    order = [names[(tag - 3) // 2] for tag in chosen]
    assert order[:5] == ["bash"] * 5
    assert order[5:9] == ["grep"] * 4
    assert set(order[9:]) <= {"read"}
    assert list(chosen) == sorted(
        chosen, key=lambda tag: (["bash", "grep", "read"].index(names[(tag - 3) // 2]), tag)
    )
    assert set(chosen.values()) == {Edit.SKELETON}


def test_g30_it_stops_when_there_is_room_enough(tmp_path: Path) -> None:
    made = engine(tmp_path)
    state = state_of(made, session(9, 420, "bash"), sent=17)
    with made.view(frame_of(state), state["messages"]) as view:
        chosen = tiered(made, view, frame_of(state))
    assert 0 < len(chosen) < 9


def test_g32_the_second_time_it_takes_the_largest_until_it_fits(tmp_path: Path) -> None:
    """G32, M20: largest first among what the model has seen; no more than is needed; never the goal."""
    made = engine(tmp_path)
    messages: list[BaseMessage] = [HumanMessage(text(50, 2_000), id="h")]
    for number, words in enumerate((100, 900, 300, 60)):
        messages += arc(number, words)
    state = state_of(made, messages, pins=(Pin("goal", "Go.", 1),))
    with made.view(frame_of(state), state["messages"]) as view:
        assert list(bare(view, frame_of(state), 500)) == [5]
        assert list(bare(view, frame_of(state), 1_500)) == [5, 7]
        everything = bare(view, frame_of(state), 10**6)
    assert 1 not in everything
    assert list(everything) == [5, 7, 3]


def test_reclaimed_results_come_back_from_the_archive(tmp_path: Path) -> None:
    made = engine(tmp_path)
    state = state_of(made, session(12, 420, "bash"), sent=23)
    state = after(state, reclaim(made)(state, CONFIG))
    assert state["edits"]
    assert state["step"]["tried"] == ["reclaim"]
    log = made.memory.archive.read("s", 1, 25)
    assert [m.content for _, m in log] == [m.content for m in session(12, 420, "bash")]


def test_m16_each_turn_of_reclaim_leaves_less(tmp_path: Path) -> None:
    made = engine(tmp_path)
    state = state_of(made, session(14, 420, "bash"))
    sizes = []
    for _ in range(3):
        with made.view(frame_of(state), state["messages"]) as view:
            sizes.append(made.estimate(frame_of(state), view))
        state = after(state, reclaim(made)(state, CONFIG))
    assert sizes[1] < sizes[0]
    assert sizes[1] < made.lines.exhausted
    assert sizes[2] <= sizes[1]


def test_a_name_is_read_by_its_words_not_by_its_letters() -> None:
    """ "tools" holds "ls" and "category" holds "cat": neither lists nor reads anything."""
    assert tier("run_tools") == 3
    assert words_of("set_category") & READING == frozenset()
    assert words_of("ReadFile") & READING == {"read"}

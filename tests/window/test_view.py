from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage

from headwater.window.face import gain_of
from headwater.window.frame import Edit, Frame, Pending
from headwater.window.marks import stamp, tag_of
from headwater.window.policy import WindowPolicy
from headwater.window.render import Texts, render
from headwater.window.schedule import Item
from headwater.window.stubs import stub
from headwater.window.tokens import count_message
from headwater.window.view import View
from tests.window.histories import LONG, dumps, logs

WIDE = 1_000_000
SMALL = WindowPolicy(keep_messages=1, keep_tags=1)


def number(*messages: BaseMessage) -> list[BaseMessage]:
    return [stamp(message, tag) for tag, message in enumerate(messages, 1)]


def call(name: str, call_id: str, **args: Any) -> AIMessage:
    return AIMessage(content="", tool_calls=[ToolCall(name=name, args=args, id=call_id)])


def tool(call_id: str, text: str = LONG, status: str = "success", name: str = "read") -> ToolMessage:
    return ToolMessage(content=text, tool_call_id=call_id, name=name, status=status)


def synced(log: list[BaseMessage], frame: Frame | None = None) -> View:
    view = View()
    view.sync(frame or Frame(), log, Texts())
    return view


def same(view: View, frame: Frame, log: list[BaseMessage], texts: Texts) -> None:
    expected = render(frame, log, texts)
    assert dumps(view.request()) == dumps(expected)
    assert view.tokens == sum(map(count_message, expected))


class Step:
    """One thing that happens to a session between two requests."""

    GROW, EDIT, TELL, RESTART, FORK, FOLD = range(6)


@settings(max_examples=150, deadline=None)
@given(logs(max_size=18), st.data())
def test_m1_a_view_kept_up_to_date_is_the_render_from_scratch(
    log: list[BaseMessage], data: st.DataObject
) -> None:
    view, frame, texts, read = View(), Frame(session="s", revision="0"), Texts(), 0
    other = {tag_of(m): m for m in data.draw(logs(max_size=18))}
    for number_of_step in range(data.draw(st.integers(1, 8))):
        kind = data.draw(st.integers(0, 5))
        if kind == Step.GROW:
            read = min(len(log), read + data.draw(st.integers(1, 5)))
        elif kind == Step.EDIT:
            tag, edit = data.draw(st.integers(1, 18)), data.draw(st.sampled_from(list(Edit)))
            if tag not in frame.edits:
                edits = {**frame.edits, tag: str(edit)}
                frame = frame.with_(edits=edits, revision=f"{frame.revision}+{tag}{edit}")
        elif kind == Step.TELL:
            frame = frame.with_(boundary=min(read, frame.boundary + data.draw(st.integers(0, 4))))
        elif kind == Step.RESTART:
            view = View()
        elif kind == Step.FORK:
            # Another branch: the same tags and ids name other messages from here on.
            read = data.draw(st.integers(0, read))
            log = [*log[:read], *(other.get(tag_of(m), m) for m in log[read:])]
        else:
            texts = Texts(system="S", baseline=f"m0 {number_of_step}", delta="m1")
        view.sync(frame, log[:read], texts)
        same(view, frame, log[:read], texts)


@settings(max_examples=50, deadline=None)
@given(logs())
def test_case_45_a_restored_log_of_equal_objects_gives_equal_bytes(log: list[BaseMessage]) -> None:
    view = synced(log)
    before = dumps(view.request())
    view.sync(Frame(), [m.model_copy(deep=True) for m in log], Texts())
    assert dumps(view.request()) == before


def test_case_46_a_message_replaced_under_its_id_is_shown_as_it_is_now() -> None:
    log = number(HumanMessage("first", id="same"))
    view = synced(log)
    view.sync(Frame(), number(HumanMessage("second", id="same")), Texts())
    assert view.request()[0].content == "§1§ second"
    view.sync(Frame(), log, Texts())
    assert view.request()[0].content == "§1§ first"


def test_users_27_a_view_reads_only_what_is_new() -> None:
    log = number(*(HumanMessage(f"m{i}") for i in range(50)))
    view = synced(log)
    first = view.request()
    view.sync(Frame(), [*log, stamp(HumanMessage("new"), 51)], Texts())
    assert all(a is b for a, b in zip(first, view.request(), strict=False))


@settings(max_examples=100, deadline=None)
@given(logs(), st.integers(0, 6), st.integers(1, 25), st.integers(1, 25), st.integers(1, 3_000))
def test_e6_zone_and_rest_are_the_whole_tail_without_overlap(
    log: list[BaseMessage], boundary: int, messages: int, tags: int, tokens: int
) -> None:
    view = synced(log, Frame(boundary=boundary))
    policy = WindowPolicy(keep_messages=messages, keep_tags=tags, keep_tokens=tokens)
    first = view.protected(policy, 32_000)
    older = [tag for tag in view.tags if tag < first]
    zone = [tag for tag in view.tags if tag >= first]
    assert [*older, *zone] == list(view.tags) == [tag_of(m) for m in log if tag_of(m) > boundary]
    if view.tags:
        assert view.last in zone
        assert view.latest_arc() in zone


def test_e5_the_last_six_messages_are_protected_and_g4_the_last_twenty_tags() -> None:
    view = synced(number(*(HumanMessage(f"m{i}") for i in range(40))))
    assert view.protected(WindowPolicy(keep_messages=6, keep_tags=1), WIDE) == 35
    assert view.protected(WindowPolicy(), WIDE) == 21


def test_e7_the_zone_gives_way_when_it_is_too_heavy_but_never_the_latest_arc() -> None:
    log = number(
        HumanMessage("q"), call("read", "a"), tool("a"), call("read", "b"), tool("b"), tool("b2"), tool("b3")
    )
    view = synced(log)
    policy = WindowPolicy(keep_tokens=1)
    assert view.latest_arc() == 4
    assert view.protected(policy, WIDE) == 4


def test_c2_the_open_question_is_the_latest_arc() -> None:
    view = synced(number(HumanMessage("q"), AIMessage("a"), HumanMessage("and now?")))
    assert view.latest_arc() == 3


def test_case_2_an_arc_of_parallel_calls_is_one_unit_of_the_zone() -> None:
    both = AIMessage(
        content="",
        tool_calls=[ToolCall(name="read", args={}, id="1"), ToolCall(name="read", args={}, id="2")],
    )
    view = synced(number(HumanMessage("q"), both, tool("1", "x" * 5_000), tool("2", "y")))
    assert view.protected(WindowPolicy(keep_messages=1, keep_tags=1, keep_tokens=10), WIDE) == 2


def candidates(log: list[BaseMessage], frame: Frame, policy: WindowPolicy = SMALL) -> dict[int, Edit]:
    found, zone = synced(log, frame).candidates(frame, policy, WIDE)
    assert zone >= frame.zone
    return {tag: pending.edit for tag, pending in found.items()}


def test_g13_only_what_the_model_has_seen_and_the_zone_has_left_may_be_edited() -> None:
    log = number(HumanMessage("q"), call("read", "a", p=1), tool("a"), call("read", "b", p=2), tool("b"))
    assert candidates(log, Frame(sent=5)) == {3: Edit.OFFLOAD}
    assert candidates(log, Frame(sent=2)) == {}
    assert candidates(log, Frame(sent=5), WindowPolicy()) == {}
    assert candidates(log, Frame(sent=5, edits={3: "offload"})) == {}
    assert candidates(log, Frame(sent=5, zone=3)) == {}


def test_c3_class_two_are_results_and_arguments_from_200_tokens_on() -> None:
    small, large = "word " * 150, "word " * 250
    for text, expected in ((small, {}), (large, {3: Edit.OFFLOAD})):
        log = number(HumanMessage("q"), call("read", "a"), tool("a", text), HumanMessage("n"))
        assert candidates(log, Frame(sent=4)) == expected
    for text, expected in ((small, {}), (large, {2: Edit.OFFLOAD})):
        log = number(HumanMessage("q"), call("write", "a", content=text), tool("a", "ok"), HumanMessage("n"))
        assert candidates(log, Frame(sent=4)) == expected


def test_c4_reasoning_is_stripped_once_it_has_left_the_zone() -> None:
    thought = AIMessage(content="a", additional_kwargs={"reasoning_content": "because " * 9})
    assert candidates(number(HumanMessage("q"), thought, HumanMessage("n")), Frame(sent=3)) == {2: Edit.STRIP}


def test_c4_a_result_is_superseded_by_the_same_call_made_again() -> None:
    log = number(
        *(HumanMessage("q"), call("ls", "a", path=".", deep=1), tool("a", "x " * 60)),
        *(call("ls", "b", deep=1, path="."), tool("b", "y " * 60), HumanMessage("n")),
    )
    assert candidates(log, Frame(sent=6)) == {3: Edit.DROP}


def test_c4_an_error_or_other_arguments_supersede_nothing() -> None:
    for second, status in ((call("ls", "b", path="."), "error"), (call("ls", "b", path="src"), "success")):
        log = number(
            *(HumanMessage("q"), call("ls", "a", path="."), tool("a", "x " * 60)),
            *(second, tool("b", "y " * 60, status), HumanMessage("n")),
        )
        assert candidates(log, Frame(sent=6)) == {}


def test_c4_calls_that_share_an_id_are_told_apart_by_their_order() -> None:
    twins = AIMessage(
        content="",
        tool_calls=[
            ToolCall(name="ls", args={"p": "a"}, id="x"),
            ToolCall(name="ls", args={"p": "b"}, id="x"),
        ],
    )
    log = number(
        *(HumanMessage("q"), twins, tool("x", "of a " * 60), tool("x", "of b " * 60)),
        *(call("ls", "y", p="b"), tool("y", "of b again"), HumanMessage("n")),
    )
    # Only the listing of b was made again, and it is the second answer.
    assert candidates(log, Frame(sent=7), WindowPolicy(keep_messages=1, keep_tags=1, min_result=900)) == {
        4: Edit.DROP
    }


def test_c4_a_superseded_result_that_waits_keeps_its_place_in_the_queue() -> None:
    log = number(
        *(HumanMessage("q"), call("ls", "a"), tool("a"), call("ls", "b"), tool("b"), HumanMessage("n")),
    )
    frame = Frame(sent=6, zone=3, warm=9, pending={3: Pending(Edit.OFFLOAD, 100, 4)})
    found, _ = synced(log, frame).candidates(frame, SMALL, WIDE)
    assert found[3] == Pending(Edit.DROP, gain_of(log[2], 3, Edit.DROP), 4)


def test_gh_343_stubs_and_notes_are_no_candidates() -> None:
    log = number(
        *(HumanMessage("q"), call("read", "a"), tool("a", stub(3, LONG * 9, preview_tokens=500))),
        *(call("ctx_note", "b", text="word " * 250), tool("b", LONG, name="ctx_note"), HumanMessage("n")),
    )
    assert candidates(log, Frame(sent=6)) == {}


def test_g9_items_are_the_pending_edits_in_order_with_their_position_and_rent() -> None:
    log = number(HumanMessage("q"), call("read", "a"), tool("a"), HumanMessage("n"))
    pending = {3: Pending(Edit.OFFLOAD, 200, 2), 2: Pending(Edit.STRIP, 9, 1), 99: Pending(Edit.DROP, 5, 0)}
    frame = Frame(warm=5, pending=pending)
    view = synced(log, frame)
    assert view.items(frame) == [
        Item(2, Edit.STRIP, view.start(2), 9, 4),
        Item(3, Edit.OFFLOAD, view.start(3), 200, 3),
    ]
    frozen = frame.with_(edits={2: "strip"})
    assert [item.tag for item in view.items(frozen)] == [3]


def test_m11_what_was_told_is_not_in_the_tail() -> None:
    log = number(HumanMessage("q"), call("read", "a"), tool("a"), HumanMessage("n"))
    frame = Frame(boundary=3, pending={3: Pending(Edit.OFFLOAD, 200, 0)}, sent=4)
    view = synced(log, frame)
    assert list(view.tags) == [4]
    assert view.items(frame) == []
    assert synced(log, Frame(boundary=4)).last == 0


@settings(max_examples=100, deadline=None)
@given(logs())
def test_g10_a_position_is_what_the_request_weighs_before_the_message(log: list[BaseMessage]) -> None:
    view = synced(log)
    request = view.request()
    starts = [view.start(tag) for tag in view.tags]
    assert starts == sorted(starts)
    whole = [0]
    for message in request:
        whole.append(whole[-1] + count_message(message))
    assert set(starts) <= set(whole)


def test_c2_the_zone_takes_half_of_what_the_fixed_parts_leave_and_always_the_newest_arc() -> None:
    arcs = [(call("read", f"c{i}"), tool(f"c{i}", "word " * 100)) for i in range(12)]
    log = number(HumanMessage("q"), *(message for arc in arcs for message in arc))
    view = synced(log, Frame())
    wide = view.protected(WindowPolicy(), WIDE)
    assert view.protected(WindowPolicy(), WIDE, room=10**6) == wide
    tight = view.protected(WindowPolicy(), WIDE, room=800)
    assert tight > wide
    assert view.tokens - view.start(tight) <= 400
    assert view.protected(WindowPolicy(), WIDE, room=0) == view.latest_arc()

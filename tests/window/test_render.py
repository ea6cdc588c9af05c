import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

from headwater.window.face import NO_OUTPUT, NO_TEXT, gain_of, text_of
from headwater.window.frame import Edit, Frame
from headwater.window.marks import stamp
from headwater.window.render import CONTINUE, NO_RESULT, START, SYNTHETIC, Renderer, Texts, render
from headwater.window.stubs import dropped, holds_stub, is_stub, stub
from headwater.window.tokens import count_message
from tests.window.histories import IMAGE, LONG, THINKING, dumps, logs

HEAD = Texts(system="You are an agent.", baseline="<m0>", delta="<m1>")
heads = st.sampled_from([Texts(), Texts(system="S"), HEAD, Texts(baseline="<m0>"), Texts(contract="rules")])
edits = st.dictionaries(st.integers(1, 14), st.sampled_from(list(Edit)).map(str), max_size=6)
hints = st.dictionaries(st.integers(1, 14), st.sampled_from(["recall: x", "bad \udcb2"]), max_size=2)
frames = st.builds(Frame, boundary=st.integers(0, 8), edits=edits, hints=hints)


def number(*messages: BaseMessage) -> list[BaseMessage]:
    return [stamp(message, tag) for tag, message in enumerate(messages, 1)]


def ai(*ids: str, text: str = "") -> AIMessage:
    return AIMessage(content=text, tool_calls=[ToolCall(name="read", args={"path": i}, id=i) for i in ids])


def tool(call_id: str, text: str = "out", **more: str) -> ToolMessage:
    return ToolMessage(content=text, tool_call_id=call_id, name="read", **more)


def check_valid(request: Sequence[BaseMessage]) -> None:
    """The rules that every provider has in common; raises AssertionError at the first broken one."""
    systems = [at for at, m in enumerate(request) if isinstance(m, SystemMessage)]
    assert systems in ([], [0])
    said = list(request[len(systems) :])
    assert isinstance(said[0], HumanMessage)
    assert not isinstance(said[-1], AIMessage)
    seen: set[str] = set()
    at = 0
    while at < len(said):
        message = said[at]
        at += 1
        check_content(message)
        assert not isinstance(message, ToolMessage), "a result that answers no call"
        if not isinstance(message, AIMessage):
            continue
        assert not isinstance(said[at], AIMessage)
        assert not message.invalid_tool_calls
        ids = [str(call["id"]) for call in message.tool_calls]
        answers = said[at : at + len(ids)]
        assert sorted(ids) == sorted(m.tool_call_id for m in answers if isinstance(m, ToolMessage))
        for answer in answers:
            check_content(answer)
        at += len(ids)
        assert len({*ids}) == len(ids)
        assert not seen & {*ids}
        seen.update(ids)
        assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", name) for name in ids)
        assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", call["name"]) for call in message.tool_calls)
        if isinstance(message.content, list):
            uses = [b for b in message.content if isinstance(b, dict) and b.get("type") == "tool_use"]
            assert [use["id"] for use in uses] == ids[: len(uses)]


def check_content(message: BaseMessage) -> None:
    message.model_dump_json().encode("utf-8")
    if isinstance(message.content, str):
        calls = isinstance(message, AIMessage) and message.tool_calls
        assert message.content.strip() or (calls and message.content == "")
        return
    assert message.content or (isinstance(message, AIMessage) and message.tool_calls)
    for block in message.content:
        assert isinstance(block, dict)
        assert block.get("type") != "text" or block["text"].strip()


@settings(max_examples=300, deadline=None)
@given(logs(), frames, heads)
def test_m1_every_request_is_valid(log: list[BaseMessage], frame: Frame, texts: Texts) -> None:
    check_valid(render(frame, log, texts))


@settings(max_examples=60, deadline=None)
@given(logs())
def test_m1_a_log_without_numbers_renders_too(log: list[BaseMessage]) -> None:
    check_valid(render(Frame(), [m.model_copy(update={"additional_kwargs": {}}) for m in log]))


@settings(max_examples=100, deadline=None)
@given(logs(), frames, heads)
def test_m1_render_is_pure_and_leaves_the_log_alone(
    log: list[BaseMessage], frame: Frame, texts: Texts
) -> None:
    before = dumps(log)
    assert dumps(render(frame, log, texts)) == dumps(render(frame, log, texts))
    assert dumps(log) == before


@settings(max_examples=300, deadline=None)
@given(logs(max_size=18), frames, heads)
def test_g10_a_growing_log_gives_a_growing_request(
    log: list[BaseMessage], frame: Frame, texts: Texts
) -> None:
    whole = dumps(render(frame, log, texts))
    renderer = Renderer(frame, has_head=bool(texts.baseline or texts.delta))
    for read, message in enumerate(log, 1):
        renderer.feed(message)
        # A request is sent when a user or a tool has spoken and no call is open.
        if renderer.shown and not renderer.finish():
            earlier = dumps(render(frame, log[:read], texts))
            assert whole[: len(earlier)] == earlier


@given(logs(), st.integers(0, 14))
def test_m11_what_was_told_is_no_longer_sent(log: list[BaseMessage], boundary: int) -> None:
    renderer = Renderer(Frame(boundary=boundary), has_head=True)
    for message in log:
        renderer.feed(message)
    assert all(shown.tag == 0 or shown.tag > boundary for shown in renderer.shown)


def test_m11_a_summary_stands_for_its_range() -> None:
    log = number(HumanMessage("old question"), AIMessage("old answer"), HumanMessage("new question"))
    request = render(Frame(boundary=2), log, Texts(system="S", baseline="what happened so far"))
    assert [m.content for m in request] == ["S", "what happened so far", "§3§ new question"]
    assert len(log) == 3


def test_m27_what_the_frame_does_not_select_is_not_sent_and_still_in_the_log() -> None:
    log = number(HumanMessage("q"), ai("a"), tool("a", LONG), HumanMessage("next"))
    request = render(Frame(edits={3: Edit.OFFLOAD}), log)
    assert LONG not in "".join(text_of(m) for m in request)
    assert text_of(log[2]) == LONG


def test_e8_history_stands_right_after_the_head_in_a_user_block() -> None:
    request = render(Frame(boundary=1), number(HumanMessage("old"), HumanMessage("now")), HEAD)
    assert [m.type for m in request] == ["system", "human", "human", "human"]
    assert [m.content for m in request[1:]] == ["<m0>", "<m1>", "§2§ now"]


def test_users_23_synthetic_heads_are_marked_as_such() -> None:
    request = render(Frame(), number(HumanMessage("hi")), HEAD)
    assert [bool(m.additional_kwargs.get(SYNTHETIC)) for m in request] == [False, True, True, False]


def test_e9_without_history_there_is_no_block() -> None:
    request = render(Frame(), number(HumanMessage("hi")), Texts(system="S"))
    assert [m.type for m in request] == ["system", "human"]


def test_g24_m0_keeps_its_bytes_while_m1_and_the_tail_change() -> None:
    log = number(HumanMessage("one"), HumanMessage("two"))
    first = render(Frame(), log[:1], HEAD)
    second = render(Frame(), log, HEAD._replace(delta="<m1, newer>"))
    assert dumps(first)[:2] == dumps(second)[:2]
    assert first[2].content != second[2].content


def test_g8_human_and_tool_messages_show_their_tag_and_assistants_do_not() -> None:
    log = number(HumanMessage("q"), ai("a", text="hm"), tool("a"), HumanMessage([IMAGE]))
    request = render(Frame(), log)
    assert [m.content for m in request] == [
        *("§1§ q", "hm", "§3§ out"),
        [{"type": "text", "text": "§4§"}, IMAGE],
    ]


def test_case_2_two_results_of_one_turn_stay_or_leave_together() -> None:
    log = number(
        HumanMessage("q"), ai("1", "2"), tool("1", "x" * 5_000), tool("2", "y" * 200), HumanMessage("n")
    )
    for boundary in (2, 3):
        # Even a boundary that falls inside the arc leaves no half pair behind.
        check_valid(render(Frame(boundary=boundary), log, HEAD))
    kept = render(Frame(edits={3: Edit.OFFLOAD}), log)
    assert [m.tool_call_id for m in kept if isinstance(m, ToolMessage)] == ["1", "2"]


def test_case_3_exactly_one_result_an_id() -> None:
    log = number(HumanMessage("q"), ai("A", "B"), tool("A", "first"), tool("A", "again"), tool("B"))
    request = render(Frame(), log)
    check_valid(request)
    assert [m.tool_call_id for m in request if isinstance(m, ToolMessage)] == ["A", "B"]
    assert request[-1].content == "[late result of read] §4§ again"


def test_case_4_an_unanswered_call_gets_a_result_that_says_so() -> None:
    log = number(HumanMessage("q"), ai("X"))
    assert render(Frame(), log)[-1].content == NO_RESULT
    log += [stamp(HumanMessage("are you there?"), 3)]
    request = render(Frame(), log)
    check_valid(request)
    assert [m.content for m in request[-2:]] == [NO_RESULT, "§3§ are you there?"]


def test_users_4_a_call_left_open_is_closed_by_the_next_user_message_for_good() -> None:
    log = number(HumanMessage("q"), ai("X"), HumanMessage("go on"), tool("X", "at last"), HumanMessage("so?"))
    earlier, later = dumps(render(Frame(), log[:3])), dumps(render(Frame(), log))
    assert later[: len(earlier)] == earlier
    assert later[len(earlier)]["content"] == "[late result of read] §4§ at last"


@pytest.mark.parametrize("texts", [Texts(), Texts(system="S")])
def test_case_5_the_first_message_that_is_not_system_is_human(texts: Texts) -> None:
    log = number(HumanMessage("q"), ai("a"), tool("a"))
    request = render(Frame(boundary=1), log, texts)
    check_valid(request)
    assert request[-3].content == START


def test_case_29_the_goal_is_verbatim_and_once_after_two_compactions() -> None:
    goal = "Write the report as JSON."
    log = number(HumanMessage(goal), AIMessage("ok"), HumanMessage("a"), AIMessage("b"), HumanMessage("c"))
    for boundary in (2, 4):
        request = render(Frame(boundary=boundary), log, Texts(baseline=f"goal: {goal}"))
        assert sum(text_of(m).count(goal) for m in request) == 1


def test_case_38_a_request_built_twice_has_the_same_bytes() -> None:
    log = number(HumanMessage("q"), ai("a"), tool("a", LONG))
    frame = Frame(edits={3: Edit.OFFLOAD}, asked=1.0)
    assert dumps(render(frame, log, HEAD)) == dumps(render(frame.with_(asked=99.0, warm=7), log, HEAD))


def test_users_22_system_messages_in_the_middle_become_the_user_s() -> None:
    log = number(HumanMessage("q"), SystemMessage("be brief"), SystemMessage(""))
    request = render(Frame(), log, Texts(system="S", contract="from the log"))
    check_valid(request)
    assert [m.content for m in request] == [
        *("S\n\nfrom the log", "§1§ q", "§2§ [system] be brief"),
        f"§3§ [system] {NO_TEXT}",
    ]


def test_users_22_leading_system_messages_are_shown_once_in_the_contract() -> None:
    log = number(SystemMessage("rules"), HumanMessage("q"))
    request = render(Frame(lead=1), log, Texts(system="S", contract="rules"))
    assert [m.content for m in request] == ["S\n\nrules", "§2§ q"]


def test_m10_the_stub_of_a_system_message_names_the_bytes_of_its_text() -> None:
    log = number(HumanMessage("q"), SystemMessage(LONG))
    shown = str(render(Frame(edits={2: Edit.OFFLOAD}), log)[-1].content)
    assert shown == f"§2§ [system] {stub(2, LONG, preview_tokens=300)}"


def test_users_21_empty_parts_are_filled_and_pairs_kept() -> None:
    log = number(
        HumanMessage(" "), ai("a", "b"), tool("a", ""), tool("b", "\n"), AIMessage(""), HumanMessage([])
    )
    request = render(Frame(), log)
    check_valid(request)
    assert [m.content for m in request] == [
        *(f"§1§ {NO_TEXT}", "", f"§3§ {NO_OUTPUT}", f"§4§ {NO_OUTPUT}", NO_TEXT, f"§6§ {NO_TEXT}")
    ]


def test_users_34_thinking_of_a_kept_turn_is_byte_identical() -> None:
    content: list[str | dict[Any, Any]] = [THINKING, {"type": "text", "text": "so"}]
    log = number(HumanMessage("q"), AIMessage(content=content, tool_calls=ai("a").tool_calls), tool("a"))
    assert render(Frame(), log)[1].content == content
    stripped = render(Frame(edits={2: Edit.STRIP}), log)[1]
    assert stripped.content == [{"type": "text", "text": "so"}]
    assert isinstance(stripped, AIMessage)
    assert stripped.tool_calls == ai("a").tool_calls


def test_case_34_reasoning_content_stays_in_a_tool_turn_until_it_is_stripped() -> None:
    message = ai("a").model_copy(update={"additional_kwargs": {"reasoning_content": "because", "odd": 1}})
    log = number(HumanMessage("q"), message, tool("a"))
    kept = render(Frame(), log)[1].additional_kwargs
    assert kept == {"reasoning_content": "because", "odd": 1}, "what a client keeps there it wants back"
    assert render(Frame(edits={2: Edit.STRIP}), log)[1].additional_kwargs == {"odd": 1}


def test_c6_an_offloaded_result_keeps_its_pair_and_names_its_path() -> None:
    log = number(HumanMessage("q"), ai("a"), tool("a", LONG, status="error"))
    result = render(Frame(edits={3: Edit.OFFLOAD}), log)[-1]
    assert isinstance(result, ToolMessage)
    assert result.content == f"§3§ {stub(3, LONG)}"
    assert (result.tool_call_id, result.status, result.name) == ("a", "error", "read")


@pytest.mark.parametrize("edit", [Edit.DROP, Edit.SKELETON])
def test_g31_a_dropped_result_keeps_its_pair(edit: Edit) -> None:
    log = number(HumanMessage("q"), ai("a"), tool("a", LONG))
    request = render(Frame(edits={3: edit}), log)
    check_valid(request)
    assert request[-1].content == dropped(3)


def test_gh_343_a_stub_is_never_stubbed_again() -> None:
    inner = stub(3, LONG)
    log = number(HumanMessage("q"), ai("a"), tool("a", inner))
    assert render(Frame(edits={3: Edit.OFFLOAD}), log)[-1].content == f"§3§ {inner}"
    assert gain_of(log[2], 3, Edit.OFFLOAD) == 0


def test_users_3_a_long_result_that_quotes_a_stub_is_offloaded_all_the_same() -> None:
    log = number(HumanMessage("q"), ai("a"), tool("a", LONG + stub(9, "x" * 999) + LONG))
    assert len(str(render(Frame(edits={3: Edit.OFFLOAD}), log)[-1].content)) < 600
    assert gain_of(log[2], 3, Edit.OFFLOAD) > 100


def test_users_10_offloaded_arguments_are_stubs_that_a_write_refuses() -> None:
    call = ToolCall(name="write", args={"path": "a.py", "content": LONG}, id="a")
    log = number(HumanMessage("q"), AIMessage(content="", tool_calls=[call]), tool("a"))
    message = render(Frame(edits={2: Edit.OFFLOAD}), log)[1]
    assert isinstance(message, AIMessage)
    args = message.tool_calls[0]["args"]
    assert args["path"] == "a.py"
    assert is_stub(args["content"])
    assert holds_stub(args)
    assert call["args"]["content"] == LONG


def test_case_65_a_lone_surrogate_reaches_no_client() -> None:
    bad = "a\udcb2b"
    call = ToolCall(name="w\udcb2", args={bad: [bad]}, id=bad)
    message = AIMessage(content=[{"type": "thinking", "thinking": bad}, bad], tool_calls=[call])
    log = number(HumanMessage(bad), message, ToolMessage(bad, tool_call_id=bad, name=bad), SystemMessage(bad))
    for edit in ("", *map(str, Edit)):
        request = render(
            Frame(edits=dict.fromkeys(range(1, 5), edit), hints={1: bad, 3: bad}),
            log,
            Texts(bad, bad, bad, bad),
        )
        check_valid(request)


def test_a_malformed_call_is_sent_as_one_that_is_well_formed() -> None:
    bad = {"name": None, "args": '{"path": ', "id": "a", "error": "no JSON", "type": "invalid_tool_call"}
    log = number(
        HumanMessage("q"), AIMessage(content="", invalid_tool_calls=[bad]), tool("a", "error: no JSON")
    )
    request = render(Frame(), log)
    check_valid(request)
    message = request[1]
    assert isinstance(message, AIMessage)
    assert message.tool_calls[0]["args"] == {"malformed_arguments": '{"path": '}
    assert message.tool_calls[0]["name"] == "unknown"


def test_ids_that_repeat_across_turns_are_told_apart() -> None:
    log = number(
        HumanMessage("q"), ai("c"), tool("c", "1"), ai("c"), tool("c", "2"), ai("c", "c"), tool("c", "3")
    )
    request = render(Frame(), log)
    check_valid(request)
    answers = {m.tool_call_id: m.content for m in request if isinstance(m, ToolMessage)}
    assert answers == {"c": "§3§ 1", "call-4-0": "§5§ 2", "call-6-0": "§7§ 3", "call-6-1": NO_RESULT}


def test_a_late_result_that_a_complete_arc_has_shown_stays_where_it_is() -> None:
    log = number(HumanMessage("q"), ai("a"), tool("x", "1"), tool("a"), tool("y", "2"))
    assert [text_of(m) for m in render(Frame(), log)][2:] == [
        *("§4§ out", "[late result of read] §3§ 1", "[late result of read] §5§ 2")
    ]


def test_e14_a_hint_stands_behind_its_message_wherever_that_is_shown() -> None:
    log = number(HumanMessage("q"), ai("a"), tool("a"), tool("z"), HumanMessage([IMAGE]))
    request = render(Frame(hints=dict.fromkeys((1, 3, 4, 5), "[task note] keep it")), log)
    noted = [text_of(m).endswith("[task note] keep it") for m in request]
    assert noted == [True, False, True, True, True]


def test_consecutive_assistant_messages_are_parted() -> None:
    request = render(Frame(), number(AIMessage("a"), AIMessage("b")))
    assert [m.content for m in request] == [START, "a", CONTINUE, "b", CONTINUE]
    assert [m.content for m in render(Frame(), [])] == [START]
    assert [m.content for m in render(Frame(), [], Texts(baseline="m0"))] == ["m0", CONTINUE]


def test_case_30_what_an_image_shows_is_not_offloaded_and_stays_with_a_late_result() -> None:
    result = ToolMessage([{"type": "text", "text": LONG}, IMAGE], tool_call_id="x", name="look")
    for edit in Edit:
        assert gain_of(result, 2, edit) == 0
    late = render(Frame(), number(HumanMessage("q"), result))[-1]
    assert late.content[0] == {"type": "text", "text": "[late result of look]"}
    assert late.content[-1] == IMAGE


@settings(max_examples=100, deadline=None)
@given(logs(), st.sampled_from([edit for edit in Edit if edit is not Edit.CLOSE]))
def test_m16_an_edit_frees_what_its_gain_says(log: list[BaseMessage], edit: Edit) -> None:
    for tag, message in enumerate(log, 1):
        gain = gain_of(message, tag, edit)
        if gain <= 0:
            continue
        plain, edited = Renderer(Frame(), has_head=True), Renderer(Frame(edits={tag: edit}), has_head=True)
        plain.feed(message)
        edited.feed(message)
        before = sum(count_message(m) for m in [*(s.message for s in plain.shown), *plain.finish()])
        after = sum(count_message(m) for m in [*(s.message for s in edited.shown), *edited.finish()])
        assert before - after == gain


@pytest.mark.parametrize("rule", ["Never open valve V-113.", "不要使用 pump-9。"])
def test_e14_a_pin_stays_in_sight_where_its_message_is_offloaded(rule: str) -> None:
    pasted = "\n".join(f"Row {i} of the table is as it was before." for i in range(400))
    log = number(HumanMessage("hello"), HumanMessage(f"{pasted}\n{rule}\n{pasted}"))
    shown = str(render(Frame(edits={2: Edit.OFFLOAD}), log)[-1].content)
    assert rule in shown.splitlines()
    assert len(shown) < 2_500

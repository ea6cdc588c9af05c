import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from headwater.window.marks import TagError, mark, parse_ranges, stamp, strip_echo, tag_of, unstamped


@given(st.integers(1, 9_999_999))
def test_g8_a_tag_goes_with_its_message_and_comes_off_again(tag: int) -> None:
    message = HumanMessage(content="x", additional_kwargs={"own": 1})
    stamped = stamp(message, tag)
    assert tag_of(stamped) == tag
    assert tag_of(message) == 0
    assert mark(tag) == f"§{tag}§"
    assert unstamped(stamped) == message
    assert stamped.model_copy(deep=True).additional_kwargs == {"own": 1, "headwater": tag}


def test_g8_a_foreign_stamp_counts_as_none() -> None:
    assert tag_of(HumanMessage(content="x", additional_kwargs={"headwater": "7"})) == 0
    message = ToolMessage(content="x", tool_call_id="1")
    assert unstamped(message) is message


def test_users_11_marks_copied_by_the_model_are_stripped() -> None:
    assert strip_echo(AIMessage(content="§3§ §3§ done, see §12§.")).content == "done, see ."
    assert strip_echo(AIMessage(content="价格 §9§ 元")).content == "价格 元"
    blocks: list[str | dict[str, str]] = [
        {"type": "thinking", "thinking": "§4§ hm"},
        {"type": "text", "text": "§4§ ok"},
        "§5§ bare",
    ]
    stripped = strip_echo(AIMessage(content=blocks))
    assert stripped.content == [blocks[0], {"type": "text", "text": "ok"}, "bare"]


def test_users_11_a_message_without_marks_is_the_same_object() -> None:
    for content in (
        "see sections 5 and 6",
        "",
        [{"type": "text", "text": "x"}],
        [{"type": "text", "text": None}],
    ):
        message = AIMessage(content="").model_copy(update={"content": content})
        assert strip_echo(message) is message


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("3-5,8", [3, 4, 5, 8]),
        ("§12§", [12]),
        ("§3§-§5§", [3, 4, 5]),
        ("3 - 5", [3, 4, 5]),
        ("3 – 5; 9", [3, 4, 5, 9]),
        ("8，3、5；1", [8, 3, 5, 1]),
        (" 7 7\n7 ", [7]),
        ("1-1000", list(range(1, 1_001))),
        ("1-1000,5", list(range(1, 1_001))),
    ],
)
def test_g9_ranges_are_read(text: str, tags: list[int]) -> None:
    assert parse_ranges(text) == tags


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("5-3", "3-5"),
        ("", "no tag"),
        (",", "no tag"),
        ("all", "not a tag"),
        ("3-", "not a tag"),
        ("-3", "not a tag"),
        ("1-1001", "1,000"),
        ("1-900,2000-2900", "1,000"),
        ("1-9999999", "1,000"),
    ],
)
def test_g9_ranges_that_cannot_be_are_refused(text: str, words: str) -> None:
    with pytest.raises(TagError, match=words):
        parse_ranges(text)


def test_users_12_tags_the_session_does_not_have_are_refused() -> None:
    assert parse_ranges("2-3", known=[1, 2, 3]) == [2, 3]
    with pytest.raises(TagError, match="§4§"):
        parse_ranges("3-4", known=[1, 2, 3])


@given(st.lists(st.integers(1, 5_000), min_size=1, max_size=50))
def test_g9_what_is_written_as_tags_is_read_as_the_same_tags(tags: list[int]) -> None:
    assert parse_ranges(", ".join(map(mark, tags))) == list(dict.fromkeys(tags))

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from headwater.window.answer import CATEGORIES, parse_summary
from headwater.window.audit import ANCHOR_TOKENS, reject, repair, required_identifiers
from headwater.window.compartments import WorkState
from headwater.window.cues import language_of
from headwater.window.tokens import count_text


@pytest.mark.parametrize(
    "summary",
    [
        "The disk, the network and so on.",
        "Checked disk, network, etc.",
        "Checked disk, network (memory, etc.)",
        "Checked disk, network, and more",
        "Then the build was fixed...",
        "检查了磁盘、网络等等。",
        "检查了磁盘、网络之类的",
        "检查了磁盘、网络等。",
        "检查了磁盘……",
        "检查了 disk、network，etc.",
    ],
)
def test_e12_a_vague_ending_is_rejected(summary: str) -> None:
    assert (reject(summary, 1000) or "").startswith("vague ending")


@pytest.mark.parametrize(
    "summary",
    [
        "The user dislikes “and so on”.",
        'The digest must not end in "etc."',
        "Files under /etc were checked, etc. was removed from the text, and the build passed.",
        "用户说不要写“等等”。",
        "等等、之类的词被禁止，构建已通过。",
        "两个值相等。",
        "Fixed the `...` operator in parser.py.",
    ],
)
def test_e12_a_quoted_or_earlier_vague_word_is_not(summary: str) -> None:
    assert reject(summary, 1000) is None


@pytest.mark.parametrize(
    "summary", ["", "  \n", "null", "None.", '"null"', "N/A", "{}", "[]", "...", "无", "```\n```"]
)
def test_an_empty_summary_is_rejected(summary: str) -> None:
    assert (reject(summary, 1000) or "").startswith("empty")


@pytest.mark.parametrize("reason", ["length", "max_tokens", "MAX_TOKENS"])
def test_a_summary_cut_at_the_output_cap_is_rejected(reason: str) -> None:
    assert (reject("The user chose B.", 1000, finish_reason=reason) or "").startswith("truncated")
    assert reject("The user chose B.", 1000, finish_reason="stop") is None


@pytest.mark.parametrize(
    "summary",
    [
        "The user chose B and the",
        "The files are:",
        "The user chose B (not",
        "用户选了 B，",
        "用户选了方案B和",
        "Run this:\n```\nmake test",
        "One is done. Two is done. The third one was about to be moved over into the other",
        "先修了解析器。再修了缓存。然后开始迁移用户数据库的表结构并且把旧的索引",
    ],
)
def test_a_summary_that_ends_mid_sentence_is_rejected(summary: str) -> None:
    assert (reject(summary, 1000) or "").startswith("truncated")


@pytest.mark.parametrize(
    "summary",
    [
        "- chose B\n- port 5432",
        "The user chose B. Tests pass. Port: 5432",
        "U: go with B\nA: done. Tests pass. ok",
        "已完成。测试通过。端口 5432",
    ],
)
def test_a_summary_without_a_final_full_stop_may_be_whole(summary: str) -> None:
    assert reject(summary, 1000) is None


@pytest.mark.parametrize(
    "summary",
    [
        '{"name": "read_file", "arguments": {"path": "a"}}',
        '```json\n[{"tool": "x"}]\n```',
        '<tool_call>\n{"name": "x"}\n</tool_call>',
        "I will look.\n<function_calls>\n<invoke name='x'>",
        "[TOOL_CALLS] x",
    ],
)
def test_a_tool_call_is_no_summary(summary: str) -> None:
    assert (reject(summary, 1000) or "").startswith("tool call")


def test_talk_about_a_tool_call_is_a_summary() -> None:
    assert reject("The parser dropped `<tool_call>` tags; fixed in wire.py.", 1000) is None


def test_a_summary_that_is_not_smaller_is_rejected() -> None:
    text = "The user chose plan B."
    assert reject(text, count_text(text)) == f"not smaller: {count_text(text)} tokens for {count_text(text)}"
    assert reject(text, count_text(text) + 1) is None


def test_a_summary_in_another_language_than_the_users_is_rejected() -> None:
    assert reject("用户选择了方案B。", 1000, language="en") == "language 'zh' instead of the user's 'en'"
    assert reject("The user chose plan B.", 1000, language="zh") == "language 'en' instead of the user's 'zh'"
    assert reject("用户选择了 plan B，改了 src/app.py 和 max_client_conn。", 1000, language="zh") is None
    assert reject("The user chose plan B.", 1000, language="und") is None


def test_required_identifiers_are_the_users_and_those_of_decisions() -> None:
    messages = [
        HumanMessage("See src/app.py on port 5432.\n```\nHIDDEN_NAME=1\n```\nNever touch main_db."),
        AIMessage("I looked at other_file.py. We decided to use sqlite_store."),
        ToolMessage("noise_name", tool_call_id="1"),
    ]
    assert required_identifiers(messages) == ["main_db", "sqlite_store", "src/app.py", "5432"]


def test_repair_appends_what_was_lost_as_one_line() -> None:
    assert (
        repair("The user chose B.\n", ["main_db", "B", "5432"])
        == "The user chose B.\nAnchors: main_db · 5432"
    )
    assert repair("用户选了 B。", ["main_db"]) == "用户选了 B。\n要点：main_db"
    assert repair("Uses main_db.\n", ["main_db"]) == "Uses main_db.\n"
    assert repair("", ["main_db"]) == "Anchors: main_db"


def test_repair_does_not_take_a_part_for_the_whole() -> None:
    assert repair("Port 8080 is open.", ["80"]).endswith("Anchors: 80")
    assert repair("端口80已开。", ["80"]) == "端口80已开。"


def test_repair_extends_the_line_that_is_there() -> None:
    once = repair("Done.", ["a1"])
    assert repair(once, ["a1", "b2"]) == "Done.\nAnchors: a1 · b2"


names = st.lists(st.text(min_size=1, max_size=30), max_size=30)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200), names, st.integers(10, ANCHOR_TOKENS))
def test_repair_is_idempotent_and_bounded(p1: str, required: list[str], limit: int) -> None:
    once = repair(p1, required, limit=limit)
    assert repair(once, required, limit=limit) == once
    if once != p1 and not p1.rstrip().rpartition("\n")[2].startswith(("Anchors: ", "要点：")):
        assert count_text(once.rpartition("\n")[2] if "\n" in once else once) <= limit + count_text(p1)


plain = st.lists(
    st.from_regex(
        r"[a-z]{2,6}_[a-z0-9]{1,6}|/srv/[a-z]{1,8}\.py|\d{2,5} ?ms|v\d\.\d|端口 \d{4}", fullmatch=True
    ),
    max_size=15,
)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200), plain)
def test_a_repaired_summary_has_every_required_name(p1: str, required: list[str]) -> None:
    repaired = repair(p1, required)
    assert all(name in repaired for name in required)
    assert p1.strip() in repaired


def test_repair_of_a_worthless_summary_keeps_what_the_user_named() -> None:
    messages = [
        HumanMessage("Use port 5433 and conf/pgbouncer.ini; timeout 30s, release v1.21.0, ticket OPS-17.")
    ]
    required = required_identifiers(messages)
    assert set(required) >= {"5433", "conf/pgbouncer.ini", "30s", "v1.21.0", "OPS-17"}
    assert all(name in repair("Work was done.", required) for name in required)


ANSWER = {
    "title": "Pool size",
    "p1": "The user asked why orders time out. The pool was too small. It was raised to 400. Tests pass now.",
    "p2": "The pool was raised to 400.",
    "importance": "70",
    "episode": "debugging",
    "facts": [
        {"category": "config values", "content": "max_client_conn = 400"},
        "You must not restart the primary.",
        {"category": "NAMING", "content": " "},
    ],
    "work": {"goal": "fix", "decisions": ["plan B"], "files_read": ["a.py"]},
}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(ANSWER),
        f"```json\n{json.dumps(ANSWER, indent=2)}\n```",
        f"Note {{x}}: here you are {json.dumps(ANSWER)} Hope this helps {{}}!",
        json.dumps(ANSWER)[:-1] + ",}",
        '<think>{"a": 1}</think>' + json.dumps(ANSWER),
    ],
)
def test_the_historians_answer_is_read_fenced_or_chatty(text: str) -> None:
    read = parse_summary(text)
    assert read is not None
    assert (read.title, read.p1, read.importance, read.episode) == (
        "Pool size",
        ANSWER["p1"],
        70,
        "debugging",
    )
    assert read.facts == (
        ("CONFIG_VALUES", "max_client_conn = 400"),
        ("CONSTRAINTS", "You must not restart the primary."),
    )
    assert read.work == WorkState("fix", decisions=("plan B",), files_read=("a.py",))


def test_g14_missing_tiers_are_derived_at_sentence_ends() -> None:
    read = parse_summary(json.dumps({"p1": "One is done. Two is done. Three is done. " * 20}))
    assert read is not None
    sizes = [count_text(text) for text in (read.p1, read.p2, read.p3, read.p4)]
    assert sizes == sorted(sizes, reverse=True)
    assert all(text.endswith("done.") and read.p1.startswith(text) for text in (read.p2, read.p3, read.p4))
    assert read.title


def test_g14_a_tier_longer_than_the_one_above_is_replaced() -> None:
    read = parse_summary(json.dumps({"p1": "Short and whole.", "p2": "A much longer second tier. " * 9}))
    assert read is not None
    assert read.p2 == "Short and whole."


def test_g22_every_fact_has_one_of_five_categories() -> None:
    read = parse_summary(
        '{"facts": {"naming": ["files are snake_case"], "other": ["timeout is 30 s", "a queue feeds it"]}}'
    )
    assert read is not None
    assert [fact.category for fact in read.facts] == ["NAMING", "CONFIG_VALUES", "ARCHITECTURE"]
    assert {fact.category for fact in read.facts} <= set(CATEGORIES)
    assert read.p1 == ""


def test_c9_the_compartment_carries_the_merged_state() -> None:
    read = parse_summary(json.dumps(ANSWER))
    assert read is not None
    told = read.compartment(3, 9, WorkState("older goal", ("no MySQL",)))
    assert told.work == WorkState("fix", ("no MySQL",), decisions=("plan B",), files_read=("a.py",))
    assert (told.first, told.last, told.source) == (3, 9, "model")


@pytest.mark.parametrize("text", ["", "no json", "{", "[1, 2]", '{"other": 1}', "{" * 5000, '{"p1": '])
def test_what_holds_no_answer_is_none(text: str) -> None:
    assert parse_summary(text) is None


@given(st.text(max_size=300))
def test_any_text_is_audited_without_an_error(text: str) -> None:
    reject(text, 100, language=language_of(text))
    parse_summary(text)

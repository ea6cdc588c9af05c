"""Recorded sessions: every row a message, oddities kept and named, anything else refused."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from headwater.lab.provider import Reply, StrictProvider, ToolCall, recorded
from headwater.lab.sessions import NotASession, find_anomalies, load_session, turns

SHARED = Path(__file__).parents[2].parent / "shared"
SESSIONS = SHARED / "data" / "sessions"
needs_shared = pytest.mark.skipif(not SESSIONS.exists(), reason="needs ../shared")


def call(call_id: str, arguments: Any = '{"path": "a.py"}', name: str = "read") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


ROWS: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    # U+2028 inside a string is no line end.
    {"role": "user", "content": "看一下\u2028a.py", "_meta": {"ts": "2026-02-13T21:53:53.710Z"}},
    {
        "role": "assistant",
        "content": "",
        "reasoning": "I should read it.",
        "tool_calls": [call("1"), call("2", '{"path":')],
        "_meta": {"ts": 1772900065056, "model": "m", "usage": {"input": 9, "output": 3}},
    },
    {"role": "tool", "tool_call_id": "1", "name": "read", "content": "", "_meta": {"is_error": True}},
    {"role": "tool", "tool_call_id": "2", "name": "read", "content": "\x1b[31mred\x1b[0m"},
    {"role": "assistant", "content": "done"},
    {"role": "assistant", "content": "really"},
    {"role": "system", "content": "Now in French."},
    {
        "role": "user",
        "content": [{"type": "text", "text": "et"}, {"type": "image_url", "image_url": {"url": "u"}}],
    },
    {"role": "assistant", "content": None, "tool_calls": [call("1")]},
]


def test_every_row_becomes_its_message(tmp_path: Path) -> None:
    session = load_session(write(tmp_path / "s.jsonl", *ROWS))
    assert session.name == "s"
    assert [m.type for m in session.messages] == [
        "system", "human", "ai", "tool", "tool", "ai", "ai", "system", "human", "ai",
    ]  # fmt: skip
    asked, answer, failed = session.messages[1:4]
    assert asked.content == "看一下\u2028a.py"
    assert isinstance(answer, AIMessage)
    assert answer.tool_calls == [{"name": "read", "args": {"path": "a.py"}, "id": "1", "type": "tool_call"}]
    assert [(c["id"], c["args"]) for c in answer.invalid_tool_calls] == [("2", '{"path":')]
    assert answer.additional_kwargs["reasoning_content"] == "I should read it."
    assert answer.response_metadata["model_name"] == "m"
    assert isinstance(failed, ToolMessage)
    assert (failed.name, failed.status, failed.content) == ("read", "error", "")
    assert session.messages[8].content == ROWS[8]["content"]
    assert session.times[:4] == [None, 1771019633.71, 1772900065.056, None]
    assert session.usage[1:3] == [None, {"input": 9, "output": 3}]


def test_oddities_are_named_with_their_row(tmp_path: Path) -> None:
    session = load_session(write(tmp_path / "s.jsonl", *ROWS))
    assert [tuple(a.split(": ")[:2]) for a in session.anomalies] == [
        ("malformed_arguments", "row 2"),
        ("empty_tool", "row 3"),
        ("ansi", "row 4"),
        ("consecutive_ai", "row 6"),
        ("mid_system", "row 7"),
        ("duplicate_call_id", "row 9"),
        ("unanswered_call", "row 9"),
    ]


def test_results_out_of_place_are_named() -> None:
    ask = {"name": "read", "args": {}, "id": "a"}
    found = find_anomalies(
        [
            HumanMessage("go"),
            AIMessage("", tool_calls=[ask]),
            HumanMessage("wait"),
            ToolMessage("1", tool_call_id="a"),
            ToolMessage("1", tool_call_id="a"),
            ToolMessage("?", tool_call_id="z"),
            AIMessage(""),
            HumanMessage(""),
        ]
    )
    assert Counter(text.split(":")[0] for text in found) == Counter(
        ["nonadjacent_result", "duplicate_result", "orphan_result", "empty_ai", "empty_human"]
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "no rows"),
        ("not json\n", "line 1 is not JSON"),
        ('{"role": "user", "content": "x"}\n[1]\n', "line 2 is no message"),
        ('{"role": "narrator", "content": "x"}\n', "line 1 is no message"),
        ('{"role": "user"}\n', "line 1 is no message"),
        ('{"role": "user", "content": 7}\n', "line 1 has content 7"),
        ('{"role": "tool", "content": "x"}\n', "without tool_call_id"),
        ('{"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}\n', "line 1 has tool call"),
    ],
)
def test_what_is_no_session_is_refused_with_what_was_expected(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(NotASession, match="expected JSON Lines") as refusal:
        load_session(path)
    assert found in str(refusal.value)
    assert str(path) in str(refusal.value)


def test_binary_is_no_session(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(NotASession, match="line 1 is not JSON"):
        load_session(path)


def test_turns_pair_inputs_with_the_replies_they_got(tmp_path: Path) -> None:
    first, second = turns(load_session(write(tmp_path / "s.jsonl", *ROWS)))
    assert [m.type for m in first.inputs] == ["system", "human"]
    assert [[r.tool_call_id for r in results] for _, results in first.replies] == [["1", "2"], [], []]
    assert [m.type for m in second.inputs] == ["system", "human"]
    assert [results for _, results in second.replies] == [[]]


_ROW = st.one_of(
    st.sampled_from(["system", "user"]).map(lambda role: {"role": role, "content": "x"}),
    st.lists(st.sampled_from("abc"), max_size=3).map(
        lambda ids: {"role": "assistant", "content": "y", "tool_calls": [call(i) for i in ids]}
    ),
    st.sampled_from("abc").map(lambda i: {"role": "tool", "tool_call_id": i, "content": "z"}),
)


@given(rows=st.lists(_ROW, min_size=1, max_size=20))
def test_turns_hold_every_message_exactly_once(tmp_path_factory: pytest.TempPathFactory, rows: Any) -> None:
    session = load_session(write(tmp_path_factory.mktemp("s") / "s.jsonl", *rows))
    held = [
        message
        for turn in turns(session)
        for message in (*turn.inputs, *(m for reply, results in turn.replies for m in (reply, *results)))
    ]
    assert sorted(map(id, held)) == sorted(map(id, session.messages))
    assert [m for m in held if m.type != "tool"] == [m for m in session.messages if m.type != "tool"]


def test_recorded_plays_the_assistant_messages_in_order(tmp_path: Path) -> None:
    replies = recorded(load_session(write(tmp_path / "s.jsonl", *ROWS)))
    assert replies[0] == Reply(
        "", (ToolCall("read", {"path": "a.py"}, "1"), ToolCall("read", '{"path":', "2")), "I should read it."
    )
    assert [r.text for r in replies[1:]] == ["done", "really", ""]
    with StrictProvider(replies) as provider:
        said = provider.openai().invoke([SystemMessage("s"), HumanMessage("go")])
    assert isinstance(said, AIMessage)
    assert [c["id"] for c in said.tool_calls] == ["1"]
    assert [c["args"] for c in said.invalid_tool_calls] == ['{"path":']


@needs_shared
def test_all_57_sessions_load_with_the_oddities_their_manifest_counts() -> None:
    manifest = {entry["file"]: entry for entry in json.loads((SESSIONS / "manifest.json").read_text())}
    kinds = {
        "dup_call_ids": "duplicate_call_id",
        "orphan_results": "orphan_result",
        "unanswered_calls": "unanswered_call",
        "nonadjacent_results": "nonadjacent_result",
        "empty_assistant": "empty_ai",
        "empty_user": "empty_human",
        "empty_tool": "empty_tool",
        "consec_user": "consecutive_human",
        "consec_assistant": "consecutive_ai",
    }
    for name, entry in manifest.items():
        session = load_session(SESSIONS / name)
        seen = Counter(anomaly.split(":")[0] for anomaly in session.anomalies)
        assert {key: seen[kind] for key, kind in kinds.items()} == {key: entry[key] for key in kinds}, name
        roles = Counter({"human": "user", "ai": "assistant"}.get(m.type, m.type) for m in session.messages)
        assert roles == entry["roles"], name
        held = sum(len(t.inputs) + sum(1 + len(r) for _, r in t.replies) for t in turns(session))
        assert held == len(session.messages) == entry["messages"], name
    assert len(manifest) == 57

"""A file that ends in the middle: what is complete in it is a session, and nothing half is ever in it."""

import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from headwater.lab.sessions import NotASession, load_session

CALL = {"id": "c1", "type": "function", "function": {"name": "list", "arguments": '{"of": "a, [b] {c}"}'}}
OPENAI = [
    {"role": "system", "content": 'Say "yes" \\ or [no'},
    {"role": "user", "content": [{"type": "text", "text": "列出文件"}, {"type": "text", "text": "all }"}]},
    {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "a\nb"},
    {"role": "assistant", "content": "Two."},
]
TOOL = {
    "type": "tool",
    "callID": "t1",
    "tool": "bash",
    "state": {"status": "completed", "input": {}, "output": "x"},
}
OPENCODE = [
    {"info": {"id": "m1", "role": "user"}, "parts": [{"type": "text", "text": "Go"}]},
    {"info": {"id": "m2", "role": "assistant"}, "parts": [{"type": "step-start"}, TOOL]},
    {"info": {"id": "m3", "role": "assistant"}, "parts": [{"type": "text", "text": "Done."}]},
]
GRAPH = [
    {"type": "human", "content": "Hi", "id": "1"},
    {"type": "ai", "content": "", "tool_calls": [{"name": "f", "args": {"a": [1]}, "id": "c"}], "id": "2"},
    {"type": "tool", "content": "r", "tool_call_id": "c", "id": "3"},
    {"type": "ai", "content": "Done.", "id": "4"},
]
TURN = {"requestId": "r", "message": {"text": "Hi"}, "response": [{"value": "Yo"}, {"value": " there"}]}


def asked(number: int) -> dict[str, Any]:
    said, answer = OPENAI[: 2 * number], OPENAI[2 * number]
    times = {"start_time": f"2026-01-01T00:00:0{number}"}
    return {"run_type": "llm", "inputs": {"messages": said}, "outputs": {"message": answer}, **times}


FILES: dict[str, Any] = {
    "openai": {"model": "m", "messages": OPENAI, "tools": [{"type": "function"}], "n": 1},
    "openai, an array": OPENAI,
    "anthropic": {
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "r"}]},
        ],
    },
    "opencode": {"info": {"id": "s"}, "messages": OPENCODE},
    "langgraph": {"values": {"messages": GRAPH}, "next": [], "metadata": {"step": 3}},
    "langgraph history": [{"values": {"messages": GRAPH}}, {"values": {"messages": GRAPH[:1]}}],
    "langsmith": {"run_type": "chain", "inputs": {}, "child_runs": [asked(1), asked(2)], "outputs": {}},
    "copilot chat": {"requests": [TURN, TURN, TURN], "sessionId": "s"},
    "codex, saved whole": {
        "session": {"id": "s", "instructions": "Be."},
        "items": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"},
            {"type": "function_call_output", "call_id": "c", "output": "r"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yo"}]},
        ],
    },
}


def said(path: Path) -> list[tuple[str, str, Any]]:
    return [(m.type, str(m.content), getattr(m, "tool_calls", None)) for m in load_session(path).messages]


@pytest.mark.parametrize(("indent", "stride"), [(None, 2), (1, 13)])
@pytest.mark.parametrize("kind", FILES)
def test_wherever_a_file_is_cut_what_loads_begins_the_whole(
    tmp_path: Path, kind: str, indent: int | None, stride: int
) -> None:
    """Cut behind every character, or every few: complete messages in order, as many as there are."""
    path = tmp_path / "s.json"
    text = json.dumps(FILES[kind], indent=indent, ensure_ascii=False)
    path.write_text(text, encoding="utf-8")
    whole = said(path)
    most = 0
    for end in range(1, len(text), stride):
        path.write_text(text[:end], encoding="utf-8")
        try:
            found = said(path)
        except NotASession:
            assert not most, f"cut at {end}: what loaded before is refused"
            continue
        assert found == whole[: len(found)], f"cut at {end}: {text[max(0, end - 40) : end]}"
        assert len(found) >= most, f"cut at {end}: less than what loaded before"
        most = len(found)
    assert most >= len(whole) - (stride > 1)
    assert [a for a in load_session(path).anomalies if a.startswith("cut_file: ")]


def test_what_is_broken_in_the_middle_or_no_session_is_still_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    whole = json.dumps({"messages": OPENAI})
    for text in (
        whole.replace('"system"', "system", 1),
        whole.replace("]", ")", 1)[:-9],
        '{"rows": [{"a": 1}, {"b": [2, ',
        '[[[[{"a": ',
        "]]]]",
        '{"messages": [',
    ):
        path.write_text(text)
        with pytest.raises(NotASession, match="expected"):
            load_session(path)


def test_packed_files_cut_or_whole(tmp_path: Path) -> None:
    lines = "".join(json.dumps({"role": "user", "content": f"{n} {n * n}"}) + "\n" for n in range(4_000))
    path = tmp_path / "s.jsonl.gz"
    path.write_bytes(gzip.compress(lines.encode())[:-2_000])
    cut = load_session(path)
    assert 100 < len(cut.messages) < 4_000
    assert cut.messages[-1].content == f"{len(cut.messages) - 1} {(len(cut.messages) - 1) ** 2}"
    packed = tmp_path / "s.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("readme.txt", "about")
        archive.writestr("folder/session.json", json.dumps(FILES["opencode"]))
    assert load_session(packed).format == "opencode"
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr("folder/other.json", "{}")
    with pytest.raises(NotASession, match="expected"):
        load_session(packed)

"""Recorded sessions of every format load into one normal form, found out by content."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from headwater.graph import build_agent
from headwater.lab.sessions import FORMATS, NotASession, Session, load_session, load_thread
from headwater.memory import Memory

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="needs ../shared")


def write(path: Path, *lines: Any, whole: bool = False) -> Path:
    rows = [json.dumps(line, ensure_ascii=False) for line in lines]
    path.write_text(rows[0] if whole else "\n".join(rows), encoding="utf-8")
    return path


def said(session: Session) -> list[tuple[str, str]]:
    return [(m.type, str(m.text)) for m in session.messages]


def one_call(session: Session) -> tuple[str, dict[str, Any]]:
    """The session's one call, which its one result answers."""
    [call] = [c for m in session.messages if isinstance(m, AIMessage) for c in m.tool_calls]
    [result] = [m for m in session.messages if isinstance(m, ToolMessage)]
    assert result.tool_call_id == call["id"]
    return call["name"], call["args"]


EXPECTED = [("human", "看 a.py"), ("ai", "I read it."), ("tool", "x = 1"), ("ai", "It sets x.")]
CALL = ("read", {"path": "a.py"})


def test_openai_messages_as_a_request_an_array_and_lines(tmp_path: Path) -> None:
    function = {"name": "read", "arguments": '{"path": "a.py"}'}
    rows = [
        {"role": "user", "content": [{"type": "text", "text": "看 a.py"}]},
        {
            "role": "assistant",
            "content": "I read it.",
            "tool_calls": [{"id": "1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "x = 1"},
        {"role": "assistant", "content": "It sets x."},
    ]
    for name, value in (("request", {"model": "m", "messages": rows}), ("array", rows)):
        session = load_session(write(tmp_path / f"{name}.json", value, whole=True))
        assert (session.format, said(session), one_call(session)) == ("messages", EXPECTED, CALL)
    lines = load_session(write(tmp_path / "lines.jsonl", *rows))
    assert said(lines) == EXPECTED


def test_anthropic_messages(tmp_path: Path) -> None:
    body = {
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": "看 a.py"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "I read it."},
                {"type": "tool_use", "id": "1", "name": "read", "input": {"path": "a.py"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "x = 1"}]}]},
            {"role": "assistant", "content": [{"type": "text", "text": "It sets x."}]},
        ],
    }  # fmt: skip
    session = load_session(write(tmp_path / "a.json", body, whole=True))
    assert said(session) == [("system", "Be brief."), *EXPECTED]
    assert one_call(session) == CALL
    assert session.messages[2].additional_kwargs["reasoning_content"] == "hm"


def claude(kind: str, content: Any, number: int, **more: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content, **({"id": f"m{number}"} if kind == "assistant" else {})}
    stamp = f"2026-01-01T00:00:{number:02}Z"
    return {
        "type": kind,
        "message": message,
        "uuid": f"u{number}",
        "sessionId": "s",
        "timestamp": stamp,
        **more,
    }


def test_claude_code_with_its_sidechain(tmp_path: Path) -> None:
    task = {"type": "tool_use", "id": "t1", "name": "Task", "input": {"prompt": "look around"}}
    session = load_session(
        write(
            tmp_path / "c.jsonl",
            {"type": "summary", "summary": "a", "leafUuid": "u9"},
            claude("user", "Go.", 1),
            claude("assistant", [{"type": "text", "text": "I delegate."}], 2),
            {
                **claude("assistant", [task], 3),
                "message": {"role": "assistant", "id": "m2", "content": [task]},
            },
            claude("user", "look around", 4, isSidechain=True, parentUuid=None),
            claude("assistant", [{"type": "text", "text": "seen"}], 5, isSidechain=True, parentUuid="u4"),
            claude("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "seen"}], 6),
            claude("assistant", [{"type": "text", "text": "Done."}], 7),
        )
    )
    # The lines of one answer are one message.
    assert said(session) == [("human", "Go."), ("ai", "I delegate."), ("tool", "seen"), ("ai", "Done.")]
    assert session.format == "claude-code"
    [child] = session.children
    assert said(child) == [("human", "look around"), ("ai", "seen")]
    assert child.parent_call == "t1"
    assert session.times[0] == 1767225601.0


def test_codex_rollout(tmp_path: Path) -> None:
    def item(**payload: Any) -> dict[str, Any]:
        return {"timestamp": "2026-01-01T00:00:00Z", "type": "response_item", "payload": payload}

    usage = {"input_tokens": 90, "cached_input_tokens": 80, "output_tokens": 5}
    session = load_session(
        write(
            tmp_path / "rollout.jsonl",
            {"timestamp": "2026-01-01T00:00:00Z", "type": "session_meta", "payload": {"id": "x"}},
            item(type="message", role="user", content=[{"type": "input_text", "text": "看 a.py"}]),
            item(type="message", role="assistant", content=[{"type": "output_text", "text": "I read it."}]),
            item(type="function_call", name="read", arguments='{"path": "a.py"}', call_id="1"),
            {"timestamp": "2026-01-01T00:00:01Z", "type": "event_msg", "payload": {
                "type": "token_count", "info": {"last_token_usage": usage, "model_context_window": 9}}},
            item(type="function_call_output", call_id="1", output="x = 1"),
            item(type="message", role="assistant", content=[{"type": "output_text", "text": "It sets x."}]),
        )
    )  # fmt: skip
    assert (session.format, said(session), one_call(session)) == ("codex", EXPECTED, CALL)
    assert session.usage[1] == usage


def test_opencode_export(tmp_path: Path) -> None:
    state = {"status": "completed", "input": {"path": "a.py"}, "output": "x = 1", "time": {"end": 3}}
    export = {
        "info": {"id": "ses_1"},
        "messages": [
            {"info": {"role": "user"}, "parts": [{"type": "text", "text": "看 a.py"}]},
            {"info": {"role": "assistant", "time": {"created": 2}}, "parts": [
                {"type": "step-start"}, {"type": "text", "text": "I read it."},
                {"type": "tool", "tool": "read", "callID": "1", "state": state}, {"type": "step-finish"},
                {"type": "step-start"}, {"type": "text", "text": "It sets x."}]},
        ],
    }  # fmt: skip
    session = load_session(write(tmp_path / "o.json", export, whole=True))
    assert (session.format, said(session), one_call(session)) == ("opencode", EXPECTED, CALL)


def test_langgraph_state_as_json_and_from_a_checkpointer(tmp_path: Path) -> None:
    rows = [
        {"type": "human", "content": "看 a.py", "id": "1"},
        {
            "type": "ai",
            "content": "I read it.",
            "tool_calls": [{"name": "read", "args": {"path": "a.py"}, "id": "1"}],
        },
        {"type": "tool", "content": "x = 1", "tool_call_id": "1", "name": "read"},
        {"type": "ai", "content": "It sets x."},
    ]
    state = {"thread_id": "t", "values": {"messages": rows}}
    session = load_session(write(tmp_path / "l.json", state, whole=True))
    assert (session.format, said(session), one_call(session)) == ("langgraph", EXPECTED, CALL)
    saver = InMemorySaver()
    with Memory(tmp_path / "memory") as memory:
        model = FakeListChatModel(responses=["first", "second"])
        agent = build_agent(model, memory=memory, checkpointer=saver, context_tools=False)
        config: Any = {"configurable": {"thread_id": "t"}}
        for text in ("one", "two"):
            agent.invoke({"messages": [HumanMessage(text)]}, config)
    thread = load_thread(saver, config)
    assert [text for _, text in said(thread)] == ["one", "first", "two", "second"]
    with pytest.raises(NotASession, match="has no checkpoint"):
        load_thread(saver, {"configurable": {"thread_id": "other"}})


def test_langsmith_runs(tmp_path: Path) -> None:
    def message(kind: str, text: str, **more: Any) -> dict[str, Any]:
        return {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", kind],
            "kwargs": {"content": text, **more},
        }

    call = {"name": "read", "args": {"path": "a.py"}, "id": "1"}
    asked = [message("HumanMessage", "看 a.py")]
    first = message("AIMessage", "I read it.", tool_calls=[call])
    second = [*asked, first, message("ToolMessage", "x = 1", tool_call_id="1")]

    def llm(number: int, given: list[Any], got: Any) -> dict[str, Any]:
        outputs = {"generations": [[{"text": "", "message": got}]]}
        return {"id": str(number), "run_type": "llm", "start_time": f"2026-01-01T00:00:0{number}",
                "inputs": {"messages": [given]}, "outputs": outputs, "parent_run_id": "root"}  # fmt: skip

    runs = [llm(1, asked, first), llm(2, second, message("AIMessage", "It sets x."))]
    root = {
        "id": "root",
        "run_type": "chain",
        "name": "agent",
        "inputs": {},
        "outputs": {},
        "child_runs": runs,
    }
    session = load_session(write(tmp_path / "runs.json", root, whole=True))
    assert (session.format, said(session), one_call(session)) == ("langsmith", EXPECTED, CALL)


def test_copilot_events(tmp_path: Path) -> None:
    def event(kind: str, **data: Any) -> dict[str, Any]:
        return {"type": kind, "data": data, "id": "e", "timestamp": "2026-01-01T00:00:00Z"}

    request = {"toolCallId": "1", "name": "read", "arguments": {"path": "a.py"}}
    session = load_session(
        write(
            tmp_path / "p.jsonl",
            event("session.start", sessionId="s"),
            event("user.message", content="看 a.py"),
            event("assistant.message", messageId="m", content="I read it.", toolRequests=[request]),
            event("tool.execution_complete", toolCallId="1", success=True, result={"content": "x = 1"}),
            event("assistant.message", messageId="n", content="It sets x."),
        )
    )
    assert (session.format, said(session), one_call(session)) == ("copilot", EXPECTED, CALL)


@pytest.mark.parametrize(
    "text",
    ["", "Dear diary,\n", '{"name": "package", "version": "1"}', "[1, 2, 3]", "\x00\x01", '{"messages": []}'],
)
def test_what_is_no_session_is_refused_with_what_was_expected(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(NotASession) as refused:
        load_session(path)
    assert str(path) in str(refused.value)
    for known in FORMATS.values():
        assert known.expects in str(refused.value)


@needs_shared
@pytest.mark.parametrize("folder", ["raw-agent-sessions", "langgraph-thread"])
def test_every_raw_session_loads_with_all_its_calls_answered(folder: str) -> None:
    files = sorted((SHARED / "provider_formats" / folder).iterdir())
    assert files
    for path in files:
        session = load_session(path)
        assert any(m.type == "human" for m in session.messages)
        assert any(m.type == "ai" for m in session.messages)
        assert [a for a in session.anomalies if a.startswith("orphan")] == []


@needs_shared
def test_all_recorded_sessions_load_and_their_sub_agents_are_attached() -> None:
    files = sorted((SHARED / "sessions").glob("*/*.jsonl"))
    sessions = {path.stem: load_session(path) for path in files}
    assert len(sessions) == 57
    attached = {child.name for session in sessions.values() for child in session.children}
    assert attached == {name for name in sessions if ".sub-" in name}


def test_a_value_of_another_kind_costs_that_value_and_a_cut_or_packed_file_still_loads(
    tmp_path: Path,
) -> None:
    rows = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    lines = "\n".join(json.dumps(row) for row in rows)
    path = tmp_path / "s.jsonl"
    for data in (
        gzip.compress(lines.encode()),
        lines.encode("utf-16"),
        lines.replace("\n", ",\r\n").encode(),
    ):
        path.write_bytes(data)
        assert said(load_session(path)) == [("human", "x"), ("ai", "y")]
    path.write_text(f'{lines}\n{{"role": "user", "cont', encoding="utf-8")
    assert [a.split(":")[0] for a in load_session(path).anomalies] == ["broken_line"]
    thread = {
        "values": {"messages": [*rows, {"type": "remove", "id": "1"}, {"type": [], "content": 1}, rows[0]]}
    }
    cut = load_session(write(tmp_path / "t.json", thread, whole=True))
    assert [m.type for m in cut.messages] == ["human", "ai", "human"]
    assert [a.split(":")[0] for a in cut.anomalies] == ["no_message", "no_message"]


@pytest.mark.parametrize(
    "value",
    [
        {"params": {"system": "Be.", "messages": [{"role": "user", "content": "x"}]}},
        {"body": {"messages": [{"role": "user", "content": "x"}]}, "method": "POST", "custom_id": "1"},
        {"response": {"body": {"choices": [{"message": {"role": "assistant", "content": "y"}}]}}},
        {"input": {"messages": [{"role": "user", "content": "x"}]}, "preferred_output": []},
        [{"conversations": [{"from": "human", "value": "x"}, {"from": "gpt", "value": "y"}]}],
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "y"}]}}]},
    ],
)
def test_requests_and_answers_as_batches_and_fine_tuning_files_wrap_them(value: Any, tmp_path: Path) -> None:
    session = load_session(write(tmp_path / "w.json", value, whole=True))
    kept = [row for row in said(session) if row[0] != "system"]
    assert kept
    assert set(kept) <= {("human", "x"), ("ai", "y")}
    assert not [a for a in session.anomalies if not a.startswith("consecutive")]


def test_google_contents_have_their_instruction_and_calls_without_ids(tmp_path: Path) -> None:
    call = {"functionCall": {"name": "f", "args": {"a": 1}}}
    result = {"functionResponse": {"name": "f", "response": {"output": "r"}}}
    contents = [
        {"role": "user", "parts": [{"text": "x"}]},
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [result]},
    ]
    value = {"systemInstruction": {"parts": [{"text": "Be."}]}, "contents": contents}
    session = load_session(write(tmp_path / "g.json", value, whole=True))
    assert said(session) == [("system", "Be."), ("human", "x"), ("ai", ""), ("tool", "r")]
    assert session.anomalies == []


def test_runs_of_a_bulk_export_have_their_values_as_text(tmp_path: Path) -> None:
    asked = json.dumps({"messages": [{"role": "user", "content": "x"}]})
    answered = json.dumps({"choices": [{"message": {"role": "assistant", "content": "y"}}]})
    run = {"run_type": "llm", "inputs": asked, "outputs": answered, "start_time": "2026-01-01T00:00:00"}
    session = load_session(write(tmp_path / "r.json", [run], whole=True))
    assert (session.format, said(session)) == ("langsmith", [("human", "x"), ("ai", "y")])

"""The demo, whole: a short run with real clients, its figures, and its checks when something is wrong."""

import io
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from rich.console import Console

from headwater.demo import FolderInUse, Options, run_demo
from headwater.demo_screen import Screen, meter
from headwater.demo_witness import Stub, Witness, unmanaged
from headwater.demo_words import _CHINESE, _ENGLISH, Words
from headwater.lab.chronicler import chronicler
from headwater.lab.explorer import Explorer
from headwater.lab.provider import StrictProvider
from headwater.lab.script import Reply, Request
from headwater.memory import Memory
from headwater.window.policy import PolicyError, WindowPolicy
from headwater.window.stubs import stub
from headwater.window.tokens import count_tokens


def run(folder: Path, language: str, steps: int, window: int) -> tuple[int, str]:
    out = io.StringIO()
    options = Options(window=window, language=language, keep=folder, steps=steps)
    code = run_demo(options, Console(file=out, width=110))
    return code, out.getvalue()


@pytest.mark.parametrize(
    ("language", "good", "gone"),
    [("en", "All checks hold.", "messages left the window"), ("zh", "全部检查通过。", "条消息离开窗口")],
)
def test_demo_holds_all_its_checks_in_a_small_window(
    tmp_path: Path, language: str, good: str, gone: str
) -> None:
    code, text = run(tmp_path / "kept", language, 130, 8_000)
    assert code == 0, text
    assert good in text
    assert gone in text
    assert text.count("✓ ") == 7
    assert "✗" not in text
    assert str(tmp_path / "kept") in text
    assert any((tmp_path / "kept" / "artifacts").rglob("*.txt"))


def test_demo_fails_where_the_saving_is_too_small_and_says_why(tmp_path: Path) -> None:
    code, text = run(tmp_path / "kept", "en", 8, 32_000)
    assert code == 1
    assert "✗ at least 10 × fewer tokens sent" in text
    assert "may be too few" in text


def test_demo_runs_the_same_with_a_model_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    explorer = Explorer()

    def one_model(request: Request) -> Reply:
        return explorer(request) if request.tools else chronicler(request)

    with StrictProvider(one_model, window=200_000) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{endpoint.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        out = io.StringIO()
        options = Options("openai:strict-main", 8_000, "en", tmp_path / "kept", 40)
        run_demo(options, Console(file=out, width=110))
    text = out.getvalue()
    assert endpoint.violations == []
    assert "Model: openai:strict-main." in text
    assert "✓ conclusions returned: 3 of 3" in text
    assert "✓ a second session starts from memory" in text
    assert "✓ every tool result reads back" in text


def test_demo_leaves_a_folder_that_is_in_use_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(FolderInUse, match="empty folder"):
        run_demo(Options(keep=tmp_path), Console(file=io.StringIO()))
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def test_demo_refuses_a_window_before_it_makes_a_folder(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="1,024"):
        run_demo(Options(window=500, keep=tmp_path / "new"), Console(file=io.StringIO()))
    assert not (tmp_path / "new").exists()


def test_both_languages_have_all_sentences_with_the_same_fields() -> None:
    import string

    def fields(text: str) -> set[str]:
        return {str(name) for _, name, _, _ in string.Formatter().parse(text) if name}

    # English statuses are the words themselves.
    assert {k for k in _CHINESE if not k.startswith("status:")} == set(_ENGLISH)
    assert {k for k in _ENGLISH if fields(_ENGLISH[k]) != fields(_CHINESE[k])} == set()


def test_unmanaged_sums_what_an_append_only_agent_would_send(tmp_path: Path) -> None:
    log = [HumanMessage("one two three"), AIMessage("four"), HumanMessage("five six"), AIMessage("seven")]
    with Memory(tmp_path) as memory:
        memory.archive.append("s", log)
        found = unmanaged(memory, {"s": 100}, window=115)
    first = 100 + count_tokens(log[:1])
    second = 100 + count_tokens(log[:3])
    assert (found.sent, found.written, found.largest) == (first + second, second, second)
    assert (found.requests, found.fit) == (2, sum(x <= 115 for x in (first, second)))


def witnessed(memory: Memory, text: str, *, archived: str | None = None) -> Witness:
    """A witness that saw a tool return a text, and a request that names its artifact."""
    witness, tool, model = Witness(), uuid4(), uuid4()
    about = {"thread_id": "s", "langgraph_node": "agent"}
    witness.on_tool_start({"name": "t"}, "", run_id=tool, metadata=about)
    witness.on_tool_end(ToolMessage(text, tool_call_id="1"), run_id=tool)
    memory.archive.append("s", [ToolMessage(archived or text, tool_call_id="1")])
    memory.artifacts.put(text)
    request = [SystemMessage("x"), HumanMessage(stub(1, text))]
    witness.on_chat_model_start({}, [request], run_id=model, metadata=about)
    witness.on_llm_end(LLMResult(generations=[[ChatGeneration(message=AIMessage("y"))]]), run_id=model)
    return witness


def test_m10_the_witness_finds_every_byte_where_all_is_well(tmp_path: Path) -> None:
    with Memory(tmp_path) as memory:
        witness = witnessed(memory, "line\n" * 300 + "\ud800")
        assert len(witness.stubs) == 1
        assert witness.read_stubs(memory).lost == []
        assert witness.read_archive(memory).lost == []
        assert witness.requests()[0].tokens > 0


def test_m10_the_witness_notices_a_damaged_artifact_and_one_that_is_gone(tmp_path: Path) -> None:
    with Memory(tmp_path) as memory:
        witness = witnessed(memory, "line\n" * 300)
        (found,) = witness.stubs
        memory.artifacts.path(found.artifact).write_text("other")
        assert "changed on disk" in witness.read_stubs(memory).lost[0]
        memory.artifacts.path(found.artifact).unlink()
        assert "no artifact" in witness.read_stubs(memory).lost[0]


def test_m10_the_witness_notices_an_archive_that_holds_something_else(tmp_path: Path) -> None:
    with Memory(tmp_path) as memory:
        witness = witnessed(memory, "line\n" * 300, archived="line\n" * 299)
        assert len(witness.read_archive(memory).lost) == 1
        assert "not what §1§" in witness.read_stubs(memory).lost[0]
        witness.stubs = {Stub("s", "artifacts/../x", 1): None}
        assert len(witness.read_stubs(memory).lost) == 1


def test_m3_the_meter_shows_the_lines_in_their_order() -> None:
    lines = WindowPolicy(window=32_000).lines()._asdict()
    for estimate in (0, 10_000, 31_000, 99_000):
        row = meter(estimate, lines, 60)
        assert len(row) == 60
        assert sum(cell in "│┃" for cell in row) == 3
        assert row.count("█") + row.count("┃") >= min(60, round(estimate / 32_000 * 60)) - 3


@pytest.mark.parametrize("language", ["en", "zh"])
def test_screen_shows_every_event_on_a_terminal_and_in_a_pipe(language: str) -> None:
    lines = WindowPolicy(window=32_000).lines()._asdict()
    session = {"session": "s"}
    events: list[dict[str, Any]] = [
        {"type": "headwater.watermark", "estimate": 20_000, "level": "OFFLOAD", "lines": lines, **session},
        {"type": "headwater.request", **session},
        {"type": "headwater.offload", "tags": [1, 2], "reason": "rent", **session},
        {"type": "headwater.offload", "tags": [], "reason": "rent", **session},
        {"type": "headwater.arrival", "tag": 1, "tool": "t", "artifact": "artifacts/x", "chars": 12_345},
        {
            "type": "headwater.summarize",
            "first": 1,
            "last": 2,
            "tokens": 3,
            "compartments": 1,
            "sources": ["model", "digest"],
        },
        {"type": "headwater.reclaim", "tags": [4], "deep": True},
        {"type": "headwater.overflow", "limit": None, "requested": None},
        {"type": "headwater.delegate", "session": "s/1", "agent": "reader", "brief": "Module: m\nRead it."},
        {
            "type": "headwater.conclusion",
            "session": "s/1",
            "status": "done",
            "usage": {"steps": 2, "tokens": 3},
        },
        {"type": "headwater.conclusion", "session": "s/2", "status": "failed", "usage": {}},
        {"type": "headwater.remember", "written": 1, "refused": 0},
        {"type": "headwater.fact_refused", "reason": "a {brace} in it"},
        {"type": "headwater.offload_failed", "tag": 3, "error": "disk full"},
        {"type": "headwater.halt", "estimate": 9},
        {"type": "headwater.something_new", "x": 1},
    ]
    for terminal in (True, False):
        out = io.StringIO()
        console = Console(file=out, force_terminal=terminal, width=100)
        with Screen(console, Words(language), 1) as screen:
            for event in events:
                screen.event(event)
            screen.note("note")
        shown = out.getvalue()
        assert "disk full" in shown
        assert "note" in shown
        assert "20,000" in shown
        assert ("\x1b[" in shown) is terminal

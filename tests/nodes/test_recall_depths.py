"""Recall in three depths: facts at a fold, a frozen hint, a search over all that was kept."""

import subprocess
import threading
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage, ToolMessage

from headwater.memory import Memory, RecallBlockRefused, StorageError
from headwater.memory.words import LexicalIndex
from headwater.nodes import hint as hints
from headwater.nodes.context_tools import context_tools
from headwater.nodes.engine import Engine
from headwater.nodes.hint import TOKENS, hint_text
from headwater.nodes.intake import intake
from headwater.nodes.recall import fold, known_facts
from headwater.nodes.search import TOKENS as ANSWER_TOKENS
from headwater.window.frame import Frame
from headwater.window.policy import WindowPolicy
from headwater.window.tokens import count_text
from tests.nodes.bench import CONFIG, after, engine, frame_of, state_of

ASKED = "Which port does the staging database listen on?"
KNOWN = "The staging database listens on port 5433."
ASKED_ZH = "测试环境的数据库监听哪个端口来着？"
KNOWN_ZH = "测试环境的数据库监听 5433 端口。"


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is no reason for a test to see another hint."""
    monkeypatch.setattr(hints, "SECONDS", 60.0)


def said(*texts: str) -> list[HumanMessage]:
    """User messages, each with an id of its own."""
    return [HumanMessage(text, id=f"m{zlib.crc32(text.encode())}") for text in texts]


def ask(made: Engine, state: Any, text: str) -> Any:
    """The state after another user message."""
    grown = after(state, {"messages": said(text)})
    return after(grown, intake(made)(grown, CONFIG))


def begun(made: Engine, fact: str = KNOWN) -> Any:
    """A session that began before the fact was known."""
    state = state_of(made, said("Let us look at the build."))
    if fact:
        made.memory.facts.write(fact, "CONFIG_VALUES")
    return state


def find(made: Engine, query: str, state: Any = None, **args: Any) -> str:
    (tool,) = (t for t in context_tools(made) if t.name == "ctx_search")
    known = state or {"frame": {"session": "s"}}
    call = {"name": "ctx_search", "args": {"query": query, "state": known, **args}, "id": "x"}
    answer = tool.invoke({**call, "type": "tool_call"})
    assert isinstance(answer, ToolMessage)
    return str(answer.content)


def expand(made: Engine, tags: str, session: str) -> str:
    (tool,) = (t for t in context_tools(made) if t.name == "ctx_expand")
    args = {"tags": tags, "session": session, "state": {"frame": {"session": "s"}}}
    answer = tool.invoke({"name": "ctx_expand", "args": args, "id": "x", "type": "tool_call"})
    return str(answer.content)


# Depth one: at a fold.


def test_g27_permanent_facts_come_first_and_what_bears_on_the_task_before_its_equals(tmp_path: Path) -> None:
    made = engine(tmp_path, WindowPolicy(window=8_192, facts=150))
    facts = made.memory.facts
    for n in range(40):
        facts.write(f"Service number {n} was last reviewed by group {n % 7}.", "ARCHITECTURE")
    facts.write("Database migrations run before the deployment.", "PROJECT_RULES")
    kept = facts.write("Never push to main.", "CONSTRAINTS", importance=1)
    facts.keep(kept.id)
    task = "How do database migrations and the deployment fit together?"
    shown = [content for _, content in known_facts(made, task)]
    assert "Never push to main." in shown
    assert "Database migrations run before the deployment." in shown
    assert sum(count_text(text) + 4 for text in shown) <= 150
    assert shown == [content for _, content in known_facts(made, task)]


def test_g27_importance_outweighs_relevance_beyond_its_points(tmp_path: Path) -> None:
    made = engine(tmp_path, WindowPolicy(window=8_192, facts=30))
    facts = made.memory.facts
    for n in range(20):
        facts.write(f"The turbine has note {n}.", "NAMING", importance=40)
    facts.write("Salaries are paid in advance by the bank.", "NAMING", importance=90)
    assert "Salaries are paid in advance by the bank." in [c for _, c in known_facts(made, "turbine note")]


def test_g27_a_fact_that_is_too_large_is_skipped_and_the_next_ones_are_tried(tmp_path: Path) -> None:
    made = engine(tmp_path, WindowPolicy(window=8_192, facts=60))
    made.memory.facts.write("long " * 300, "NAMING", importance=100)
    made.memory.facts.write("Short and less important.", "NAMING", importance=2)
    assert known_facts(made, "") == [("NAMING", "Short and less important.")]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.permutations(range(8)))
def test_g27_g24_equal_facts_give_equal_bytes_in_whatever_order_they_came(
    tmp_path_factory: pytest.TempPathFactory, order: list[int]
) -> None:
    made = engine(tmp_path_factory.mktemp("m"))
    categories = ("NAMING", "ARCHITECTURE", "CONSTRAINTS", "CONFIG_VALUES")
    for n in order:
        made.memory.facts.write(f"规则 {n} applies", categories[n % 4], importance=10 + n, now=float(n))
    shown = known_facts(made, "")
    made.memory.close()
    assert [category for category, _ in shown] == sorted(category for category, _ in shown)
    assert {content for _, content in shown} == {f"规则 {n} applies" for n in range(8)}
    same = engine(tmp_path_factory.mktemp("n"))
    for n in range(8):
        same.memory.facts.write(f"规则 {n} applies", categories[n % 4], importance=10 + n, now=float(n))
    assert known_facts(same, "") == shown
    same.memory.close()


def test_g39_a_new_session_begins_with_what_bears_on_its_first_message(tmp_path: Path) -> None:
    made = engine(tmp_path, WindowPolicy(window=8_192, facts=80))
    for n in range(60):
        made.memory.facts.write(f"Report {n} is kept in cabinet {n}.", "NAMING")
    made.memory.facts.write(KNOWN, "CONFIG_VALUES")
    state = state_of(made, said(ASKED))
    assert KNOWN in made.text(frame_of(state).baseline)
    assert not frame_of(state).hints


# Depth two: the hint.


@pytest.mark.parametrize(("fact", "prompt"), [(KNOWN, ASKED), (KNOWN_ZH, ASKED_ZH)])
def test_g29_a_new_message_gets_a_hint_of_what_memory_knows(tmp_path: Path, fact: str, prompt: str) -> None:
    made = engine(tmp_path)
    state = ask(made, begun(made, fact), prompt)
    (hint,) = frame_of(state).hints.values()
    assert fact in hint
    assert count_text(hint) <= TOKENS
    assert list(frame_of(state).hints) == [2]


def test_g29_a_hint_is_frozen_whatever_is_learnt_afterwards(tmp_path: Path) -> None:
    made = engine(tmp_path)
    state = ask(made, begun(made), ASKED)
    before = dict(frame_of(state).hints)
    made.memory.facts.write("The staging database listens on port 6000 from May on.", "CONFIG_VALUES")
    again = intake(made)(state, CONFIG)
    assert not again.get("hints")
    later = ask(made, state, "Good, then go on with the build now please.")
    assert {tag: text for tag, text in frame_of(later).hints.items() if tag in before} == before


def test_g29_a_hint_is_counted_in_the_estimate(tmp_path: Path) -> None:
    made = engine(tmp_path)
    state = ask(made, begun(made), ASKED)
    frame = frame_of(state)
    with made.view(frame, state["messages"]) as view:
        hinted = made.estimate(frame, view)
    bare = frame.with_(hints={}, session="beside")
    with made.view(bare, state["messages"]) as view:
        assert hinted - made.estimate(bare, view) >= count_text(frame.hints[2]) - 5


@pytest.mark.parametrize(
    "prompt", ["Go on.", "port 5433?", "继续。", "Write a poem about the sea in autumn, in four lines."]
)
def test_g29_short_prompts_and_what_memory_knows_nothing_of_get_no_hint(tmp_path: Path, prompt: str) -> None:
    made = engine(tmp_path)
    assert not frame_of(ask(made, begun(made), prompt)).hints


def test_g29_what_is_in_sight_is_no_hint(tmp_path: Path) -> None:
    """In the baseline, in the tail, in the message itself, or in an earlier hint."""
    made = engine(tmp_path)
    made.memory.facts.write(KNOWN, "CONFIG_VALUES")
    state = state_of(made, said("Let us look at the build."))
    assert KNOWN in made.text(frame_of(state).baseline)
    assert not frame_of(ask(made, state, ASKED)).hints

    other = engine(tmp_path / "b")
    state = begun(other)
    assert not frame_of(ask(other, state, f"{KNOWN} Is this right, and since when?")).hints
    hinted = ask(other, state, ASKED)
    assert len(frame_of(hinted).hints) == 1
    assert frame_of(ask(other, hinted, ASKED + " Tell me once more.")).hints == frame_of(hinted).hints


def test_g29_a_hint_that_comes_back_is_not_remembered(tmp_path: Path) -> None:
    made = engine(tmp_path)
    (hint,) = frame_of(ask(made, begun(made), ASKED)).hints.values()
    with pytest.raises(RecallBlockRefused):
        made.memory.facts.write(hint, "NAMING")


def test_g38_a_search_that_is_late_or_fails_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = engine(tmp_path)
    state = begun(made)
    go_on = threading.Event()
    real = made.memory.facts.search
    monkeypatch.setattr(hints, "SECONDS", 0.05)
    monkeypatch.setattr(made.memory.facts, "search", lambda *a: (go_on.wait(30), real(*a))[1])
    late = ask(made, state, ASKED)
    (searching,) = (t for t in threading.enumerate() if t.name == "headwater-hint")
    assert searching.daemon, "a program that ends waits for it"
    go_on.set()
    assert not frame_of(late).hints

    def broken(*_: Any) -> Any:
        raise StorageError("disk I/O error")

    monkeypatch.setattr(hints, "SECONDS", 60.0)
    monkeypatch.setattr(made.memory.facts, "search", broken)
    assert not frame_of(ask(made, state, ASKED)).hints


@given(st.lists(st.text(max_size=80), max_size=6), st.sampled_from(["en", "zh"]))
def test_g29_a_hint_never_takes_more_than_200_tokens(fragments: list[str], language: str) -> None:
    text = hint_text(fragments, language)
    assert count_text(text) <= 200
    assert text.count("\n- ") <= 3 + sum(f.count("\n- ") for f in fragments)


# Depth three: ctx_search.


def test_g28_g36_search_reaches_other_sessions_and_expand_opens_what_it_names(tmp_path: Path) -> None:
    made = engine(tmp_path)
    why = "We chose SQLite because it needs no server and one file can be copied."
    old = {"configurable": {"thread_id": "march"}}
    intake(made)({"messages": [HumanMessage("为什么选择 SQLite？"), HumanMessage(why)]}, old)  # type: ignore[arg-type]
    begun(made, "")
    found = find(made, "why did we choose SQLite")
    assert "needs no server" in found
    assert "session='march'" in found
    assert why in expand(made, "2", "march")


def test_g28_search_reaches_both_sides_of_a_fork_and_shows_a_shared_past_once(tmp_path: Path) -> None:
    made = engine(tmp_path)
    archive = made.memory.archive
    archive.append("trunk", [HumanMessage("The turbine is in hall 7.")])
    archive.fork("trunk", "s")
    archive.append("trunk", [HumanMessage("The turbine moved to hall 9.")])
    archive.append("s", [HumanMessage("The turbine stays here.")])
    for name in ("trunk", "s"):
        made.memory.sessions.claim(name)
    found = find(made, "turbine")
    assert found.count("hall 7") == 1
    assert "hall 9" in found
    assert "stays here" in found


def test_g28_an_earlier_search_is_not_found_in_the_place_of_what_it_found(tmp_path: Path) -> None:
    """What a search said of another session stands in the log; a part of it must not pass for one's own."""
    made = engine(tmp_path)
    archive = made.memory.archive
    for name in ("s", "other"):
        made.memory.sessions.claim(name)
    archive.append("other", [HumanMessage("The turbine is in hall 7. " * 20)])
    archive.append("s", [HumanMessage(f"Pump {n} hums.") for n in range(3)])
    for _ in range(12):
        said = find(made, "turbine hall", limit=5)
        lines = [line for line in said.splitlines() if "hall 7" in line]
        assert len(lines) == 1
        assert "of another session" in lines[0]
        archive.append("s", [ToolMessage(said, tool_call_id="x", name="ctx_search")])
        archive.append("other", [ToolMessage(said, tool_call_id="y", name="ctx_search")])


def test_g28_search_never_looks_into_another_project_or_tenant(tmp_path: Path) -> None:
    made = engine(tmp_path)
    begun(made, "")
    for number, other in enumerate(({"tenant": "other"}, {"project": "other"})):
        index = LexicalIndex(tmp_path / f"by_words{number}.sqlite")
        with Memory(tmp_path, index=index, **other) as memory:  # type: ignore[arg-type]
            memory.facts.write("The vault opens with turbine seven.", "NAMING")
            memory.archive.append(f"theirs{number}", [HumanMessage("vault turbine secret")])
            memory.sessions.claim(f"theirs{number}")
        assert "vault" not in find(made, "vault turbine")
        assert "not this session" in expand(made, "1", f"theirs{number}")


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def repository(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for message in ("Cache the tariff table by region", "修复数据库连接池的泄漏", "Rename the exporter"):
        git(folder, "commit", "-q", "--allow-empty", "-m", message)
    git(folder, "commit", "-q", "--allow-empty", "--date", "2001-01-01T00:00:00", "-m", "Ancient tariff")
    return folder


def test_g28_search_reaches_git_commits_in_both_languages(tmp_path: Path) -> None:
    folder = repository(tmp_path / "project")
    made = engine(tmp_path / "m")
    made = Engine(made.model, Memory(tmp_path / "n", index=LexicalIndex(tmp_path / "w"), repository=folder))
    begun(made, "")
    assert "Cache the tariff table by region" in find(made, "tariff table")
    assert find(made, "连接池").startswith("commit ")
    before = sorted(p.name for p in (folder / ".git").rglob("*"))
    git(folder, "commit", "-q", "--allow-empty", "-m", "Add the turbine gauge")
    assert "turbine gauge" in find(made, "turbine")
    assert set(before) <= {p.name for p in (folder / ".git").rglob("*")}


def test_g28_what_stands_in_the_window_is_left_out(tmp_path: Path) -> None:
    made = engine(tmp_path)
    made.memory.facts.write(KNOWN, "CONFIG_VALUES")
    state = state_of(made, said("Where is the turbine?", "staging, please"))
    assert "§" not in find(made, "turbine", state)
    assert KNOWN not in find(made, "staging port", state)
    gone = {**state, "messages": state["messages"][1:]}
    assert "§1§" in find(made, "turbine", gone)


def test_g28_answers_and_queries_are_bounded(tmp_path: Path) -> None:
    made = engine(tmp_path, WindowPolicy(window=1_000_000))
    made.memory.archive.append("s", [HumanMessage(f"turbine {n} " + "水轮机 " * 90) for n in range(60)])
    assert count_text(find(made, "turbine", limit=50)) <= ANSWER_TOKENS
    assert len(find(made, "turbine").splitlines()) == 10
    assert "bytes are the most" in find(made, "x" * 20_000)
    assert "between 1 and 50" in find(made, "turbine", limit=51)
    assert "empty" in find(made, "  ")


def test_g28_nothing_found_is_said_in_the_language_of_the_session(tmp_path: Path) -> None:
    made = engine(tmp_path)
    assert "换个说法" in find(made, "zebra", {"frame": Frame(session="s", language="zh").to_state()})
    assert "other words" in find(made, "zebra")


def test_g34_what_was_dropped_from_the_window_is_found_and_opened(tmp_path: Path) -> None:
    made = engine(tmp_path)
    state = state_of(made, said("The turbine is in hall 7.", "Go on."))
    frame = fold(made, frame_of(state).with_(boundary=1, edits={1: "drop"}))
    hidden = {"messages": state["messages"][1:], "frame": frame.to_state()}
    found = find(made, "turbine", hidden)
    assert found.startswith("§1§")
    assert "hall 7" in expand(made, "1", "s")

"""The log: numbered, idempotent, append-only, searchable."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from headwater.memory.archive import Archive, UnknownTag
from headwater.memory.memory import Memory


def said(*texts: str, start: int = 0) -> list[BaseMessage]:
    return [HumanMessage(text, id=f"m{start + n}") for n, text in enumerate(texts)]


def test_tags_start_at_one_and_grow(memory: Memory) -> None:
    assert memory.archive.last("s") == 0
    assert memory.archive.append("s", said("a", "b")) == [1, 2]
    assert memory.archive.append("s", said("c", start=2)) == [3]
    assert memory.archive.append("other", said("a")) == [1]
    assert memory.archive.last("s") == 3
    assert memory.archive.append("s", []) == []


def test_the_same_message_gets_the_tag_it_has(memory: Memory) -> None:
    first = said("a", "b", "a")
    assert memory.archive.append("s", first) == [1, 2, 3]
    assert memory.archive.append("s", [*first, *said("c", start=3)]) == [1, 2, 3, 4]
    assert memory.archive.append("s", [HumanMessage("changed", id="m0")]) == [5]
    assert memory.archive.append("s", [first[0], first[0]]) == [1, 1]


def test_messages_without_an_id_are_never_taken_for_repeats(memory: Memory) -> None:
    assert memory.archive.append("s", [HumanMessage("yes"), HumanMessage("yes")]) == [1, 2]
    assert memory.archive.append("s", [HumanMessage("yes")]) == [3]


@given(
    batches=st.lists(
        st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y"])), max_size=4), max_size=6
    )
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_tags_are_dense_stable_and_never_reused(memory: Memory, batches: list[list[tuple[str, str]]]) -> None:
    session = f"s{time.monotonic_ns()}"
    model: dict[tuple[str, str], int] = {}
    for batch in batches:
        expected = [model.setdefault(pair, len(model) + 1) for pair in batch]
        messages = [HumanMessage(text, id=number) for number, text in batch]
        assert memory.archive.append(session, messages) == expected
    assert memory.archive.last(session) == len(model)
    assert [tag for tag, _ in memory.archive.read(session, 1, 99)] == [*range(1, len(model) + 1)]


def test_g34_every_archived_output_is_recoverable_by_tag(memory: Memory) -> None:
    output = ToolMessage("x\udcb2\r\n\0" * 40_000, tool_call_id="c1", id="t")
    memory.archive.append("s", [AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "c1"}]), output])
    assert memory.archive.get("s", 2) == output


def test_unknown_tags_are_named_with_the_known_range(memory: Memory) -> None:
    memory.archive.append("s", said("a", "b"))
    with pytest.raises(UnknownTag, match="no tag 7: it has tags 1 to 2"):
        memory.archive.get("s", 7)
    with pytest.raises(UnknownTag, match="nothing was archived"):
        memory.archive.get("none", 1)
    assert memory.archive.read("s", -5, 1) == [(1, said("a")[0])]


@pytest.mark.parametrize("name", ["../x", "..\\x", "a\n", "/", "", "会话", "\udcb2", "a\0b", "x" * 5_000])
def test_case_64_a_session_is_a_key_and_never_a_path(memory: Memory, name: str) -> None:
    memory.archive.append(name, said("mine"))
    memory.archive.append("other", said("theirs"))
    assert memory.archive.get(name, 1).content == "mine"
    assert memory.archive.sessions() == [name, "other"]
    assert {p.suffix for p in memory.root.iterdir()} <= {".sqlite", ".sqlite-wal", ".sqlite-shm"}
    assert [p.name for p in memory.root.parent.iterdir()] == ["root"]


def test_c15_the_context_before_a_compaction_can_be_rebuilt_exactly(memory: Memory) -> None:
    before = said(*(f"message {n}" for n in range(30)))
    memory.archive.append("s", before)
    memory.archive.put_compartment("s", {"first": 1, "last": 25, "p1": "much was said"})
    memory.archive.append("s", said("after", start=30))
    assert [message for _, message in memory.archive.read("s", 1, 30)] == before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE messages SET content = x'00'",
        "DELETE FROM messages",
        "UPDATE compartments SET data = x'00'",
        "DELETE FROM compartments",
    ],
)
def test_c15_the_file_itself_refuses_to_change_what_was_appended(memory: Memory, statement: str) -> None:
    memory.archive.append("s", said("a"))
    memory.archive.put_compartment("s", {"first": 1, "last": 1})
    memory.archive.close()
    connection = sqlite3.connect(memory.root / "archive.sqlite")
    try:
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
    finally:
        connection.close()


def test_g35_publishing_a_compartment_only_appends_a_row(memory: Memory) -> None:
    memory.archive.append("s", said("a", "b", "c"))
    first = memory.archive.put_compartment("s", {"first": 1, "last": 2, "p1": "甲 \udcb2"})
    second = memory.archive.put_compartment("s", {"first": 3, "last": 3, "p1": "乙"})
    assert memory.archive.compartments("s") == [
        (first, {"first": 1, "last": 2, "p1": "甲 \udcb2"}),
        (second, {"first": 3, "last": 3, "p1": "乙"}),
    ]
    for bad in ({"first": 2, "last": 1}, {"first": 0, "last": 1}, {"first": 1, "last": 9}, {"last": 1}):
        with pytest.raises(UnknownTag, match="tags are 1 to 3"):
            memory.archive.put_compartment("s", bad)


def test_g28_search_finds_chinese_english_and_identifiers(memory: Memory) -> None:
    memory.archive.append(
        "s",
        [
            *said("We chose SQLite since it needs no server", "数据库的端口是 5432，不要改", "nothing here"),
            AIMessage("", tool_calls=[{"name": "read", "args": {"path": "src/app/DbPool.py"}, "id": "c"}]),
        ],
    )
    for query, tag in [
        ("why sqlite", 1),
        ("端口", 2),
        ("库", 2),
        ("5432", 2),
        ("数据库端口", 2),
        ("dbpool", 4),
        ("src/app/DbPool.py", 4),
        ("pool", 4),
    ]:
        found = memory.archive.search("s", query)
        assert found, query
        assert found[0][0] == tag, query
        assert len(found[0][1]) <= 220
    assert memory.archive.search("s", "zebra") == []
    assert memory.archive.search("none", "sqlite") == []
    assert memory.archive.search("s", "sqlite", limit=0) == []


def test_g28_search_sees_new_messages_and_no_other_session(memory: Memory) -> None:
    memory.archive.append("s", said("alpha one"))
    memory.archive.append("t", said("alpha two"))
    assert [tag for tag, _ in memory.archive.search("s", "alpha")] == [1]
    memory.archive.append("s", said("alpha three", start=1))
    assert [tag for tag, _ in memory.archive.search("s", "alpha three")] == [2, 1]


def test_search_survives_queries_that_are_no_words(memory: Memory) -> None:
    memory.archive.append("s", said('say "quoted" AND (NOT x*) ^y', "->>"))
    for query in ('"quoted" AND (', "NOT", "*", "x* ^y", "\0", "\udcb2", '"', "''; DROP TABLE messages"):
        memory.archive.search("s", query)
    assert [tag for tag, _ in memory.archive.search("s", "->>")] == [2]


def test_snippets_show_the_match_in_a_long_message(memory: Memory) -> None:
    memory.archive.append("s", said("filler " * 5_000 + "the secret port is 7777 " + "filler " * 5_000))
    (_, shown), *_ = memory.archive.search("s", "7777")
    assert "7777" in shown
    assert len(shown) <= 220


def test_c23_appending_costs_the_same_in_a_long_session(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive.sqlite")

    def steps(session: str, rows: int) -> int:
        """What SQLite's machine does for one message, in its own steps of ten."""
        archive.append(session, said(*(f"message {n} " * 20 for n in range(rows))))
        done = 0

        def count() -> None:
            nonlocal done
            done += 1

        with archive._db.read() as db:
            db.set_progress_handler(count, 10)
        archive.append(session, [HumanMessage("x" * 2_000, id="late")])
        with archive._db.read() as db:
            db.set_progress_handler(None, 10)
        return done

    short, long = steps("short", 10), steps("long", 20_000)
    archive.close()
    assert 0 < long <= 1.5 * short < 150


def test_a_log_is_put_back_under_its_tags_and_goes_on_from_there(memory: Memory) -> None:
    archive = memory.archive
    said = {tag: HumanMessage(f"said {tag}", id=f"m{tag}") for tag in (7, 8, 11)}
    assert archive.restore("s", said) == [7, 8, 11]
    assert archive.tags("s") == [[7, 8], [11, 11]]
    assert archive.append("s", [said[8], HumanMessage("new", id="n")]) == [8, 12]
    assert archive.restore("s", {**said, 12: said[7], 13: HumanMessage("more", id="o")}) == [13]
    assert [(tag, m.content) for tag, m in archive.read("s", 1, 99)][-2:] == [(12, "new"), (13, "more")]
    with pytest.raises(UnknownTag, match=r"no tag 9: its text was lost.*here are 7 to 8, 11 to 13"):
        archive.get("s", 9)
    archive.fork("s", "branch", 8)
    assert archive.tags("branch") == [[7, 8]]
    assert archive.append("branch", [HumanMessage("other", id="p")]) == [9]
    assert [tag for tag, _ in archive.search("s", "said")] != []
    archive.delete("s")
    assert archive.tags("branch") == [[7, 9]]

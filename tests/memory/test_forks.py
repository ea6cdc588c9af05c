"""Forks share their past by reference, and deleting frees exactly what nobody refers to."""

from __future__ import annotations

import sqlite3

import pytest
from langchain_core.messages import BaseMessage, HumanMessage

from headwater.memory.archive import BLOB_BYTES, SessionExists, UnknownSession, UnknownTag
from headwater.memory.kinship import delete_session
from headwater.memory.memory import Memory


def said(*texts: str, mark: str = "m") -> list[BaseMessage]:
    return [HumanMessage(text, id=f"{mark}{n}") for n, text in enumerate(texts)]


def texts(memory: Memory, session: str) -> list[str]:
    return [str(message.content) for _, message in memory.archive.read(session, 1, 99)]


def rows(memory: Memory, table: str) -> int:
    connection = sqlite3.connect(memory.root / "archive.sqlite")
    try:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    finally:
        connection.close()


def test_m25_a_fork_shares_the_past_and_nothing_after(memory: Memory) -> None:
    memory.archive.append("trunk", said("a", "b", "c", "d"))
    memory.archive.fork("trunk", "branch", at=2)
    assert memory.archive.append("trunk", said("e", mark="t")) == [5]
    assert memory.archive.append("branch", said("x", "y", mark="b")) == [3, 4]
    assert texts(memory, "trunk") == ["a", "b", "c", "d", "e"]
    assert texts(memory, "branch") == ["a", "b", "x", "y"]
    assert memory.archive.get("branch", 3).content == "x"
    # What the branch saw before the fork keeps its tag; what only the trunk saw is new to it.
    assert memory.archive.append("branch", said("a", "b", "c")) == [1, 2, 5]


def test_m25_forks_of_forks_see_only_their_own_line(memory: Memory) -> None:
    memory.archive.append("g", said("1", "2", "3"))
    memory.archive.fork("g", "p")
    memory.archive.append("p", said("4", "5", mark="p"))
    memory.archive.fork("p", "early", at=2)
    memory.archive.fork("p", "late", at=4)
    memory.archive.append("early", said("e", mark="e"))
    memory.archive.append("late", said("l", mark="l"))
    assert texts(memory, "early") == ["1", "2", "e"]
    assert texts(memory, "late") == ["1", "2", "3", "4", "l"]
    memory.archive.fork("g", "from nothing", at=0)
    assert memory.archive.last("from nothing") == 0
    assert memory.archive.append("from nothing", said("n")) == [1]


def test_m25_a_thousand_forks_store_only_what_is_new(memory: Memory) -> None:
    memory.archive.append("trunk", said(*(f"text {n}" for n in range(200))))
    for n in range(1_000):
        memory.archive.fork("trunk", f"f{n}", at=n % 200)
    memory.archive.append("f7", said("only this", mark="f"))
    assert rows(memory, "messages") == 201


def test_a_fork_sees_compartments_that_lay_before_it_when_it_was_made(memory: Memory) -> None:
    memory.archive.append("trunk", said("a", "b", "c", "d"))
    old = memory.archive.put_compartment("trunk", {"first": 1, "last": 2})
    memory.archive.put_compartment("trunk", {"first": 3, "last": 4})
    memory.archive.fork("trunk", "branch", at=3)
    memory.archive.put_compartment("trunk", {"first": 3, "last": 3})
    assert [number for number, _ in memory.archive.compartments("branch")] == [old]
    mine = memory.archive.put_compartment("branch", {"first": 3, "last": 3})
    assert [number for number, _ in memory.archive.compartments("branch")] == [old, mine]
    assert len(memory.archive.compartments("trunk")) == 3


def test_search_in_a_fork_covers_the_shared_past_only(memory: Memory) -> None:
    memory.archive.append("trunk", said("alpha", "beta", "alpha gamma"))
    memory.archive.fork("trunk", "branch", at=2)
    memory.archive.append("branch", said("alpha delta", mark="b"))
    assert sorted(tag for tag, _ in memory.archive.search("branch", "alpha")) == [1, 3]
    assert memory.archive.search("branch", "gamma") == []
    assert memory.archive.search("trunk", "delta") == []


def test_wrong_forks_are_refused(memory: Memory) -> None:
    with pytest.raises(UnknownSession, match="no session 'nobody'"):
        memory.archive.fork("nobody", "x")
    memory.archive.append("s", said("a"))
    for at in (2, -1):
        with pytest.raises(UnknownTag, match="tags 1 to 1"):
            memory.archive.fork("s", "x", at=at)
    with pytest.raises(SessionExists, match="'s' exists"):
        memory.archive.fork("s", "s")
    assert memory.archive.sessions() == ["s"]


def test_deleting_keeps_what_forks_refer_to_and_frees_the_rest(memory: Memory) -> None:
    memory.archive.append("trunk", said("a", "b", "z" * BLOB_BYTES, "w" * BLOB_BYTES))
    memory.archive.put_compartment("trunk", {"first": 1, "last": 3})
    memory.archive.put_compartment("trunk", {"first": 4, "last": 4})
    memory.archive.fork("trunk", "branch", at=3)
    assert rows(memory, "blobs") == 2
    assert memory.archive.search("trunk", "a")
    memory.archive.delete("trunk")
    assert memory.archive.sessions() == ["branch"]
    assert texts(memory, "branch") == ["a", "b", "z" * BLOB_BYTES]
    assert len(memory.archive.compartments("branch")) == 1
    assert [tag for tag, _ in memory.archive.search("branch", "b")] == [2]
    assert (rows(memory, "messages"), rows(memory, "blobs")) == (3, 1)
    # The name is free, and what comes under it is another session.
    assert memory.archive.append("trunk", said("new")) == [1]
    memory.archive.delete("trunk")
    memory.archive.delete("branch")
    memory.archive.delete("never there")
    for table in ("messages", "blobs", "compartments", "sessions"):
        assert rows(memory, table) == 0, table


def test_deleting_the_middle_of_a_line_lets_go_of_what_only_it_needed(memory: Memory) -> None:
    memory.archive.append("g", said("1", "2", "3", "4"))
    memory.archive.fork("g", "p")
    memory.archive.append("p", said("5", mark="p"))
    memory.archive.fork("p", "c", at=2)
    memory.archive.delete("g")
    assert rows(memory, "messages") == 5
    memory.archive.delete("p")
    assert rows(memory, "messages") == 2
    assert texts(memory, "c") == ["1", "2"]


def test_equal_large_contents_are_stored_once(memory: Memory) -> None:
    big = "大" * BLOB_BYTES
    memory.archive.append("s", [HumanMessage(big, id="1"), HumanMessage(big, id="2")])
    memory.archive.append("t", [HumanMessage(big, id="3")])
    assert rows(memory, "blobs") == 1
    assert memory.archive.get("t", 1).content == big


def test_a_deleted_session_leaves_nothing_to_the_next_of_its_name(memory: Memory) -> None:
    memory.archive.append("s", said("a"))
    assert memory.runs.take("s", "h", 300.0)
    memory.runs.end("s", "h", failed=True, spent=5, report={"event": "historian_failed"})
    assert delete_session(memory, "s") == ["s"]
    assert memory.runs.standing("s") == (False, 0.0, 0, 0)
    assert memory.runs.reports("s") == []
    assert memory.runs.take("s", "h", 300.0)


def test_a_session_whose_conclusion_is_held_elsewhere_goes_only_when_told(memory: Memory) -> None:
    memory.archive.append("child", said("a"))
    memory.delegations.adopt("parent", "child", 1)
    assert delete_session(memory, "child") == []
    assert memory.archive.last("child") == 1
    assert delete_session(memory, "child", referred=True) == ["child"]
    assert memory.archive.last("child") == 0

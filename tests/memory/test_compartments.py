"""Told history in the index: found by meaning and by words, healed, deleted, and nobody else's."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage
from langgraph.store.memory import InMemoryStore

from headwater.memory import Memory
from headwater.memory.chroma import ChromaIndex
from headwater.memory.database import StorageError
from headwater.memory.erase import forget_fact
from headwater.memory.index import Index
from headwater.memory.kinship import delete_session
from headwater.memory.words import LexicalIndex
from tests.memory.conftest import HashedWords
from tests.memory.test_healing import Slow, corrupted, deleted, unharmed, warned

TOLD = [
    (
        "Storage engine",
        "The team settled on SQLite since no server has to be run and one file can be copied.",
    ),
    ("Login outage", "Users could not sign in on Monday: an expired TLS certificate, which was renewed."),
    ("发布流程", "团队决定每周四下午发布新版本，周五禁止上线，回滚由值班人员执行。"),
    ("连接池", "讨论了数据库连接池耗尽的问题，最后把 max_connections 调到 200。"),
    ("Payment rounding", "Invoices were off by one cent; the total is now rounded once, after tax."),
]


def tell(memory: Memory, session: str, title: str, text: str) -> int:
    """A stretch of two messages of a session, told."""
    number = memory.archive.last(session)
    said = [HumanMessage(f"{session} {number + n}", id=f"{session}{number + n}") for n in range(2)]
    tags = memory.archive.append(session, said)
    memory.sessions.claim(session)
    data = {"first": tags[0], "last": tags[-1], "title": title, "p1": text, "tags": [[tags[0], tags[-1]]]}
    key = memory.archive.put_compartment(session, data)
    memory.compartments.published()
    return key


def titles(memory: Memory, session: str, query: str, k: int = 10) -> list[str]:
    return [found.title for found in memory.compartments.search(session, query, k)]


def spaces(index: Index, tenant: str = "default") -> int:
    return index.size((tenant, "default", "compartments"))


def test_g28_g36_a_question_in_other_words_or_another_language_finds_what_was_told(tmp_path: Path) -> None:
    with Memory(tmp_path) as memory:
        for at, (title, text) in enumerate(TOLD):
            tell(memory, f"s{at % 2}", title, text)
        assert memory.compartments.settle(60)
        assert memory.compartments.unindexed() == []
        words = LexicalIndex(tmp_path / "told.sqlite")
        for query, wanted in (
            ("people were unable to log in", "Login outage"),
            ("登录故障的原因", "Login outage"),
            ("账单金额不一致", "Payment rounding"),
            ("we ran out of database handles", "连接池"),
        ):
            hits = words.search(("default", "default", "compartments"), query, 10)
            by_words = {
                row.value()["title"] for row in memory.archive.compartment_rows(int(h.id) for h in hits)
            }
            assert wanted not in by_words, "words alone find it: the question proves nothing"
            assert titles(memory, "s0", query)[0] == wanted
        words.close()
        (first, *_) = memory.compartments.search("s0", "max_connections", 1)
        assert (first.session, first.first, first.last, first.tags) == ("s1", 3, 4, ((3, 4),))


def test_g1_publishing_waits_for_no_index(tmp_path: Path) -> None:
    slow = Slow()
    with Memory(tmp_path, embeddings=slow) as memory:
        tell(memory, "s", *TOLD[0])
        assert not memory.compartments.settle(0.2)
        tell(memory, "s", *TOLD[1])
        slow.go.set()
        assert memory.compartments.settle(30)
        assert memory.compartments.unindexed() == []
        assert set(titles(memory, "s", "SQLite Monday")) == {"Storage engine", "Login outage"}


def test_what_comes_together_is_embedded_together(tmp_path: Path) -> None:
    class Counting(HashedWords):
        calls = 0

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            Counting.calls += 1
            return super().embed_documents(texts)

    with Memory(tmp_path, embeddings=Counting()) as memory:
        for title, text in TOLD:
            tell(memory, "s", title, text)
        assert memory.compartments.settle(30)
        assert Counting.calls == 1
        tell(memory, "s", "New", "and only the new one is embedded")
        assert memory.compartments.settle(30)
        assert Counting.calls == 2


def test_a_search_asks_words_alone_while_embeddings_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.memory.compartments.PATIENCE", 0.0)
    with Memory(tmp_path, embeddings=HashedWords()) as memory:
        tell(memory, "s", *TOLD[0])
        assert memory.compartments.settle(30)
        entered, leave = threading.Event(), threading.Event()

        def hold() -> None:
            with memory.compartments._lock:
                entered.set()
                leave.wait(30)

        other = threading.Thread(target=hold)
        other.start()
        assert entered.wait(30)
        assert titles(memory, "s", "SQLite") == ["Storage engine"]
        leave.set()
        other.join()


@pytest.mark.parametrize("harm", [deleted, corrupted, unharmed], ids=["deleted", "corrupted", "dimension"])
def test_case_53_told_history_is_found_by_words_while_its_index_heals(
    memory: Memory, caplog: pytest.LogCaptureFixture, harm: object
) -> None:
    for title, text in TOLD:
        tell(memory, "s", title, text)
    assert memory.compartments.settle(30)
    memory.close()
    assert callable(harm)
    harm(memory.root)
    slow = Slow(7 if harm is unharmed else 32)
    with Memory(memory.root, embeddings=slow) as opened:
        assert titles(opened, "s", "max_connections") == ["连接池"]
        assert len(opened.compartments.unindexed()) == len(TOLD)
        assert len(warned(caplog)) == 1
        slow.go.set()
        assert opened.compartments.settle(30)
        assert opened.compartments.unindexed() == []
        assert len(opened.compartments.search("s", "max_connections", 10)) == len(TOLD)


def test_a_kill_behind_the_archives_row_is_made_up_for_by_the_next_opening(tmp_path: Path) -> None:
    """No mark was written and no index told: the row alone says that it is not indexed yet."""
    with Memory(tmp_path, embeddings=HashedWords()) as memory:
        tell(memory, "s", *TOLD[0])
        assert memory.compartments.settle(30)
        memory.archive.append("s", [HumanMessage("more", id="more")])
        data = {"first": 3, "last": 3, "title": TOLD[1][0], "p1": TOLD[1][1]}
        memory.archive.put_compartment("s", data)
    with Memory(tmp_path, embeddings=HashedWords()) as again:
        assert len(again.compartments.unindexed()) == 1
        assert titles(again, "s", "expired certificate")[0] == "Login outage"
        assert again.compartments.unindexed() == []


def test_a_folder_from_before_the_index_is_taken_up_whole(tmp_path: Path) -> None:
    with Memory(tmp_path, embeddings=HashedWords()) as memory:
        memory.sessions.claim("s")
        for number in range(130):
            memory.archive.append("s", [HumanMessage("x", id=f"x{number}")])
            memory.archive.put_compartment(
                "s", {"first": number + 1, "last": number + 1, "title": f"T{number}", "p1": f"row {number}"}
            )
    with Memory(tmp_path, embeddings=HashedWords()) as again:
        assert titles(again, "s", "row 77", 1) == ["T77"]
        assert again.compartments.settle(30)
        assert again.compartments.unindexed() == []
        chroma = ChromaIndex(tmp_path / "chroma", HashedWords())
        assert spaces(chroma) == 130
        assert again.compartments.rebuild() == 130


def test_m25_a_fork_finds_what_the_trunk_told_before_it_and_nothing_after(memory: Memory) -> None:
    tell(memory, "trunk", "Old turbine", "the turbine stood in hall seven")
    memory.archive.fork("trunk", "branch")
    memory.sessions.claim("branch")
    tell(memory, "trunk", "New turbine", "the turbine went to hall nine")
    tell(memory, "branch", "Branch turbine", "the turbine stays in the branch")
    found = {one.title: one.session for one in memory.compartments.search("branch", "turbine", 10)}
    assert found == {"Old turbine": "branch", "New turbine": "trunk", "Branch turbine": "branch"}
    delete_session(memory, "trunk")
    found = {one.title: one.session for one in memory.compartments.search("branch", "turbine", 10)}
    assert found == {"Old turbine": "branch", "Branch turbine": "branch"}
    assert memory.compartments.unindexed() == []
    delete_session(memory, "branch")
    assert titles(memory, "branch", "turbine") == []


def test_m25_a_fork_brings_along_a_past_that_the_project_had_not(tmp_path: Path) -> None:
    with Memory(tmp_path, embeddings=HashedWords(), project="one") as one:
        tell(one, "trunk", "Old turbine", "the turbine stood in hall seven")
        with Memory(tmp_path, embeddings=HashedWords(), project="two") as two:
            tell(two, "own", "Pump", "the pump hums")
            assert two.compartments.settle(30)
            two.archive.fork("trunk", "branch")
            two.sessions.claim("branch")
            assert sorted(titles(two, "branch", "turbine pump")) == ["Old turbine", "Pump"]
            assert titles(two, "own", "turbine") == ["Pump"], "it is the branch's past, and nobody else's"
            assert two.compartments.unindexed() == []
            assert two.compartments.rebuild() == 2


def test_a_forgotten_session_leaves_both_indexes_and_the_file(memory: Memory) -> None:
    tell(memory, "s", "Vault", "the vault opens with quicksilver")
    tell(memory, "t", *TOLD[0])
    fact = memory.facts.write("the vault is in hall seven", "NAMING", source=("s", (1,)))
    assert memory.compartments.settle(30)
    assert b"quicksilv" in (memory.root / "told.sqlite").read_bytes() + _log(memory)
    forget_fact(memory, fact.id, sessions=True)
    for kind in (
        ChromaIndex(memory.root / "chroma", HashedWords()),
        LexicalIndex(memory.root / "told.sqlite"),
    ):
        assert spaces(kind) == 1
        kind.close()
    assert b"quicksilv" not in (memory.root / "told.sqlite").read_bytes() + _log(memory)
    assert titles(memory, "t", "vault quicksilver sqlite") == ["Storage engine"]


def _log(memory: Memory) -> bytes:
    path = memory.root / "told.sqlite-wal"
    return path.read_bytes() if path.exists() else b""


def test_case_54_two_tenants_find_their_own_sessions_only(tmp_path: Path) -> None:
    index = ChromaIndex(tmp_path / "chroma", HashedWords())
    store = InMemoryStore()
    with Memory(tmp_path, store=store, index=index, tenant="alice") as alice:
        bob = alice.of_tenant("bob")
        for memory, name in ((alice, "a"), (bob, "b")):
            tell(memory, f"{name}1", f"Port {name}", "the database listens on port 5432")
            tell(memory, f"{name}2", f"Cache {name}", "the cache holds an hour")
        for memory, name in ((alice, "a"), (bob, "b")):
            assert memory.compartments.settle(30)
            assert sorted(titles(memory, f"{name}1", "database port cache hour")) == [
                f"Cache {name}",
                f"Port {name}",
            ]
            assert spaces(index, memory.tenant) == 2
        # A thread that both have led is found by both, and goes from both.
        tell(alice, "shared", "Shared", "the database moved")
        bob.sessions.claim("shared")
        assert bob.compartments.rebuild() == 3
        delete_session(alice, "shared")
        assert "Shared" not in titles(bob, "b1", "database moved")
        assert (spaces(index, "alice"), spaces(index, "bob")) == (2, 2)


def test_a_store_that_fails_is_named_and_the_archive_keeps_what_was_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "memory.sqlite").write_bytes(b"no database" * 400)
    with Memory(tmp_path, index=LexicalIndex(tmp_path / "w.sqlite")) as memory:
        tell(memory, "s", *TOLD[0])
        with caplog.at_level(logging.DEBUG, logger="headwater.memory.compartments"):
            assert memory.compartments.settle(30)
        assert "not indexed yet" in caplog.text
        with pytest.raises(StorageError, match="not a database"):
            memory.compartments.search("s", "SQLite")
        assert len(memory.archive.compartments("s")) == 1


def test_a_store_that_is_given_has_nothing_of_told_history(tmp_path: Path) -> None:
    """Two folders have archives of their own, which number their rows alike."""
    store = InMemoryStore()
    with (
        Memory(tmp_path / "a", store=store, embeddings=HashedWords()) as one,
        Memory(tmp_path / "b", store=store, embeddings=HashedWords()) as other,
    ):
        for title, text in TOLD[:3]:
            tell(one, "s", title, text)
        assert one.compartments.settle(30)
        tell(other, "s", *TOLD[4])
        assert other.compartments.settle(30)
        assert titles(other, "s", "invoices") == ["Payment rounding"]
        assert set(titles(one, "s", "SQLite Monday")) == {title for title, _ in TOLD[:3]}

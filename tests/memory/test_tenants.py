"""Two tenants on one folder with the same topic: nothing of one is ever shown to the other."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage
from langgraph.store.memory import InMemoryStore

from headwater.memory.chroma import ChromaIndex
from headwater.memory.facts import UnknownFact
from headwater.memory.memory import Memory
from headwater.memory.words import LexicalIndex
from tests.memory.conftest import HashedWords

WORDS = [
    *("database", "port", "timeout", "deploy", "friday", "cache", "billing", "service"),
    *("数据库", "端口", "超时", "部署", "缓存", "7", "8"),
]
QUERIES, AT_ONCE = 10_000, 500


def test_case_54_ten_thousand_queries_of_two_tenants_leak_nothing(tmp_path: Path) -> None:
    """Each of them in the index by words and, over facts and over what was told, in Chroma; every fiftieth
    through `Facts` and `Compartments` too, which read the store and the archive.
    """
    dice = random.Random(54)
    store = InMemoryStore()
    by_words = LexicalIndex(tmp_path / "alone.sqlite")
    by_meaning = ChromaIndex(tmp_path / "chroma", HashedWords(8))
    own: dict[str, set[str]] = {}
    texts = [" ".join(dice.sample(WORDS, 5)) for _ in range(30)]
    memories = {
        name: Memory(tmp_path, store=store, index=by_meaning, tenant=name, project="p")
        for name in ("alice", "bob")
    }
    for name, memory in memories.items():
        own[name] = {memory.facts.write(f"{text} of {name}", "CONFIG_VALUES").id for text in texts}
        for number, text in enumerate(texts):
            _told(memory, f"{name} {number}", f"{text} of {name}")
        by_words.reset((name, "p", "facts"))
        by_words.upsert((name, "p", "facts"), [*memory.facts._entries()])
        assert memory.compartments.settle(60)
    assert not own["alice"] & own["bob"]
    answered = 0
    for start in range(0, QUERIES, AT_ONCE):
        name = ("alice", "bob")[start // AT_ONCE % 2]
        memory, other = memories[name], {"alice": "bob", "bob": "alice"}[name]
        queries = [" ".join(dice.choices([*WORDS, "alice", "bob"], k=3)) for _ in range(AT_ONCE)]
        facts = by_meaning.search_many((name, "p", "facts"), queries, 5)
        told = by_meaning.search_many((name, "p", "compartments"), queries, 5)
        for number, query in enumerate(queries):
            found = {hit.id for hit in (*by_words.search((name, "p", "facts"), query, 5), *facts[number])}
            assert found <= own[name], query
            assert told[number]
            answered += bool(found)
            if number % 50 == 0:
                assert {fact.id for fact, _ in memory.facts.search(query, 5)} <= own[name], query
                heard = memory.compartments.search(f"{name} 0", query, 5)
                assert heard
                assert all(one.session.startswith(name) and other not in one.text for one in heard), query
        ids = {hit.id for hits in told for hit in hits}
        rows = memory.archive.compartment_rows(map(int, ids))
        assert all((row.session or "").startswith(name) for row in rows)
    assert answered == QUERIES
    for name, other in (("alice", "bob"), ("bob", "alice")):
        assert {fact.id for fact in memories[name].facts.list()} == own[name]
        for key in own[other]:
            with pytest.raises(UnknownFact):
                memories[name].facts.get(key)
    for memory in memories.values():
        memory.close()
    by_words.close()


def _told(memory: Memory, session: str, text: str) -> None:
    memory.archive.append(session, [HumanMessage("said", id=session)])
    memory.sessions.claim(session)
    memory.archive.put_compartment(session, {"first": 1, "last": 1, "title": "T", "p1": text})
    memory.compartments.published()


def test_a_tenant_of_a_server_shares_all_but_facts_and_sessions(tmp_path: Path) -> None:
    with Memory(tmp_path, index=LexicalIndex(tmp_path / "w.sqlite"), user_profile=True) as server:
        tenant = server.of_tenant("acme")
        assert server.of_tenant("acme") is tenant
        for part in ("archive", "artifacts", "limits", "scales", "runs", "ledger", "shelf", "frames"):
            assert getattr(tenant, part) is getattr(server, part)
        assert tenant.user_profile
        server.sessions.claim("ours")
        tenant.sessions.claim("theirs")
        assert (server.sessions.newest(), tenant.sessions.newest()) == (["ours"], ["theirs"])
    assert tenant.sessions._db._connection is None

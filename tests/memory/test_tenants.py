"""Two tenants on one folder with the same topic: nothing of one is ever shown to the other."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
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
QUERIES = 10_000


def test_case_54_ten_thousand_queries_of_two_tenants_leak_nothing(tmp_path: Path) -> None:
    """In the index by words; every fiftieth in Chroma and through `Facts` too, which reads the store."""
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
    for name, memory in memories.items():
        space = (name, "p", "facts")
        by_words.reset(space)
        by_words.upsert(space, [*memory.facts._entries()])
    assert not own["alice"] & own["bob"]
    answered = 0
    for number in range(QUERIES):
        name = ("alice", "bob")[number % 2]
        query = " ".join(dice.choices([*WORDS, "alice", "bob"], k=3))
        space = (name, "p", "facts")
        found = {hit.id for hit in by_words.search(space, query, 5)}
        if number % 50 == 0:
            found |= {hit.id for hit in by_meaning.search(space, query, 5)}
            found |= {fact.id for fact, _ in memories[name].facts.search(query, 5)}
        assert found <= own[name], query
        answered += bool(found)
    assert answered > 0.9 * QUERIES
    for name, other in (("alice", "bob"), ("bob", "alice")):
        assert {fact.id for fact in memories[name].facts.list()} == own[name]
        for key in own[other]:
            with pytest.raises(UnknownFact):
                memories[name].facts.get(key)
    for memory in memories.values():
        memory.close()
    by_words.close()


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

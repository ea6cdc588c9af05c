"""A fact's id comes from its purport: what other tables have named is found, kept and never named anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from headwater.memory import Memory, StoreTooNew, purport
from headwater.memory.fact import Category, Fact, fact, fact_id
from headwater.memory.notes import export_facts, import_facts
from headwater.memory.words import LexicalIndex

FROZEN = Path(__file__).parent / "frozen"
BEFORE, AFTER = "The gateway listens on port 8443", "The ingress listens on port 8443"


def frozen(version: int) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = json.loads((FROZEN / f"purport_{version}.json").read_text("utf-8"))
    return rows


def opened(root: Path, store: InMemoryStore, **kw: Any) -> Memory:
    return Memory(root, store=store, index=LexicalIndex(root / "w.sqlite"), **kw)


def change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of another version: they know that an ingress is a gateway, and that a cache is a store."""
    monkeypatch.setattr(purport, "VERSION", 2)
    for word, instead in (("ingress", "edge"), ("gateway", "edge"), ("cache", "store"), ("缓存", "存")):
        monkeypatch.setitem(purport._SYNONYMS, word, instead)


def test_changed_tables_have_another_version() -> None:
    """Whoever sees this fail: raise `purport.VERSION`, and freeze the ids of the new one beside these."""
    for row in frozen(purport.VERSION):
        assert fact_id(row["content"], Category(row["category"])) == row["id"], row["content"]


def test_a_stored_fact_says_what_named_it(tmp_path: Path) -> None:
    value = fact(BEFORE, "NAMING", now=1.0).to_value()
    assert value["purport"] == purport.VERSION
    older = {name: item for name, item in value.items() if name not in ("v", "purport")}
    assert Fact.from_value(older).purport == 1
    with pytest.raises(StoreTooNew, match=r"purport 7.*upgrade"):
        Fact.from_value({**value, "purport": 7})


def test_facts_of_older_tables_are_found_by_new_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = InMemoryStore()
    with opened(tmp_path, store) as memory:
        old = memory.facts.write(BEFORE, "NAMING")
        for row in frozen(1):
            assert memory.facts.write(row["content"], row["category"]).id == row["id"]
        count = memory.facts.count()
    change(monkeypatch)
    with opened(tmp_path, store) as memory:
        assert fact_id(BEFORE, Category.NAMING) != old.id
        again = memory.facts.write(AFTER, "NAMING")
        assert (again.id, again.seen, again.content, again.purport) == (old.id, 2, BEFORE, 1)
        for row in frozen(1):
            assert memory.facts.write(row["content"], row["category"]).id == row["id"]
        assert memory.facts.count() == count
        new = memory.facts.write("The mascot is an otter", "NAMING")
        assert (new.id, new.purport) == (fact_id(new.content, Category.NAMING), 2)
        assert memory.facts.supersede(old.id, "The ingress listens on port 9443").id != old.id
        assert memory.facts.get(old.id).superseded_by
        # What was exported before the change comes back under its id, into an empty store as well.
        export_facts(memory.facts, tmp_path / "notes")
        assert import_facts(memory.facts, tmp_path / "notes").same == memory.facts.count()
        memory.facts.forget(old.id)
        assert memory.facts.write(AFTER, "NAMING").id == fact_id(AFTER, Category.NAMING)
    other = InMemoryStore()
    with opened(tmp_path / "other", other) as memory:
        done = import_facts(memory.facts, tmp_path / "notes")
        assert (done.new, done.refused) == (count + 2, ())
        assert memory.facts.get(old.id).content == BEFORE
        assert memory.facts.write(AFTER, "NAMING").id == old.id


def test_a_store_that_newer_tables_have_named_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = InMemoryStore()
    change(monkeypatch)
    with opened(tmp_path, store) as memory:
        memory.facts.write(AFTER, "NAMING")
    monkeypatch.setattr(purport, "VERSION", 1)
    with opened(tmp_path, store) as memory, pytest.raises(StoreTooNew, match=r"purport 2.*upgrade"):
        memory.facts.write("something else", "NAMING")

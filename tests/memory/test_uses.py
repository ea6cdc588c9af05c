"""How often facts were found and recalled: counted without a write, written together, used by the dreamer."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore

from headwater.memory import Memory, uses
from headwater.memory.uses import Use
from headwater.memory.words import LexicalIndex
from tests.memory.dreaming import DAY, Clock, dreamer, memory_in, told


class Counting(InMemoryStore):
    """A store that counts the rows of uses that are written."""

    written = 0

    def batch(self, ops: Any) -> list[Any]:
        given = [*ops]
        self.written += sum(isinstance(op, PutOp) and "uses" in op.namespace for op in given)
        return super().batch(given)


def memory_of(root: Path, store: InMemoryStore) -> Memory:
    return Memory(root, store=store, index=LexicalIndex(root / "w.sqlite"))


def test_counting_writes_nothing_until_it_is_asked_for_or_closed(tmp_path: Path) -> None:
    store = Counting()
    with memory_of(tmp_path, store) as memory:
        ids = [memory.facts.write(f"service {n} is here", "NAMING").id for n in range(3)]
        for _ in range(50):
            memory.facts.uses.count("found", ids)
            memory.facts.uses.count("recalled", ids[:1])
        assert store.written == 0
        use = memory.facts.uses.of(ids[0])
        assert (use.found, use.recalled) == (50, 50)
        assert use.last_found > 0
        assert store.written == 3, "one row a fact, however often it was counted"
        memory.facts.uses.count("recalled", ids)
    assert memory.facts.uses.of(ids[1])[:2] == (50, 1)
    memory.close()


def test_counts_are_written_a_little_later_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uses, "DELAY", 0.0)
    store = Counting()
    with memory_of(tmp_path, store) as memory:
        fact = memory.facts.write("the port is 5432", "NAMING")
        memory.facts.uses.count("found", [fact.id])
        timer = memory.facts.uses._timer
        if timer is not None:
            timer.join(30)
        assert store.written == 1


def test_two_processes_add_up_and_a_forgotten_fact_has_no_counts(tmp_path: Path) -> None:
    with memory_in(tmp_path, Clock()) as one, memory_in(tmp_path, Clock()) as other:
        fact = one.facts.write("the port is 5432", "NAMING")
        for memory in (one, other, one):
            memory.facts.uses.count("found", [fact.id])
            memory.facts.uses.flush()
        assert one.facts.uses.of(fact.id).found == 3
        other.facts.uses.count("found", [fact.id])
        other.facts.forget(fact.id)
        assert other.facts.uses.of(fact.id) == Use()
        assert one.facts.get(one.facts.write("the port is 5432", "NAMING").id).seen == 1


def test_a_store_that_fails_costs_the_counts_and_nothing_else(tmp_path: Path) -> None:
    class Down(Counting):
        down = False

        def batch(self, ops: Any) -> list[Any]:
            if self.down:
                raise sqlite3.OperationalError("disk I/O error")
            return super().batch(ops)

    store = Down()
    memory = memory_of(tmp_path, store)
    fact = memory.facts.write("the port is 5432", "NAMING")
    memory.facts.uses.count("found", [fact.id])
    store.down = True
    memory.close()
    store.down = False
    assert memory.facts.uses.of(fact.id) == Use()
    memory.close()


def test_g16_what_a_search_has_found_lately_is_not_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    with memory_in(tmp_path, clock) as memory:
        old = clock.now - 400 * DAY
        never, long_ago, lately = (
            memory.facts.write(f"the {name} script lies in tools", "NAMING", importance=10, now=old)
            for name in ("alpha", "beta", "gamma")
        )
        for fact, days in ((long_ago, 300), (lately, 3)):
            monkeypatch.setattr("headwater.memory.uses.time.time", lambda days=days: clock.now - days * DAY)
            memory.facts.uses.count("found", [fact.id])
        report = dreamer(memory, None, clock).dream("archive-stale", now=True)
        reasons = told(report, "archive-stale")
        assert set(reasons) == {never.id, long_ago.id}
        assert "never found" in reasons[never.id]
        assert "last found 300 days ago" in reasons[long_ago.id]


def test_counts_are_written_while_a_fact_is_being_written(tmp_path: Path) -> None:
    """Who writes a fact holds it and waits for the store's turn; who has the turn must not wait for that."""
    with Memory(tmp_path, index=LexicalIndex(tmp_path / "w.sqlite")) as memory:
        known = memory.facts.write("service one is here", "NAMING").id
        memory.facts.uses.count("found", [known])
        late = threading.Thread(target=memory.facts.uses.flush)
        with memory.facts._lock:
            late.start()
            late.join(20)
            stuck = late.is_alive()
        late.join()
        assert not stuck
        assert memory.facts.uses.of(known).found == 1

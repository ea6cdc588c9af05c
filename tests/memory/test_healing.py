"""Opening heals: whatever became of an index, work goes on by words, and the index comes back by itself."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.memory.memory import Memory
from headwater.memory.rebuild import build_lease
from tests.memory.conftest import HashedWords


class Slow(HashedWords):
    """Embeddings that wait until they are let go."""

    def __init__(self, size: int = 32) -> None:
        super().__init__(size)
        self.go = threading.Event()
        self.asked = threading.Event()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.asked.set()
        assert self.go.wait(30)
        return super().embed_documents(texts)


def deleted(root: Path) -> None:
    shutil.rmtree(root / "chroma")


def corrupted(root: Path) -> None:
    (database,) = root.glob("chroma/*/chroma.sqlite3")
    database.write_bytes(b"garbage" * 4_000)


def unharmed(root: Path) -> None:
    assert root.is_dir()


def fill(memory: Memory, count: int = 8) -> list[str]:
    ids = [memory.facts.write(f"service number {n} is here", "ARCHITECTURE").id for n in range(count)]
    assert memory.facts.settle(30)
    return ids


def found(memory: Memory) -> set[str]:
    return {fact.id for fact, _ in memory.facts.search("service number", 99)}


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("harm", "size"), [(deleted, 32), (corrupted, 32), (unharmed, 7)],
    ids=["deleted", "corrupted", "another dimension"],
)  # fmt: skip
def test_case_53_words_serve_with_one_warning_while_the_index_heals(
    memory: Memory, caplog: pytest.LogCaptureFixture, harm: Callable[[Path], None], size: int
) -> None:
    ids = fill(memory)
    memory.close()
    harm(memory.root)
    slow = Slow(size)
    with Memory(memory.root, embeddings=slow) as opened:
        assert found(opened) == set(ids)
        ids.append(opened.facts.write("service number nine is new", "ARCHITECTURE").id)
        opened.facts.archive(ids[0])
        assert found(opened) == set(ids[1:])
        assert set(opened.facts.unindexed()) == set(ids[1:])
        assert len(warned(caplog)) == 1
        assert "words serve until then" in warned(caplog)[0]
        slow.go.set()
        assert opened.facts.settle(30)
        assert found(opened) == set(ids[1:])
        assert opened.facts.unindexed() == []
    caplog.clear()
    with Memory(memory.root, embeddings=HashedWords(size)) as again:
        assert found(again) == set(ids[1:])
        assert again.facts.unindexed() == []
    assert warned(caplog) == []


def test_rows_written_by_another_process_during_the_build_are_in_it(memory: Memory) -> None:
    ids = fill(memory)
    memory.close()
    deleted(memory.root)
    slow = Slow()
    with (
        Memory(memory.root, embeddings=slow) as builder,
        Memory(memory.root, embeddings=HashedWords()) as other,
    ):
        assert found(builder) == set(ids)
        ids.append(other.facts.write("service number ten came meanwhile", "ARCHITECTURE").id)
        assert found(other) == set(ids)
        slow.go.set()
        assert builder.facts.settle(30)
        assert found(builder) == set(ids)
        assert builder.facts.unindexed() == []
        assert not builder.facts.search("nothing like it", 0)


def test_one_process_at_a_time_builds(tmp_path: Path) -> None:
    path = tmp_path / "new" / "build.sqlite"
    with build_lease(path) as first, build_lease(path) as second:
        assert (first, second) == (True, False)
    with build_lease(path) as third:
        assert third


def test_closing_in_the_middle_of_a_build_leaves_it_to_the_next_opening(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.memory.rebuild._GRACE", 0.0)
    ids = fill(memory)
    memory.close()
    deleted(memory.root)
    slow = Slow()
    opened = Memory(memory.root, embeddings=slow)
    assert found(opened) == set(ids)
    threading.Timer(0.2, slow.go.set).start()
    opened.close()
    with Memory(memory.root, embeddings=HashedWords()) as again:
        assert found(again) == set(ids)
        assert again.facts.settle(30)
        assert again.facts.unindexed() == []


def test_a_sighting_needs_no_index(memory: Memory) -> None:
    memory.facts.write("the port is 5432", "CONFIG_VALUES")
    assert memory.facts.settle(30)
    memory.close()
    deleted(memory.root)
    assert memory.facts.write("The port is 5432.", "CONFIG_VALUES").seen == 2

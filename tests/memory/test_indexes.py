"""Indexes are copies: lost, damaged, outdated or closed, they come back, and no fact is lost with them."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.embeddings import Embeddings

from headwater.memory.chroma import ChromaIndex
from headwater.memory.embed import SentenceEmbeddings, chunks
from headwater.memory.index import Entry, Hit, Index, IndexBroken, fuse
from headwater.memory.memory import Memory
from headwater.memory.words import LexicalIndex
from tests.memory.conftest import HashedWords

SPACE = ("tenant", "记忆库", "facts")
OTHER = ("tenant", "other", "facts")

KILLED = """
import os, signal, sys
from headwater.memory.memory import Memory
from tests.memory.conftest import HashedWords

memory = Memory(sys.argv[1], embeddings=HashedWords())
for n in range(10_000):
    memory.facts.write(f"fact number {n}", "NAMING")
    print(n, flush=True)
"""


class Unreachable(Embeddings):
    """Embeddings whose server is down, with an error of its own kind."""

    class Down(Exception):
        pass

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise self.Down("connection refused")

    def embed_query(self, text: str) -> list[float]:
        raise self.Down("connection refused")


@pytest.fixture(params=["words", "chroma"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Index]:
    made: Index = (
        LexicalIndex(tmp_path / "words.sqlite")
        if request.param == "words"
        else ChromaIndex(tmp_path / "chroma", HashedWords())
    )
    yield made
    made.close()


def fill(memory: Memory, count: int = 6) -> list[str]:
    ids = [memory.facts.write(f"service number {n} is here", "ARCHITECTURE").id for n in range(count)]
    assert memory.facts.settle(30)
    return ids


def found(memory: Memory, query: str = "service number", k: int = 99) -> set[str]:
    return {fact.id for fact, _ in memory.facts.search(query, k)}


def indexed(memory: Memory) -> tuple[int, int]:
    space = ("default", "default", "facts")
    by_meaning = ChromaIndex(memory.root / "chroma", HashedWords())
    by_words = LexicalIndex(memory.root / "words.sqlite")
    sizes = by_meaning.size(space), by_words.size(space)
    by_meaning.close()
    by_words.close()
    return sizes


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# What every index does.


def test_an_index_keeps_to_its_contract(index: Index) -> None:
    assert index.stamp(SPACE) is None
    for space in (SPACE, OTHER):
        index.reset(space)
    assert index.stamp(SPACE) is None
    index.seal(SPACE, "v1")
    assert (index.stamp(SPACE), index.stamp(OTHER)) == ("v1", None)
    index.upsert(SPACE, [Entry("a", "the port is 5432"), Entry("b", "数据库端口")])
    index.upsert(OTHER, [Entry("c", "the port is 5432")])
    assert index.search(SPACE, "port 5432", 5)[0].id == "a"
    assert index.search(SPACE, "端口", 5)[0].id == "b"
    assert {hit.id for hit in index.search(OTHER, "port 数据库端口", 5)} == {"c"}
    assert index.search(SPACE, "port", 0) == []
    index.delete(SPACE, ["a", "unknown"])
    assert "a" not in {hit.id for hit in index.search(SPACE, "port 5432", 5)}
    assert index.size(SPACE) == 1
    index.reset(SPACE)
    assert (index.size(SPACE), index.size(OTHER), index.stamp(SPACE)) == (0, 1, None)


def test_case_50_the_newer_text_of_an_entry_wins(index: Index) -> None:
    index.reset(SPACE)
    index.upsert(SPACE, [Entry("a", "old text"), Entry("b", "something else")])
    index.upsert(SPACE, [Entry("a", "fresh words")])
    assert index.size(SPACE) == 2
    assert index.search(SPACE, "fresh words", 1)[0].id == "a"


def test_an_index_can_be_closed_and_used_again(index: Index) -> None:
    index.reset(SPACE)
    index.upsert(SPACE, [Entry("a", "text")])
    index.close()
    index.close()
    assert index.search(SPACE, "text", 1)[0].id == "a"


@given(st.lists(st.lists(st.sampled_from("abcdef"), unique=True, max_size=6), max_size=3))
def test_fusing_ranks_scores_between_zero_and_one(rankings: Sequence[Sequence[str]]) -> None:
    fused = fuse([(0.5, [Hit(key, 1.0 / (n + 1)) for n, key in enumerate(ranking)]) for ranking in rankings])
    assert {hit.id for hit in fused} == {key for ranking in rankings for key in ranking}
    assert all(0 < hit.score <= 1.0000001 for hit in fused)
    assert [hit.score for hit in fused] == sorted((hit.score for hit in fused), reverse=True)


# What the facts do with them.


def test_opening_for_the_first_time_warns_of_nothing(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    fill(memory)
    memory.close()
    found(memory)
    assert warned(caplog) == []


def test_a_deleted_index_is_built_again(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    ids = fill(memory)
    memory.close()
    shutil.rmtree(memory.root / "chroma")
    for path in memory.root.glob("words.sqlite*"):
        path.unlink()
    assert found(memory) == set(ids)
    assert sorted(message.split()[0] for message in warned(caplog)) == ["ChromaIndex", "LexicalIndex"]
    memory.close()
    assert indexed(memory) == (6, 6)


def test_a_damaged_index_is_built_again(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    ids = fill(memory)
    memory.close()
    (chroma,) = memory.root.glob("chroma/*/chroma.sqlite3")
    for path in (chroma, memory.root / "words.sqlite"):
        path.write_bytes(b"garbage" * 4_000)
    assert found(memory) == set(ids)
    assert len(warned(caplog)) == 2
    memory.close()
    assert indexed(memory) == (6, 6)


def test_an_index_removed_while_open_loses_no_write(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    ids = fill(memory)
    shutil.rmtree(memory.root / "chroma")
    ids.append(memory.facts.write("service number nine", "ARCHITECTURE").id)
    assert found(memory) == set(ids)
    assert len(warned(caplog)) == 1


def test_case_53_another_dimension_builds_the_index_again(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    ids = fill(memory)
    memory.close()
    with Memory(memory.root, embeddings=HashedWords(size=7)) as changed:
        assert found(changed) == set(ids)
    assert [message.split()[0] for message in warned(caplog)] == ["ChromaIndex"]


def test_an_index_out_of_step_is_built_again(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    fill(memory, 3)
    memory.close()
    shutil.copytree(memory.root / "chroma", memory.root / "backup")
    ids = fill(memory, 6)
    memory.close()
    shutil.rmtree(memory.root / "chroma")
    shutil.move(memory.root / "backup", memory.root / "chroma")
    assert found(memory) == set(ids)
    assert len(warned(caplog)) == 1
    memory.close()
    assert indexed(memory) == (6, 6)


def test_embeddings_that_fail_cost_no_fact_and_words_still_find_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Memory(tmp_path, embeddings=Unreachable()) as memory:
        ids = fill(memory)
        assert found(memory) == set(ids)
        assert len(warned(caplog)) == 1
        with pytest.raises(IndexBroken, match="connection refused"):
            memory.facts.rebuild()
    caplog.clear()
    with Memory(tmp_path, embeddings=HashedWords()) as memory:
        assert found(memory) == set(ids)
    assert indexed(memory) == (6, 6)


def test_rebuild_counts_what_may_be_found(memory: Memory) -> None:
    ids = fill(memory)
    memory.facts.archive(ids[0])
    assert memory.facts.rebuild() == 5
    memory.close()
    assert indexed(memory) == (5, 5)


def test_two_memories_on_one_folder_see_each_other(memory: Memory) -> None:
    with Memory(memory.root, embeddings=HashedWords()) as other:
        mine = memory.facts.write("the port is 5432", "CONFIG_VALUES")
        theirs = other.facts.write("the port was 80", "CONFIG_VALUES")
        assert found(memory, "port") == found(other, "port") == {mine.id, theirs.id}


def test_a_killed_writer_loses_no_fact_that_was_acknowledged(tmp_path: Path) -> None:
    acknowledged = -1
    writer = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert writer.stdout is not None
    for line in writer.stdout:
        acknowledged = int(line)
        if acknowledged == 25:
            writer.kill()
            break
    writer.stdout.close()
    writer.wait()
    with Memory(tmp_path, embeddings=HashedWords()) as memory:
        kept = {fact.content for fact in memory.facts.list()}
        assert {f"fact number {n}" for n in range(26)} <= kept
        assert found(memory, "fact number", 99) == {fact.id for fact in memory.facts.list()}


def test_chunks_hold_all_words_and_are_short() -> None:
    text = "One sentence here. 另一句话在这里。" * 60
    pieces = chunks(text)
    assert all(len(piece) <= 400 for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert chunks("x" * 1_000) == ["x" * 400, "x" * 400, "x" * 200]
    assert chunks("") == [""]


def test_the_embedded_model_knows_two_languages() -> None:
    model = SentenceEmbeddings()
    assert model.embed_documents([]) == []
    vectors = model.embed_documents(["我喜欢猫", "I like cats", "quarterly tax report", "lone \udcb2", ""])
    assert {len(vector) for vector in vectors} == {512}
    cat_zh, cat_en, tax, *_ = vectors
    alike = sum(a * b for a, b in zip(cat_zh, cat_en, strict=True))
    apart = sum(a * b for a, b in zip(cat_zh, tax, strict=True))
    assert alike > apart + 0.2

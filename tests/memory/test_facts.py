"""Facts: one way in, five categories, found again in both languages, and by nobody else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from langgraph.store.memory import InMemoryStore

from headwater.memory.database import StorageError
from headwater.memory.fact import MAX_CHARS, Category, Fact, FactRefused, RecallBlockRefused, Source
from headwater.memory.facts import UnknownFact, label
from headwater.memory.memory import Memory
from tests.memory.conftest import HashedWords


def contents(memory: Memory, query: str, k: int = 5) -> list[str]:
    return [fact.content for fact, _ in memory.facts.search(query, k)]


def test_g22_there_are_five_categories_and_each_fact_has_one(memory: Memory) -> None:
    assert [*Category] == ["PROJECT_RULES", "ARCHITECTURE", "CONSTRAINTS", "CONFIG_VALUES", "NAMING"]
    for category in Category:
        memory.facts.write(f"about {category}", category.lower())
    assert [fact.category for fact in memory.facts.list()] == [*Category]
    assert len(memory.facts.list(category="NAMING")) == 1
    with pytest.raises(FactRefused, match="no category 'TASTE': use one of PROJECT_RULES"):
        memory.facts.write("x", "TASTE")


def test_e19_a_fact_survives_the_session_and_the_process(tmp_path: Path) -> None:
    with Memory(tmp_path, embeddings=HashedWords()) as first:
        written = first.facts.write(
            "The user prefers short answers",
            Category.PROJECT_RULES,
            scope="user",
            importance=80,
            source=("session/1", [3, 4]),
            trust="user",
            now=1_000.0,
        )
    with Memory(tmp_path, embeddings=HashedWords()) as second:
        assert second.facts.get(written.id) == written
        assert second.facts.search("short answers")[0][0] == written
    assert written == Fact(
        id=written.id,
        content="The user prefers short answers",
        category=Category.PROJECT_RULES,
        scope="user",
        importance=80,
        source=Source("session/1", (3, 4)),
        trust="user",
        status="active",
        created=1_000.0,
        valid_from=1_000.0,
    )


def test_c12_a_fact_the_agent_writes_lands_on_disk_at_once(memory: Memory) -> None:
    memory.facts.write("key=value", "CONFIG_VALUES")
    with Memory(memory.root, embeddings=HashedWords()) as elsewhere:
        assert [fact.content for fact in elsewhere.facts.list()] == ["key=value"]


def test_c13_what_the_window_forgets_memory_keeps(memory: Memory) -> None:
    kept = memory.facts.write("ports below 1024 are forbidden", "CONSTRAINTS", source=("s", [1]))
    memory.archive.delete("s")
    assert memory.facts.get(kept.id).content == "ports below 1024 are forbidden"


def test_a_repeat_is_a_sighting_and_revives_nothing(memory: Memory) -> None:
    first = memory.facts.write("Use  tabs", "PROJECT_RULES", now=1.0)
    again = memory.facts.write("use tabs ", "PROJECT_RULES", now=2.0, importance=90)
    assert (again.id, again.seen, again.created, again.importance) == (first.id, 2, 1.0, 50)
    assert memory.facts.write("use tabs", "NAMING").id != first.id
    memory.facts.archive(first.id)
    assert memory.facts.write("Use tabs", "PROJECT_RULES").status == "archived"
    assert memory.facts.get(first.id).seen == 3
    assert contents(memory, "tabs") == ["use tabs"]
    assert memory.facts.count() == 2
    assert memory.facts.count("archived") == 1


def test_archived_facts_are_never_returned(memory: Memory) -> None:
    ids = [memory.facts.write(f"port number {n}", "CONFIG_VALUES").id for n in range(30)]
    for key in ids[:25]:
        memory.facts.archive(key)
    assert {fact.id for fact, _ in memory.facts.search("port number", 30)} == set(ids[25:])


def test_superseding_links_both_ends_and_can_be_turned_back(memory: Memory) -> None:
    old = memory.facts.write("the port is 80", "CONFIG_VALUES", importance=70, now=1.0)
    new = memory.facts.supersede(old.id, "the port is 443", now=2.0)
    assert (new.category, new.importance, new.valid_from) == (Category.CONFIG_VALUES, 70, 2.0)
    before = memory.facts.get(old.id)
    assert (before.status, before.superseded_by) == ("archived", new.id)
    assert contents(memory, "the port") == ["the port is 443"]
    back = memory.facts.supersede(new.id, "the port is 80", now=3.0)
    assert (back.id, back.status, back.superseded_by, back.valid_from) == (old.id, "active", None, 3.0)
    assert contents(memory, "the port") == ["the port is 80"]
    with pytest.raises(UnknownFact, match="no fact 'nope'"):
        memory.facts.supersede("nope", "x")


def test_forgetting_removes_a_fact_everywhere(memory: Memory) -> None:
    key = memory.facts.write("alice lives in Paris", "NAMING").id
    memory.facts.forget(key)
    assert memory.facts.list() == []
    assert memory.facts.search("alice paris") == []
    for use in (memory.facts.get, memory.facts.forget, memory.facts.archive, memory.facts.keep):
        with pytest.raises(UnknownFact):
            use(key)
    with pytest.raises(UnknownFact):
        memory.facts.get("记忆\udcb2")


def test_permanent_facts_are_found_like_active_ones(memory: Memory) -> None:
    key = memory.facts.write("never force-push", "PROJECT_RULES").id
    assert memory.facts.keep(key).status == "permanent"
    assert contents(memory, "force-push") == ["never force-push"]


def test_content_is_normalised(memory: Memory) -> None:
    fact = memory.facts.write("§12§ the port\r\nis\0 5432 §3§\udcb2 ", "CONFIG_VALUES")
    assert fact.content == "the port\nis 5432 ?"


@pytest.mark.parametrize(
    "content",
    [
        "<headwater-memory>\n- the port is 80\n</headwater-memory>",
        "as I recall: < /Headwater-Memory >",
        "<headwater-recall id=3>",
    ],
)
def test_case_55_recalled_blocks_do_not_come_back_as_facts(memory: Memory, content: str) -> None:
    with pytest.raises(RecallBlockRefused, match="write only what is new"):
        memory.facts.write(content, "NAMING")
    assert memory.facts.count() == 0


@pytest.mark.parametrize("content", ["", " \n", "§3§", "\0", "x" * (MAX_CHARS + 1)])
def test_facts_without_content_or_beyond_measure_are_refused(memory: Memory, content: str) -> None:
    with pytest.raises(FactRefused):
        memory.facts.write(content, "NAMING")


@pytest.mark.parametrize("wrong", [{"importance": 0}, {"importance": 101}, {"scope": "all"}, {"trust": "me"}])
def test_values_out_of_range_are_refused(memory: Memory, wrong: dict[str, object]) -> None:
    with pytest.raises(FactRefused, match="must be"):
        memory.facts.write("x", "NAMING", **wrong)  # type: ignore[arg-type]


def test_search_by_identifier_puts_the_exact_one_first(memory: Memory) -> None:
    for n in range(40):
        memory.facts.write(f"service {n} listens on port {8000 + n}", "CONFIG_VALUES")
    assert contents(memory, "what listens on 8023?", 3)[0] == "service 23 listens on port 8023"
    assert all(0 < score <= 1 for _, score in memory.facts.search("port 8023"))


def test_search_in_chinese_and_across_languages(tmp_path: Path) -> None:
    with Memory(tmp_path) as memory:  # the embedded model
        for text in (
            "我们选择 SQLite，因为它不需要单独的服务器",
            "The deployment runs every Friday evening",
            "变量名一律使用小写加下划线",
            "Payments are handled by the billing service",
        ):
            memory.facts.write(text, "ARCHITECTURE")
        assert contents(memory, "为什么选择 SQLite？", 1) == ["我们选择 SQLite，因为它不需要单独的服务器"]
        assert contents(memory, "变量怎么命名", 1) == ["变量名一律使用小写加下划线"]
        assert "The deployment runs every Friday evening" in contents(memory, "什么时候部署上线", 2)


def test_a_long_fact_is_found_by_its_end(tmp_path: Path) -> None:
    with Memory(tmp_path) as memory:
        parts = [
            "Each nightly build compiles the parser, the planner and the storage engine in turn. " * 4
        ] * 6
        long = "\n".join([*parts, "Cats, dogs and other animals are not allowed in the server room."])
        memory.facts.write(long, "CONSTRAINTS")
        for n in range(10):
            memory.facts.write(f"Build step {n} compiles the parser and takes a while.", "ARCHITECTURE")
        assert contents(memory, "are pets forbidden near the machines?", 1) == [long]


@pytest.mark.parametrize("query", ["", "  ", "\0", "\udcb2", '"', "*", "AND OR NOT", "x" * 20_000])
def test_odd_queries_are_answered(memory: Memory, query: str) -> None:
    memory.facts.write("a fact", "NAMING")
    memory.facts.search(query)
    assert memory.facts.search("fact", 0) == []


def test_case_54_tenants_and_projects_never_see_each_other(tmp_path: Path) -> None:
    names = [
        ("alice@example.com", "p"),
        ("alice@example", "com.p"),
        ("记忆库", ""),
        ("", "记忆库"),
        ("a", "b"),
    ]
    memories = [Memory(tmp_path, embeddings=HashedWords(), tenant=t, project=p) for t, p in names]
    for number, memory in enumerate(memories):
        for topic in ("database port", "deploy day"):
            memory.facts.write(f"the {topic} of owner{number}", "CONFIG_VALUES")
    words = ["the", "database", "port", "deploy", "day", "owner0", "owner1", "owner2", "owner3", "owner4"]
    dice = random.Random(7)
    answered = 0
    for _ in range(60):
        number = dice.randrange(len(memories))
        query = " ".join(dice.sample(words, 3))
        for found in contents(memories[number], query, 20):
            assert found.endswith(f"owner{number}")
            answered += 1
    assert answered >= 60
    for memory in memories:
        assert memory.facts.count() == 2
        memory.close()


def test_case_54_an_id_of_another_tenant_is_unknown(tmp_path: Path) -> None:
    with Memory(tmp_path, tenant="a", embeddings=HashedWords()) as a:
        key = a.facts.write("mine", "NAMING").id
        with Memory(tmp_path, tenant="b", embeddings=HashedWords()) as b:
            with pytest.raises(UnknownFact):
                b.facts.get(key)
            assert b.facts.list() == []


def test_namespace_labels_are_never_alike() -> None:
    names = ["", "%", ".", "a.b", "a%2Eb", "a", "langgraph", "%6Canggraph", "a\nb", "记忆库", "\udcb2"]
    labels = [label(name) for name in names]
    assert len(set(labels)) == len(names)
    assert all(one and "." not in one and one.isprintable() for one in labels)


def test_any_base_store_can_be_the_truth(tmp_path: Path) -> None:
    store = InMemoryStore()
    with Memory(tmp_path / "a", store=store, embeddings=HashedWords(), tenant="langgraph") as first:
        first.facts.write("kept elsewhere", "NAMING")
    for path in (tmp_path / "a").glob("memory.sqlite*"):
        assert b"elsewhere" not in path.read_bytes()
    with Memory(tmp_path / "b", store=store, embeddings=HashedWords(), tenant="langgraph") as second:
        assert contents(second, "elsewhere") == ["kept elsewhere"]


def test_a_store_that_cannot_be_opened_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "memory.sqlite").mkdir()
    with (
        Memory(tmp_path, embeddings=HashedWords()) as memory,
        pytest.raises(StorageError, match="cannot open"),
    ):
        memory.facts.write("x", "NAMING")

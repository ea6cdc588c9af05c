"""Facts as files: they round-trip, can be edited by hand, and forgetting leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langgraph.store.memory import InMemoryStore

from headwater.memory.dreamer import Dreamer
from headwater.memory.erase import forget_fact
from headwater.memory.fact import Category, FactRefused
from headwater.memory.facts import Facts, UnknownFact
from headwater.memory.memory import Memory
from headwater.memory.notes import NotesError, export_facts, import_facts
from headwater.memory.words import LexicalIndex
from headwater.window.marks import stamp
from tests.memory.conftest import HashedWords


def by_words(root: Path) -> Facts:
    from contextlib import nullcontext

    store = InMemoryStore()
    return Facts(
        lambda: store, LexicalIndex(root / "w.sqlite"), [], tenant="t", project="p",
        exclusive=nullcontext, lease=lambda: nullcontext(True),
    )  # fmt: skip


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_c12_c13_exported_facts_fill_an_empty_store_with_equals(memory: Memory, tmp_path: Path) -> None:
    first = memory.facts.write("端口是 80 -->", "CONFIG_VALUES", source=("s-->", [1, 2]), now=5.25)
    memory.facts.supersede(first.id, "端口是 443\n\n  - and <b>two</b> lines", trust="user", now=6.0)
    memory.facts.keep(memory.facts.write("never force-push", "PROJECT_RULES", importance=90).id)
    assert export_facts(memory.facts, tmp_path / "one") == 3
    assert sorted(files(tmp_path / "one")) == ["config_values.md", "project_rules.md"]
    with Memory(tmp_path / "other", embeddings=HashedWords()) as other:
        assert import_facts(other.facts, tmp_path / "one").new == 3
        assert other.facts.list() == memory.facts.list()
        export_facts(other.facts, tmp_path / "two")
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert import_facts(memory.facts, tmp_path / "one").same == 3


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.text(min_size=1, max_size=80), st.sampled_from([*Category])), max_size=5))
def test_c13_any_content_comes_back_from_its_file(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, Category]]
) -> None:
    root = tmp_path_factory.mktemp("notes")
    facts, other = by_words(root), by_words(root / "other")
    for number, (content, category) in enumerate(rows):
        try:
            facts.write(content, category, now=float(number))
        except FactRefused:
            continue
    if export_facts(facts, root / "files"):
        import_facts(other, root / "files")
    assert other.list() == facts.list()
    facts.close()
    other.close()


def test_c13_a_person_edits_adds_and_keeps_facts_in_the_files(memory: Memory, tmp_path: Path) -> None:
    port = memory.facts.write("the port is 80", "CONFIG_VALUES")
    rule = memory.facts.write("never force-push", "PROJECT_RULES")
    export_facts(memory.facts, tmp_path)
    config, rules = tmp_path / "config_values.md", tmp_path / "project_rules.md"
    config.write_text(config.read_text("utf-8").replace("port is 80", "port is 443"), "utf-8")
    text = rules.read_text("utf-8").replace('"status": "active"', '"status": "permanent"')
    rules.write_text(text + "- 提交信息用中文写\n", "utf-8")
    done = import_facts(memory.facts, tmp_path)
    assert (done.new, done.changed, done.same, done.refused) == (1, 2, 0, ())
    assert [f.content for f in memory.facts.list(live=True, category="CONFIG_VALUES")] == ["the port is 443"]
    assert memory.facts.get(port.id).superseded_by
    assert memory.facts.get(rule.id).status == "permanent"
    assert {f.content: f.trust for f in memory.facts.list()}["提交信息用中文写"] == "user"


def test_secrets_recall_blocks_and_broken_files_are_told(memory: Memory, tmp_path: Path) -> None:
    rules = tmp_path / "project_rules.md"
    rules.write_text("# x\n- <headwater-memory>\n- the password: " + "hunter2_Prod\n- use tabs\n", "utf-8")
    done = import_facts(memory.facts, tmp_path)
    assert (done.new, len(done.refused)) == (1, 2)
    assert all(reason.startswith("project_rules.md:") for reason in done.refused)
    for broken, says in (
        ("lost line\n", "belongs to no fact"),
        ("- a\n  <!-- {x} -->\n", "comment is broken"),
    ):
        rules.write_text(broken, "utf-8")
        with pytest.raises(NotesError, match=says):
            import_facts(memory.facts, tmp_path)
    with pytest.raises(NotesError, match="no file of facts"):
        import_facts(memory.facts, memory.root)


def test_e19_forgetting_leaves_no_byte_of_a_fact(memory: Memory, tmp_path: Path) -> None:
    text = "zanzibarquux lives in Paris"
    memory.archive.append("learned", [HumanMessage(f"note that {text}", id="1")])
    memory.archive.append("other", [HumanMessage("nothing of it", id="2")])
    kept = memory.facts.write("tabs, not blanks", "PROJECT_RULES")
    gone = memory.facts.write(text, "NAMING", source=("learned", [1]), importance=10)
    exports = tmp_path / "memory"
    export_facts(memory.facts, exports)
    memory.delegations.conclude("learned/1", "brief", {"answer": text})
    memory.archive.append("learned/1", [HumanMessage(text, id="3")])
    memory.delegations.adopt("other", "learned/1", 1)
    memory.shelf.put("learned", {"messages": [stamp(HumanMessage(f"cleaned: {text}", id="1"), 1)]})
    dreams = Dreamer(memory, clock=lambda: 9e9)
    assert dreams.dream("archive-stale", now=True).changed == 1
    dreams.close()
    done = forget_fact(memory, gone.id, sessions=True, exports=exports)
    assert (done.content, done.sessions) == (text, ("learned", "learned/1"))
    for path in [*memory.root.rglob("*"), *exports.rglob("*")]:
        if path.is_file():
            assert b"zanzibarquux" not in path.read_bytes(), path
    assert memory.facts.list() == [kept]
    assert memory.archive.sessions() == ["other"]
    with pytest.raises(UnknownFact):
        memory.facts.get(gone.id)


def test_forgetting_leaves_the_archive_alone_unless_asked(memory: Memory) -> None:
    memory.archive.append("s", [HumanMessage("alice lives in Paris", id="1")])
    gone = memory.facts.write("alice lives in Paris", "NAMING", source=("s", [1]))
    assert forget_fact(memory, gone.id).sessions == ()
    assert memory.archive.last("s") == 1

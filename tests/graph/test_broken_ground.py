"""Broken ground: a disk that is full, files that are damaged or gone, stores that fail; nothing is lost."""

import os
import sqlite3
from pathlib import Path

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from headwater import Memory, WindowPolicy, build_agent
from headwater.lab.provider import Reply, Request, StrictProvider, ToolCall
from headwater.memory import ArchiveError, Category
from headwater.memory.chroma import ChromaIndex
from headwater.memory.words import LexicalIndex
from tests.graph.world import (
    TIGHT,
    WINDOW,
    Agent,
    Recorder,
    body,
    calls_then,
    clean_run,
    config,
    inspector,
    last_text,
    of,
    results,
    says,
    shown,
    turns_of,
    watch,
)


def test_a_full_disk_stops_the_round_and_the_thread_goes_on_when_there_is_room(memory: Memory) -> None:
    """The archive is limited to few pages ("full", as on a full disk); then the limit is lifted."""
    asked = Recorder(calls_then(40, name="inspect"))
    with StrictProvider(asked, window=64_000) as provider:
        agent = build_agent(
            provider.openai(),
            tools=[inspector(900)],
            policy=WindowPolicy(window=64_000),
            memory=memory,
            checkpointer=InMemorySaver(),
        )
        agent.invoke(says("Inspect unit 0 to 39."), config("warm-up"))
        memory.archive.append("t", [AIMessage("hello")])
        _limit_pages(memory, 12)
        script = calls_then(40)
        asked.inner = lambda request: script(request)
        with pytest.raises(ArchiveError, match=r"full|disk"):
            agent.invoke(says("Inspect again, all of them."), config("t"))
        before = memory.archive.last("t")
        _limit_pages(memory, None)
        state = agent.invoke(says("Go on."), config("t"))
        clean_run(provider)
    assert memory.archive.last("t") > before
    assert last_text(state) == "All done."
    texts = [str(m.text) for _, m in memory.archive.read("t", 1, memory.archive.last("t"))]
    assert "Inspect again, all of them." in texts


def _limit_pages(memory: Memory, more: int | None) -> None:
    """Let the archive grow by so many pages at the most; None takes the limit away."""
    with memory.archive._db.write() as db:
        pages = db.execute("PRAGMA page_count").fetchone()[0]
    connection = memory.archive._db._connection
    assert connection is not None
    connection.execute(f"PRAGMA max_page_count = {pages + more if more else 1_073_741_823}")


def test_artifacts_that_cannot_be_written_stay_in_the_window(memory: Memory) -> None:
    """Case 66: no stub names a file that was never written; the result itself is shown."""
    memory.archive.append("other", [AIMessage("x")])
    (memory.root / "artifacts").write_text("in the way")
    asked = Recorder(calls_then(1))
    with StrictProvider(asked, window=64_000) as provider:
        policy = WindowPolicy(window=64_000, arrival=500)
        agent = build_agent(provider.openai(), tools=[inspector(700)], policy=policy, memory=memory)
        events = watch(agent, says("Inspect."), config())
        clean_run(provider)
    assert of(events, "offload_failed")
    assert body(0) in shown(asked.requests[-1])
    assert "⟦stored artifacts" not in shown(asked.requests[-1])


def test_offloads_that_fail_end_in_a_clear_stop_and_not_in_a_lie(memory: Memory) -> None:
    memory.archive.append("other", [AIMessage("x")])
    (memory.root / "artifacts").write_text("in the way")
    with StrictProvider(calls_then(30), window=WINDOW) as provider:
        policy = WindowPolicy(window=WINDOW, summarise="never")
        agent = build_agent(provider.openai(), tools=[inspector(500)], policy=policy, memory=memory)
        state = agent.invoke(says("Inspect."), config())
        clean_run(provider)
    log = [m.content for m in results([m for _, m in memory.archive.read("t", 1, 99)])]
    assert len(log) > 2
    assert log == [body(i, 500) for i in range(len(log))]
    assert "Stopped" in last_text(state) or last_text(state) == "All done."


def test_a_read_only_artifact_folder_is_no_end_of_the_session(memory: Memory) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere; the test above covers the same path")
    with StrictProvider(calls_then(6), window=WINDOW) as provider:
        folder = memory.root / "artifacts"
        folder.mkdir(parents=True)
        folder.chmod(0o500)
        agent = build_agent(
            provider.openai(), tools=[inspector(300)], policy=WindowPolicy(window=WINDOW), memory=memory
        )
        assert last_text(agent.invoke(says("Inspect."), config())) == "All done."


def test_a_corrupt_artifact_is_an_error_result_and_the_archive_still_has_the_bytes(memory: Memory) -> None:
    """M10: file_read says that the file is damaged; ctx_expand gives the bytes all the same."""
    name = ""

    def script(request: Request) -> Reply:
        rows = [row for row in request.messages if row["role"] == "tool"]
        if len(rows) == 0:
            return Reply("", (ToolCall("inspect", {"number": 4}),))
        if len(rows) == 1:
            damage()
            return Reply("", (ToolCall("file_read", {"path": name}),))
        if len(rows) == 2:
            return Reply("", (ToolCall("ctx_expand", {"tags": "3"}),))
        return Reply("Read.")

    def damage() -> None:
        nonlocal name
        (path,) = (p for p in (memory.root / "artifacts").rglob("*.txt") if "unit 4" in p.read_text())
        name = path.relative_to(memory.root).as_posix()
        path.write_text("garbage")

    with StrictProvider(script, window=64_000) as provider:
        policy = WindowPolicy(window=64_000, arrival=500)
        agent = build_agent(provider.openai(), tools=[inspector(700)], policy=policy, memory=memory)
        state = agent.invoke(says("Inspect."), config())
        clean_run(provider)
    _, read, expanded = results(state["messages"])
    assert read.status == "error"
    assert "changed on disk" in str(read.content)
    assert body(4) in str(expanded.content)


@pytest.mark.parametrize("how", ["damaged", "deleted"])
def test_a_lost_memory_block_is_told_again_from_the_archive(memory: Memory, how: str) -> None:
    """m[0], m[1] and the contract are files too: damaged or gone after a restart, they are written again."""
    saver = InMemorySaver()
    asked = Recorder(turns_of(60))
    with StrictProvider(asked, window=WINDOW) as provider:

        def fresh() -> Agent:
            return build_agent(
                provider.openai(), tools=[inspector(400)], policy=TIGHT, memory=memory, checkpointer=saver
            )

        agent = fresh()
        messages = [("system", "House rule: be brief."), ("user", "Never open valve V-113.")]
        agent.invoke({"messages": messages}, config())
        told = []
        for number in range(12):
            told += of(watch(agent, says(f"Check {number}."), config()), "summarize")
        assert told
        for path in (memory.root / "artifacts").rglob("*.txt"):
            path.unlink() if how == "deleted" else path.write_text("garbage")
        agent = fresh()
        events = watch(agent, says("Go on."), config())
        clean_run(provider)
    assert of(events, "text_lost")
    final = shown(asked.requests[-1])
    assert "House rule: be brief." in final
    assert "Never open valve V-113." in final
    assert "garbage" not in final


def test_a_broken_chroma_costs_no_turn_and_no_fact(tmp_path: Path) -> None:
    """The index is a folder of rubbish: facts are kept, found by words, and the session runs."""
    root = tmp_path / "m"
    (root / "chroma").mkdir(parents=True)
    (root / "chroma" / "chroma.sqlite3").write_bytes(b"not a database" * 100)
    replies = [
        Reply("", (ToolCall("ctx_memory", {"action": "write", "content": "Vault 9 holds the API key."}),)),
        Reply("", (ToolCall("ctx_memory", {"action": "search", "content": "vault key"}),)),
        Reply("Found."),
    ]
    with Memory(root, index=ChromaIndex(root / "chroma", _Words())) as memory:
        with StrictProvider(replies, window=WINDOW) as provider:
            agent = build_agent(provider.openai(), policy=WindowPolicy(window=WINDOW), memory=memory)
            state = agent.invoke(says("Remember the vault."), config())
            clean_run(provider)
        written, found = results(state["messages"])
        assert "Remembered" in str(written.content)
        assert "Vault 9 holds the API key." in str(found.content)


def test_a_closed_chroma_is_opened_again(tmp_path: Path) -> None:
    root = tmp_path / "m"
    with Memory(root, index=ChromaIndex(root / "chroma", _Words())) as memory:
        memory.facts.write("Vault 9 holds the API key.", Category.CONFIG_VALUES)
        memory.close()
        reply = [Reply("", (ToolCall("ctx_search", {"query": "vault"}),)), Reply("Found.")]
        with StrictProvider(reply, window=WINDOW) as provider:
            # No fact is shown at the start, so that it has to be looked up.
            policy = WindowPolicy(window=WINDOW, facts=1)
            agent = build_agent(provider.openai(), policy=policy, memory=memory)
            state = agent.invoke(says("Where is the key?"), config())
        (found,) = results(state["messages"])
        assert "Vault 9" in str(found.content)


class _Words(Embeddings):
    """Embeddings of one dimension for each letter: enough for an index to be built."""

    def embed_query(self, text: str) -> list[float]:
        return [1.0 + text.lower().count(chr(97 + i)) for i in range(26)]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


def test_a_store_of_facts_that_fails_costs_no_answer(memory: Memory) -> None:
    """E19: facts that could not be written stay in the state and are written with the next round."""

    class Failing(InMemoryStore):
        broken = False

        def batch(self, ops: object) -> list[object]:  # type: ignore[override]
            if Failing.broken:
                raise sqlite3.OperationalError("disk I/O error")
            return super().batch(ops)  # type: ignore[arg-type, return-value]

    store = Failing()
    root = memory.root
    with Memory(root, store=store, index=LexicalIndex(root / "w.sqlite")) as house:
        with StrictProvider(lambda r: Reply("Understood."), window=WINDOW) as provider:
            agent = build_agent(
                provider.openai(),
                policy=WindowPolicy(window=WINDOW),
                memory=house,
                checkpointer=InMemorySaver(),
            )
            agent.invoke(says("Hello."), config())
            Failing.broken = True
            events = watch(agent, says("Never open valve V-113."), config())
            assert last_text(agent.get_state(config()).values) == "Understood."
            assert of(events, "remember_failed")
            assert house.archive.last("t") == 4
            Failing.broken = False
            agent.invoke(says("Go on."), config())
        assert ["Never open valve V-113." in f.content for f in house.facts.list()] == [True]

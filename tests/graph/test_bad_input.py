"""Bad input and broken ground: each a clear error or a clean degradation, and nothing lost."""

import asyncio
import os
import sqlite3
import time
from pathlib import Path

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.memory import InMemoryStore

from headwater import Memory, SubAgent, WindowPolicy, build_agent
from headwater.graph.build import UnknownModel
from headwater.lab.provider import Refuse, Reply, Request, StrictProvider, ToolCall
from headwater.memory import ArchiveError, Category, StorageError
from headwater.memory.chroma import ChromaIndex
from headwater.memory.words import LexicalIndex
from headwater.nodes.engine import WindowTooSmall
from headwater.window import PolicyError
from tests.graph.world import (
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

TIGHT = WindowPolicy(window=WINDOW, offload=0.3, compact=0.42)


@pytest.mark.parametrize("name", ["no-such-provider:x", "gibberish", "", "openai:"])
def test_an_unknown_model_name_is_a_clear_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnknownModel, match="provider:name"):
        build_agent(name, memory=tmp_path)


@pytest.mark.parametrize("name", ["no-such-provider:x", "gibberish"])
def test_an_unknown_summarizer_or_sub_agent_model_is_found_at_build_time(tmp_path: Path, name: str) -> None:
    model = FakeListChatModel(responses=["x"])
    with pytest.raises(UnknownModel, match="provider:name"):
        build_agent(model, summarizer=name, memory=tmp_path)
    with pytest.raises(UnknownModel, match="provider:name"):
        build_agent(model, subagents=[SubAgent("a", "b", model=name)], memory=tmp_path)


def test_building_an_agent_touches_no_disk(tmp_path: Path) -> None:
    with StrictProvider([]) as provider:
        build_agent(provider.openai(), memory=tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_window_smaller_than_prompt_and_tools_is_refused_before_any_request(memory: Memory) -> None:
    with StrictProvider([Reply("never")], window=2_000) as provider:
        agent = build_agent(
            provider.openai(),
            system_prompt="Be exact. " * 900,
            memory=memory,
            policy=WindowPolicy(window=2_000),
        )
        with pytest.raises(WindowTooSmall, match=r"take [\d,]+ tokens.*2,000.*WindowPolicy\(window="):
            agent.invoke(says("Hi"), config())
        assert provider.totals().requests == 0


def test_a_window_under_any_step_is_refused_by_the_policy() -> None:
    with pytest.raises(PolicyError, match="1,024"):
        WindowPolicy(window=100)


def test_a_folder_that_is_a_file_is_a_clear_error_and_no_request_goes_out(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("I am a file")
    with StrictProvider([Reply("never")], window=WINDOW) as provider:
        agent = build_agent(provider.openai(), memory=tmp_path / "m")
        with pytest.raises(StorageError, match=str(tmp_path / "m")):
            agent.invoke(says("Hi"), config())
        assert provider.totals().requests == 0
    assert (tmp_path / "m").read_text() == "I am a file"


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


@pytest.mark.parametrize("saver", ["none", "memory", "sqlite"])
def test_a_lone_surrogate_goes_through_and_is_archived_as_it_came(memory: Memory, saver: str) -> None:
    """Case 65: no client and no database takes it as it is; the session must."""

    @tool
    def read(number: int) -> str:
        """Read."""
        return "a\udcb2b " * 2_000

    def run(kept: object) -> None:
        with StrictProvider(calls_then(1, name="read"), window=WINDOW) as provider:
            agent = build_agent(
                provider.openai(),
                tools=[read],
                policy=WindowPolicy(window=WINDOW),
                memory=memory,
                checkpointer=kept,  # type: ignore[arg-type]
            )
            assert last_text(agent.invoke(says("Read a\udcb2b."), config())) == "All done."
            agent.invoke(says("And on."), config())
            clean_run(provider)

    if saver == "sqlite":
        with SqliteSaver.from_conn_string(":memory:") as kept:
            run(kept)
    else:
        run(InMemorySaver() if saver == "memory" else None)
    (log,) = results([m for _, m in memory.archive.read("t", 1, 9)])
    assert log.content == "a\udcb2b " * 2_000
    (stored,) = (p for p in (memory.root / "artifacts").rglob("*.txt") if b"\xed\xb2\xb2" in p.read_bytes())
    assert memory.artifacts.read_text(stored.relative_to(memory.root).as_posix()) == "a\udcb2b " * 2_000


def test_a_tool_result_of_200_megabytes_takes_seconds(memory: Memory) -> None:
    """It becomes an artifact as it came; the window gets a stub of at most 2 KB."""
    row = "".join(f"row {i:06d}: a value and some words behind it\n" for i in range(100_000))
    giant = row * (200_000_000 // len(row) + 1)

    @tool
    def dump(number: int) -> str:
        """Dump."""
        return giant

    with StrictProvider(calls_then(1, name="dump"), window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(), tools=[dump], policy=WindowPolicy(window=WINDOW), memory=memory
        )
        begun = time.perf_counter()
        state = agent.invoke(says("Dump."), config())
        seconds = time.perf_counter() - begun
        clean_run(provider)
    assert len(giant) > 200_000_000
    assert seconds < 90, "about 9 s on two idle cores"
    (result,) = results(state["messages"])
    assert len(str(result.content).encode()) <= 2_048
    name = str(result.content).split()[1]
    assert memory.artifacts.path(name).stat().st_size == len(giant)
    assert memory.artifacts.read_text(name) == giant


def test_one_endless_line_can_be_paged_to_its_end(memory: Memory) -> None:
    """M10, case 62: a line of 200,000 characters, read back by character; the pages joined are the line."""
    line = "".join(f"{i:05d}" for i in range(40_000))
    got: list[str] = []

    @tool
    def dump(number: int) -> str:
        """Dump."""
        return line

    def script(request: Request) -> Reply:
        rows = [row["text"].split(" ", 1)[1] for row in request.messages if row["role"] == "tool"]
        if not rows:
            return Reply("", (ToolCall("dump", {"number": 1}),))
        if len(rows) > 1 and "⟦stored" not in rows[-1]:
            got.append(rows[-1].rpartition("\n⟪")[0] or rows[-1])
            if "go on with" not in rows[-1]:
                return Reply("At the end.")
        path = memory_name
        at = sum(map(len, got))
        return Reply("", (ToolCall("file_read", {"path": path, "char_offset": at}),))

    memory_name = memory.artifacts.name_of(line)
    with StrictProvider(script, window=64_000) as provider:
        agent = build_agent(
            provider.openai(), tools=[dump], policy=WindowPolicy(window=64_000), memory=memory
        )
        state = agent.invoke(says("Read all of it."), config())
        clean_run(provider)
    assert last_text(state) == "At the end."
    assert "".join(got) == line


def test_an_empty_input_and_an_empty_answer_are_survived(memory: Memory) -> None:
    with StrictProvider(lambda r: Reply(""), window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(), policy=WindowPolicy(window=WINDOW), memory=memory, checkpointer=InMemorySaver()
        )
        agent.invoke({"messages": []}, config())
        agent.invoke(says(""), config())
        agent.invoke(says("   "), config())
        clean_run(provider)


def test_a_tool_that_raises_is_an_error_result(memory: Memory) -> None:
    @tool
    def explode(number: int) -> str:
        """Explode."""
        raise ValueError("pressure too high")

    with StrictProvider(calls_then(1, name="explode"), window=WINDOW) as provider:
        agent = build_agent(provider.openai(), tools=[explode], memory=memory)
        state = agent.invoke(says("Go."), config())
        clean_run(provider)
    (result,) = results(state["messages"])
    assert result.status == "error"
    assert "pressure too high" in str(result.content)


def test_a_tool_that_does_not_exist_is_an_error_result(memory: Memory) -> None:
    with StrictProvider(calls_then(1, name="nonesuch"), window=WINDOW) as provider:
        agent = build_agent(provider.openai(), tools=[inspector()], memory=memory)
        state = agent.invoke(says("Go."), config())
        clean_run(provider)
    (result,) = results(state["messages"])
    assert result.status == "error"
    assert "inspect" in str(result.content)


def test_a_model_that_fails_leaves_the_input_archived(memory: Memory) -> None:
    def script(request: Request) -> Reply:
        raise Refuse(500, {"error": {"message": "out of order", "type": "server_error"}})

    with StrictProvider(script, window=WINDOW) as provider:
        agent = build_agent(provider.openai(), memory=memory, checkpointer=InMemorySaver())
        with pytest.raises(Exception, match="out of order"):
            agent.invoke(says("Hi"), config())
    assert memory.archive.get("t", 1).content == "Hi"


async def test_nothing_blocks_the_loop_while_a_model_is_slow(memory: Memory) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.02)
            ticks += 1

    with StrictProvider(lambda r: Reply("Late.", delay=0.6), window=WINDOW) as provider:
        agent = build_agent(provider.openai(), memory=memory)
        ticking = asyncio.create_task(tick())
        await agent.ainvoke(says("Hi"), config())
        ticking.cancel()
    assert ticks >= 10

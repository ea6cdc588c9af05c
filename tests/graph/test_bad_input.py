"""Bad input, from whoever: each a clear error or a clean degradation, and nothing lost."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from headwater import Memory, SubAgent, WindowPolicy, build_agent
from headwater.graph.build import UnknownModel
from headwater.lab.provider import Refuse, Reply, Request, StrictProvider
from headwater.memory import StorageError
from headwater.nodes.engine import WindowTooSmall
from headwater.window import PolicyError
from tests.graph.world import (
    WINDOW,
    calls_then,
    clean_run,
    config,
    inspector,
    last_text,
    results,
    says,
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


def test_m19_a_model_with_fallbacks_of_its_own_is_refused_at_build_time(tmp_path: Path) -> None:
    """M19: behind our back it would send another model the bytes that the first has refused."""
    model = FakeListChatModel(responses=["x"])
    wrapped: Any = model.with_fallbacks([model])
    said = r"'RunnableWithFallbacks' is no chat model.*summarizer=\[first, second\].*"
    said += r"ModelFallbackMiddleware\(second\)"
    with pytest.raises(UnknownModel, match=said):
        build_agent(wrapped, memory=tmp_path)
    with pytest.raises(UnknownModel, match=said):
        build_agent(model, summarizer=wrapped, memory=tmp_path)
    with pytest.raises(UnknownModel, match=said):
        build_agent(model, subagents=[SubAgent("a", "b", model=wrapped)], memory=tmp_path)


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

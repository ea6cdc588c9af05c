"""Results on their way in: cleaned, and what is too large for the window never enters it."""

import time
from itertools import pairwise

from langchain_core.tools import tool

from headwater import Memory, WindowPolicy, build_agent
from headwater.lab.provider import Reply, Request, StrictProvider, ToolCall
from headwater.window import count_text
from tests.graph.world import (
    WINDOW,
    Recorder,
    calls_then,
    clean_run,
    config,
    last_text,
    of,
    results,
    says,
    watch,
)
from tests.growth import LINEAR


def test_e13_observations_are_cleaned_before_they_enter(memory: Memory) -> None:
    """E13: 3-4K tokens of progress and repeats arrive as at most 500; the archive has the bytes."""
    noisy = (
        "".join(f"\r\x1b[32mDownloading {i}%\x1b[0m" for i in range(300))
        + "\n"
        + "retrying…\n" * 400
        + "done: 3 files\n"
    )
    assert count_text(noisy) > 3_000

    @tool
    def fetch(number: int) -> str:
        """Fetch."""
        return noisy

    asked = Recorder(calls_then(1, name="fetch"))
    with StrictProvider(asked, window=32_000) as provider:
        agent = build_agent(
            provider.openai(), tools=[fetch], policy=WindowPolicy(window=32_000), memory=memory
        )
        agent.invoke(says("Fetch."), config())
        clean_run(provider)
    (row,) = [r["text"] for r in asked.requests[-1].messages if r["role"] == "tool"]
    assert count_text(row) <= 500
    assert "done: 3 files" in row
    (log,) = results([m for _, m in memory.archive.read("t", 1, 9)])
    assert log.content == noisy


def test_case_24_one_giant_result_becomes_a_stub_first(memory: Memory) -> None:
    """Case 24: a result of 1.9M characters in a window of 500k: stubbed on arrival, its pair intact."""
    giant = "".join(f"row {i}: value {i * 7}\n" for i in range(90_000))

    @tool
    def dump(number: int) -> str:
        """Dump the table."""
        return giant

    asked = Recorder(calls_then(1, name="dump"))
    with StrictProvider(asked, window=500_000) as provider:
        agent = build_agent(
            provider.openai(), tools=[dump], policy=WindowPolicy(window=500_000), memory=memory
        )
        events = watch(agent, says("Dump."), config())
        clean_run(provider)
        assert provider.requests[-1].input_tokens < 3_000
    assert of(events, "summarize") == []
    assert memory.artifacts.read_text(of(events, "arrival")[0]["artifact"]) == giant
    (log,) = results([m for _, m in memory.archive.read("t", 1, 9)])
    assert log.content == giant


def test_a_tool_result_of_200_megabytes_takes_linear_time(memory: Memory) -> None:
    """It becomes an artifact as it came; the window gets a stub of at most 2 KB."""
    row = "".join(f"row {i:06d}: a value and some words behind it\n" for i in range(100_000))
    giant = row * (200_000_000 // len(row) + 1)
    sizes = [len(giant) // 8, len(giant)]

    @tool
    def dump(number: int) -> str:
        """Dump."""
        return giant[: sizes[number]]

    calls, asked = calls_then(2, name="dump"), []

    def script(request: Request) -> Reply:
        asked.append(time.perf_counter())
        return calls(request)

    with StrictProvider(script, window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(), tools=[dump], policy=WindowPolicy(window=WINDOW), memory=memory
        )
        state = agent.invoke(says("Dump."), config())
        clean_run(provider)
    assert len(giant) > 200_000_000
    first, second = (after - before for before, after in pairwise(asked))
    assert second < 8 * LINEAR * first
    for result in results(state["messages"]):
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

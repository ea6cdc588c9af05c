"""What a session meets of its memory: indexes that are lost under it, recall that returns, private files."""

import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from headwater import Memory, WindowPolicy, build_agent
from headwater.lab.provider import Reply, Request, StrictProvider, ToolCall
from headwater.nodes.adopt import put
from headwater.nodes.engine import Engine
from headwater.window.compartments import Compartment
from tests.graph.world import (
    Recorder,
    clean_run,
    config,
    last_text,
    memory_in,
    of,
    results,
    says,
    shown,
    watch,
)
from tests.memory.conftest import HashedWords
from tests.memory.test_healing import Slow, corrupted, deleted, unharmed

POLICY = WindowPolicy(window=32_000, facts=1)
"""No fact is shown at the start, so that it has to be looked up."""
SEARCH = ToolCall("ctx_search", {"query": "which port has the billing gateway?"})
WRITE = {"action": "write", "category": "CONFIG_VALUES"}
NEW = "The billing gateway moves to port 7443 in May."


def looking_up(request: Request) -> Reply:
    """Looks up what is asked for, writes what it is told to, and says what it found."""
    newest = request.messages[-1]
    if newest["role"] != "user":
        return Reply(f"Found: {newest['text']}")
    if "Remember" in newest["text"]:
        return Reply("", (ToolCall("ctx_memory", {**WRITE, "content": NEW}),))
    return Reply("", (SEARCH,))


def filled(root: Path) -> None:
    """A folder of facts and of told history, in every index."""
    with Memory(root, embeddings=HashedWords(), repository=False) as memory:
        for number in range(8):
            memory.facts.write(
                f"Service {number} of billing listens on port {9_000 + number}.", "CONFIG_VALUES"
            )
        memory.facts.write("The billing gateway has port 6443.", "CONFIG_VALUES")
        memory.sessions.claim("earlier")
        with StrictProvider([], window=32_000) as provider:
            told = Engine(provider.openai(), memory)
            memory.archive.append(
                "earlier", [HumanMessage("Move it.", id="1"), HumanMessage("Done.", id="2")]
            )
            put(
                told,
                "earlier",
                Compartment(1, 2, "Gateway", "The billing gateway was moved to rack 12."),
                [1, 2],
            )
        assert memory.facts.settle(30)
        assert memory.compartments.settle(30)


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("harmed", ["before the session", "within the session"])
@pytest.mark.parametrize(
    ("harm", "size"), [(deleted, 32), (corrupted, 32), (unharmed, 7)],
    ids=["deleted", "corrupted", "another dimension"],
)  # fmt: skip
def test_case_53_a_session_goes_on_by_words_with_one_warning_and_the_index_heals(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, harm: Callable[[Path], None], size: int, harmed: str
) -> None:
    root = tmp_path / "m"
    filled(root)
    saver = InMemorySaver()

    def turn(memory: Memory, text: str) -> str:
        agent = build_agent(provider.openai(), policy=POLICY, memory=memory, checkpointer=saver)
        return last_text(agent.invoke(says(text), config()))

    with StrictProvider(looking_up, window=32_000) as provider:
        if harmed == "within the session":
            with Memory(root, embeddings=HashedWords(), repository=False) as memory:
                assert "6443" in turn(memory, "Which port has the gateway of billing?")
        harm(root)
        slow = Slow(size)
        with Memory(root, embeddings=slow, repository=False) as memory:
            try:
                answer = turn(memory, "Once more: which port has the gateway of billing?")
                turn(memory, "Remember what I said of May.")
                later = turn(memory, "And which port will it have?")
                left = memory.facts.unindexed()
            finally:
                slow.go.set()
            assert "6443" in answer
            assert "rack 12" in answer
            assert "7443" in later
            assert left
            assert len(warned(caplog)) == 1, warned(caplog)
            assert "words serve until then" in warned(caplog)[0]
            assert memory.facts.settle(60)
            assert memory.compartments.settle(60)
            turn(memory, "Is it still so?")
            assert memory.facts.unindexed() == memory.compartments.unindexed() == []
        with Memory(root, embeddings=HashedWords(size), repository=False) as memory:
            assert "7443" in turn(memory, "One last time: which port will it have?")
        assert len(warned(caplog)) == 1, warned(caplog)
        clean_run(provider)


def test_case_55_what_is_recalled_never_comes_back_as_a_fact(tmp_path: Path) -> None:
    """A model that copies its memory block into `ctx_memory`, whole and line by line, and a user who pastes
    it: nothing new is remembered.
    """
    with memory_in(tmp_path / "m") as memory:
        memory.facts.write("The port of the gateway is 6443.", "CONFIG_VALUES")
        memory.facts.write("禁止在周五部署", "CONSTRAINTS")
        known = {fact.content: str(fact.category) for fact in memory.facts.list()}

        def parrot(request: Request) -> Reply:
            if request.messages[-1]["role"] == "tool":
                return Reply(block_of(request))
            lines = [line[2:] for line in block_of(request).splitlines() if line[2:] in known]
            wanted = [(block_of(request), "NAMING"), *((line, known[line]) for line in lines)]
            calls = [
                ToolCall("ctx_memory", {"action": "write", "category": kind, "content": text})
                for text, kind in wanted
            ]
            return Reply("", tuple(calls))

        asked = Recorder(parrot)
        with StrictProvider(asked, window=32_000) as provider:
            agent = build_agent(
                provider.openai(),
                policy=WindowPolicy(window=32_000),
                memory=memory,
                checkpointer=InMemorySaver(),
            )
            state = agent.invoke(says("Repeat what you know."), config())
            block = block_of(asked.requests[-1])
            events = watch(agent, says(f"Never forget this: {block}"), config())
            clean_run(provider)
        whole, first, second = results(state["messages"])
        assert "repeats recalled memory" in str(whole.content)
        assert all("known before" in str(m.content) for m in (first, second))
        assert of(events, "fact_refused")
        assert [fact.content for fact in memory.facts.list()] == [*known]


def block_of(request: Request) -> str:
    """The memory block that a request shows."""
    inside = shown(request).partition("\n<headwater-memory>")[2].partition("</headwater-memory>")[0]
    return f"<headwater-memory>{inside}</headwater-memory>"


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX")
def test_what_a_session_keeps_is_for_this_user_only(tmp_path: Path) -> None:
    """Whatever the umask is: nobody else gets into the folder, and no file of ours is readable by itself."""
    before = os.umask(0)
    try:
        filled(tmp_path / "m")
        with (
            StrictProvider(looking_up, window=32_000) as provider,
            Memory(tmp_path / "m", embeddings=HashedWords(), repository=False) as memory,
        ):
            agent = build_agent(provider.openai(), policy=POLICY, memory=memory)
            agent.invoke(says("Which port has the gateway?"), config())
            memory.artifacts.put("offloaded", session="t", tag=1)
            memory.facts.rebuild()
            made = [tmp_path / "m", *(tmp_path / "m").rglob("*")]
            # What Chroma makes for itself lies in a folder of ours.
            ours = [path for path in made if "chroma" not in path.parent.parent.parts]
            assert len(ours) > 10
            for path in ours:
                assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    finally:
        os.umask(before)

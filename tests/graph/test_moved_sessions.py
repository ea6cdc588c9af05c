"""A thread goes on where its archive is not: on another machine's folder, or after the folder was lost."""

import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

from headwater import Memory, WindowPolicy, build_agent
from headwater.lab.provider import Reply, Request, StrictProvider, ToolCall
from headwater.nodes.event_types import event_of
from headwater.window.marks import tag_of
from tests.graph.world import (
    IN_LINE,
    WINDOW,
    Agent,
    Recorder,
    body,
    clean_run,
    config,
    inspector,
    memory_in,
    of,
    results,
    says,
    shown,
    turns_of,
    watch,
)

WIDE = WindowPolicy(window=64_000, arrival=500)


def agent_on(provider: StrictProvider, memory: Memory, saver: InMemorySaver, policy: WindowPolicy) -> Agent:
    return build_agent(
        provider.openai(), tools=[inspector(400)], policy=policy, memory=memory, checkpointer=saver
    )


def messages_of(agent: Agent) -> list[BaseMessage]:
    found: list[BaseMessage] = agent.get_state(config()).values["messages"]
    return found


@pytest.mark.parametrize("route", ["aaab", "aabba", "abcabc"])
def test_a_number_is_never_given_twice_whatever_folder_a_turn_runs_in(tmp_path: Path, route: str) -> None:
    memories = {name: memory_in(tmp_path / name) for name in set(route)}
    saver, given = InMemorySaver(), dict[int, str]()
    with StrictProvider(turns_of(60), window=WINDOW) as provider:
        agents = {name: agent_on(provider, memory, saver, IN_LINE) for name, memory in memories.items()}
        for number, name in enumerate(route):
            events = watch(agents[name], says(f"Check {number}. Never open valve V-{number}."), config())
            for event in events:
                event_of(event)
            moved = number > 0 and route[number - 1] != name
            assert bool(of(events, "log_restored")) == moved
            messages = messages_of(agents[name])
            tags = [tag_of(m) for m in messages]
            assert all(0 < a < b for a, b in pairwise(tags))
            for m in messages:
                assert given.setdefault(tag_of(m), str(m.id)) == m.id
                archived = memories[name].archive.get("t", tag_of(m))
                assert (archived.type, archived.text) == (m.type, m.text)
            assert memories[name].archive.last("t") == tags[-1]
        clean_run(provider)
    for memory in memories.values():
        memory.close()


def test_what_another_folder_told_is_named_and_the_task_note_stays(tmp_path: Path) -> None:
    """§ numbers that are not here are said to the caller, to the model, and to whoever opens them."""
    saver = InMemorySaver()
    asked = Recorder(turns_of(60))
    with (
        StrictProvider(asked, window=WINDOW) as provider,
        memory_in(tmp_path / "a") as there,
        memory_in(tmp_path / "b") as here,
    ):
        agent = agent_on(provider, there, saver, IN_LINE)
        told = []
        opening = {"messages": [("system", "House rule: be brief."), ("user", "Never open valve V-113.")]}
        watch(agent, opening, config())
        for number in range(12):
            told += of(watch(agent, says(f"Check {number}."), config()), "summarize")
        assert told
        boundary = agent.get_state(config()).values["frame"]["boundary"]
        agent = agent_on(provider, here, saver, IN_LINE)
        (moved,) = of(watch(agent, says("Go on."), config()), "log_restored")
        clean_run(provider)
        tail = [tag_of(m) for m in messages_of(agent)]
        assert moved["restored"][0] == [1, 1]
        assert moved["lost"] == [[2, boundary]]
        final = shown(asked.requests[-1])
        for line in ("House rule: be brief.", "Never open valve V-113.", f"§2§ to §{boundary}§ are not in"):
            assert line in final
        with pytest.raises(LookupError, match=rf"no tag 2: its text was lost, or is in another.*{tail[-1]}"):
            here.archive.get("t", 2)
        # The session is folded and told as any other from here on.
        for number in range(12):
            told = of(watch(agent, says(f"Check {number} again."), config()), "summarize") or told
        clean_run(provider)
        assert told[0]["first"] > boundary
        assert f"§2§ to §{boundary}§ are not in" in shown(asked.requests[-1])


def test_what_was_offloaded_is_written_again_from_the_log(tmp_path: Path) -> None:
    """A result that left the window by an edit is still whole in the state: its stub leads somewhere."""
    saver = InMemorySaver()
    with (
        StrictProvider(turns_of(60), window=WINDOW) as provider,
        memory_in(tmp_path / "a") as there,
        memory_in(tmp_path / "b") as here,
    ):
        agent = agent_on(provider, there, saver, IN_LINE)
        edits: dict[int, str] = {}
        for number in range(12):
            if "offload" in edits.values():
                break
            agent.invoke(says(f"Check {number}."), config())
            edits = agent.get_state(config()).values.get("edits") or {}
        offloaded = {tag for tag, edit in edits.items() if edit == "offload"}
        tail = {tag_of(m): m for m in messages_of(agent)}
        texts = [str(tail[tag].content) for tag in sorted(offloaded) if tail[tag].type == "tool"]
        assert texts
        (moved,) = of(
            watch(agent_on(provider, here, saver, IN_LINE), says("Go on."), config()), "log_restored"
        )
        assert moved["missing"] == []
        assert sorted(moved["artifacts"]) == sorted(here.artifacts.name_of(text) for text in texts)
        assert [here.artifacts.read_text(name) for name in moved["artifacts"]] == texts
        clean_run(provider)


@pytest.mark.parametrize("lost", ["archive", "all"])
def test_an_arrival_that_became_an_artifact_is_restored_or_named(tmp_path: Path, lost: str) -> None:
    """The state has its stub alone: with the artifact the log is whole again, without it that is said."""
    memory, saver = memory_in(tmp_path / "m"), InMemorySaver()

    def script(request: Request) -> Reply:
        newest = request.messages[-1]
        if newest["role"] != "user":
            return Reply("Seen.")
        if "Open" in newest["text"]:
            return Reply("", (ToolCall("ctx_expand", {"tags": "3"}),))
        return Reply("", (ToolCall("inspect", {"number": 4}),))

    with StrictProvider(script, window=64_000) as provider:
        agent = agent_on(provider, memory, saver, WIDE)
        (arrival,) = of(watch(agent, says("Inspect unit 4."), config()), "arrival")
        memory.close()
        if lost == "all":
            shutil.rmtree(tmp_path / "m")
        else:
            for path in (tmp_path / "m").glob("archive.sqlite*"):
                path.unlink()
        memory = memory_in(tmp_path / "m")
        agent = agent_on(provider, memory, saver, WIDE)
        (moved,) = of(watch(agent, says("Open it."), config()), "log_restored")
        clean_run(provider)
    assert moved["restored"] == [[1, 4]]
    assert moved["lost"] == []
    assert moved["missing"] == ([arrival["artifact"]] if lost == "all" else [])
    *_, expanded = results(messages_of(agent))
    assert (body(4, 400) in str(expanded.content)) == (lost == "archive")
    memory.close()


def test_told_history_is_kept_as_it_was_shown_where_only_the_archive_was_lost(tmp_path: Path) -> None:
    memory, saver = memory_in(tmp_path / "m"), InMemorySaver()
    asked = Recorder(turns_of(80))
    with StrictProvider(asked, window=WINDOW) as provider:
        agent = agent_on(provider, memory, saver, IN_LINE)
        for number in range(12):
            agent.invoke(says(f"Check {number}."), config())
        history = (
            shown(asked.requests[-1]).partition("## What happened so far")[2].partition("</headwater")[0]
        )
        key = next(line for line in history.splitlines() if line.endswith("U: Check 3."))
        memory.close()
        for path in (tmp_path / "m").glob("archive.sqlite*"):
            path.unlink()
        memory = memory_in(tmp_path / "m")
        agent = agent_on(provider, memory, saver, IN_LINE)
        before = agent.get_state(config()).values["frame"]["boundary"]
        (moved,) = of(watch(agent, says("Once more."), config()), "log_restored")
        assert moved["lost"] == [[1, before]]
        # Nothing moves by it. The next fold (here: other tools) tells the history as it last stood.
        agent = build_agent(provider.openai(), policy=IN_LINE, memory=memory, checkpointer=saver)
        agent.invoke(says("And now?"), config())
        clean_run(provider)
        final = shown(asked.requests[-1])
    assert key in final
    assert f"to §{before}§ are not in this memory folder" in final
    memory.close()

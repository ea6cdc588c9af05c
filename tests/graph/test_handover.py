"""An agent that another graph starts anew goes on from the frame that its last answer left."""

from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from headwater.lab.provider import ModelSpec, StrictProvider
from headwater.memory.frames import KEPT, Frames
from headwater.memory.kinship import delete_session
from headwater.nodes.handover import place_of
from tests.graph.hosts import (
    Setup,
    Shared,
    nothing_is_lost,
    nothing_moves_while_warm,
    numbered_once,
    speaker,
)
from tests.graph.test_hosts import TOOLS, by_supervisor, by_swarm
from tests.graph.world import IN_LINE, UNCACHED, WINDOW, clean_run, config, memory_in, of, says

PLAN = [[900] * 4] * 6


def turn(agent: Any, work: Shared, number: int, thread: str = "t", at: Any = None) -> list[Any]:
    """A round of the swarm; its events."""
    place = at or config(thread)
    stream = agent.stream(says(work.begin(number)), place, stream_mode="custom", subgraphs=True)
    return [event for _, event in stream]


def test_m25_a_frame_outlives_handover_and_restart(tmp_path: Path) -> None:
    """Each round in a new process, as far as memory goes: nothing is told twice, nothing begins anew."""
    work, saver = Shared(PLAN), InMemorySaver()
    events: list[Any] = []
    with StrictProvider(work, window=WINDOW) as provider:
        for number in range(len(PLAN)):
            with memory_in(tmp_path) as memory:
                model = provider.openai(max_tokens=500)
                agent = by_swarm(Setup(model, TOOLS, memory, IN_LINE, UNCACHED, saver))
                events += turn(agent, work, number)
        clean_run(provider)
    told = [(e["first"], e["last"]) for e in of(events, "summarize")]
    assert told
    # Two agents, each with its own account; a frame that was lost would tell the same stretch again.
    assert all(told.count(stretch) <= 2 for stretch in told)
    begun = [e for e in of(events, "intake") if e["first"] == 1]
    assert len(begun) == 2
    with memory_in(tmp_path) as memory:
        nothing_is_lost(memory, work, "t")


def test_two_sessions_at_once_do_not_share_a_frame(tmp_path: Path) -> None:
    first, second = Shared([[20] * 3] * 3), Shared([[60] * 3] * 3)
    with memory_in(tmp_path) as memory:
        with StrictProvider(lambda r: (now[0])(r), window=WINDOW) as provider:
            agent = by_swarm(Setup(provider.openai(), TOOLS, memory, IN_LINE, UNCACHED, InMemorySaver()))
            for number in range(3):
                for thread, work in (("a", first), ("b", second)):
                    now = [work]
                    turn(agent, work, number, thread)
            clean_run(provider)
        for thread, work in (("a", first), ("b", second)):
            nothing_is_lost(memory, work, thread)


def test_a_swarm_without_a_thread_is_valid(tmp_path: Path) -> None:
    work = Shared([[60] * 6])
    with memory_in(tmp_path) as memory, StrictProvider(work, window=WINDOW) as provider:
        agent = by_swarm(Setup(provider.openai(), TOOLS, memory, IN_LINE, UNCACHED))
        messages = agent.invoke(says(work.begin(0)), {"recursion_limit": 100})["messages"]
        clean_run(provider)
    assert messages[-1].text == "This round is done."


def test_m25_a_fork_of_a_swarm_takes_up_the_frame_of_its_place(tmp_path: Path) -> None:
    work = Shared([[60, 200, 500]] * 5)
    with memory_in(tmp_path) as memory, StrictProvider(work, window=WINDOW) as provider:
        agent = by_swarm(
            Setup(provider.openai(max_tokens=500), TOOLS, memory, IN_LINE, UNCACHED, InMemorySaver())
        )
        ends = []
        for number in range(4):
            turn(agent, work, number)
            ends.append(agent.get_state(config()).config)
        for place in ends[::-1]:
            events = turn(agent, work, 4, at=place)
            assert not [e for e in of(events, "intake") if e["first"] == 1], "it goes on, it does not begin"
        clean_run(provider)


def test_m14_a_turn_that_goes_on_from_an_earlier_answer_says_that_its_prefix_moved(tmp_path: Path) -> None:
    """The supervisor keeps the last message of a turn: what the agent sent before that is gone."""
    work = Shared([[], [], [20, 20, 20], []])
    events: list[Any] = []
    with memory_in(tmp_path) as memory:
        models = {"lead": ModelSpec(200_000)}
        with StrictProvider(work, window=WINDOW, models=models) as provider:
            lead = provider.openai("lead")
            setup = Setup(provider.openai(), TOOLS, memory, IN_LINE, UNCACHED, InMemorySaver(), lead)
            agent = by_supervisor(setup, "last_message")
            for number in range(4):
                events += turn(agent, work, number)
            clean_run(provider)
    nothing_moves_while_warm(events, work)
    asked = [(speaker(r), e["kind"]) for r, e in zip(work.requests, of(events, "request"), strict=True)]
    bob = [kind for name, kind in asked if name == "You are bob."]
    assert bob == ["fold", *["defer"] * 3, "fold"], "the last goes on from an earlier answer"


def test_the_frames_of_an_agent_are_bounded_and_go_with_their_session(tmp_path: Path) -> None:
    with memory_in(tmp_path) as memory:
        memory.archive.append("s", [])
        for number in range(3 * KEPT):
            memory.frames.keep("s", "alice", f"m{number}", {"n": number, "hints": {number: "h"}})
        memory.frames.keep("s", "bob", "m0", {"n": -1})
        newest = [f"m{number}" for number in range(3 * KEPT)]
        found = list(memory.frames.find("s", "alice", newest))
        assert [values["n"] for values, _ in found] == list(range(3 * KEPT - 1, 2 * KEPT - 1, -1))
        assert [last for _, last in found] == [True, *[False] * (KEPT - 1)]
        assert found[0][0]["hints"] == {3 * KEPT - 1: "h"}
        assert [values["n"] for values, _ in memory.frames.find("s", "bob", ["m0"])] == [-1]
        delete_session(memory, "s")
        assert not list(memory.frames.find("s", "bob", ["m0"]))
    again = Frames(tmp_path / "frames.sqlite")
    assert not list(again.find("s", "alice", newest))
    again.close()


@pytest.mark.parametrize(
    ("namespace", "place"),
    [("", ""), ("model:1", ""), ("alice:1|model:2", "alice"), ("team:1|alice:2|model:3", "team|alice")],
)
def test_the_place_of_an_agent_is_made_of_names_only(namespace: str, place: str) -> None:
    assert place_of({"configurable": {"checkpoint_ns": namespace}}) == place


def test_numbers_in_what_a_swarm_keeps_are_the_logs(tmp_path: Path) -> None:
    work = Shared([[20, 60, 200]] * 3)
    with memory_in(tmp_path) as memory, StrictProvider(work, window=WINDOW) as provider:
        agent = by_swarm(Setup(provider.openai(), TOOLS, memory, IN_LINE, UNCACHED, InMemorySaver()))
        for number in range(3):
            turn(agent, work, number)
        messages = agent.get_state(config()).values["messages"]
        numbered_once(messages)
        log = dict(memory.archive.read("t", 1, memory.archive.last("t")))
        assert [log[m.additional_kwargs["headwater"]].id for m in messages] == [m.id for m in messages]

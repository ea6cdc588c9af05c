"""The historian beside the steps: no step waits, the prefix does not move, and nothing is lost on the way."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from headwater.graph import build_agent
from headwater.lab.provider import ModelSpec, Refuse, Reply, Request, StrictProvider
from headwater.memory import Memory
from headwater.window.policy import WindowPolicy
from tests.graph.world import (
    Agent,
    Event,
    Recorder,
    body,
    config,
    inspector,
    kinds,
    memory_in,
    of,
    results,
    says,
    shown,
    turns_of,
    watch,
)

WINDOW = 16_384
# Nothing can be stubbed here: only a summary frees room. The first line is reached after about ten rounds.
POLICY = WindowPolicy(window=WINDOW, offload=0.4, compact=0.8, min_result=10_000, summarise="cold")
HASTY = replace(POLICY, compact=0.41)
P1 = "The units were checked one after the other and all of them are well."
SUMMARY = {
    "title": "Units",
    "p1": P1,
    "facts": [{"category": "ARCHITECTURE", "content": "Each unit listens on its own port."}],
}
GOOD = json.dumps(SUMMARY)


class Cheap:
    """A summariser that answers when the gate is open, and what it is told to."""

    def __init__(self, answer: str | Callable[[Request], Reply] = GOOD) -> None:
        self.answer = answer
        self.gate = threading.Event()
        self.asked = threading.Event()
        self.gate.set()
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Reply:
        self.requests.append(request)
        self.asked.set()
        self.gate.wait(60)
        return Reply(self.answer) if isinstance(self.answer, str) else self.answer(request)


class Clock:
    """Seconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class World:
    """A memory, a strict provider, and agents on one thread of it."""

    def __init__(self, memory: Memory, cheap: Cheap) -> None:
        self.memory, self.cheap, self.clock = memory, cheap, Clock()
        self.saver = InMemorySaver()
        inner = turns_of(400)
        self.main = Recorder(inner)
        script = Recorder(lambda r: cheap(r) if r.purpose == "summarizer" else self.main(r))
        self.provider = StrictProvider(
            script, window=WINDOW, models={n: ModelSpec(64_000) for n in ("cheap", "second")}
        )
        self.events: list[Event] = []
        self.rounds = 0

    def agent(self, policy: WindowPolicy = POLICY, **kw: Any) -> Agent:
        given: dict[str, Any] = {
            "tools": [inspector(400)],
            "policy": policy,
            "memory": self.memory,
            "checkpointer": self.saver,
            "summarizer": self.teller(),
            "clock": self.clock,
        }
        return build_agent(self.provider.openai(), **{**given, **kw})

    def teller(self, name: str = "cheap") -> Any:
        return self.provider.openai(name, purpose="summarizer")

    def round(self, agent: Agent) -> list[Event]:
        events = watch(agent, says(f"Check unit {self.rounds}. Never open valve V-{self.rounds}."), config())
        self.rounds += 1
        self.events += events
        return events

    def until(self, agent: Agent, kind: str, most: int = 40) -> Event:
        """Rounds until an event of this kind; the event."""
        for _ in range(most):
            found = of(self.round(agent), kind)
            if found:
                return found[0]
        raise AssertionError(f"no {kind} in {most} rounds, only {sorted(set(kinds(self.events)))}")

    def idle(self) -> None:
        assert self.memory.runs.wait(60), "the run ends"

    def sent(self) -> list[list[dict[str, Any]]]:
        """The messages of the main model's requests as they came over the wire."""
        return [r.raw["messages"] for r in self.main.requests]

    def rows(self) -> list[dict[str, Any]]:
        return [data for _, data in self.memory.archive.compartments("t")]


@pytest.fixture
def world(memory: Memory) -> Iterator[World]:
    made = World(memory, Cheap())
    with made.provider:
        yield made
        made.cheap.gate.set()
        made.idle()
        assert made.provider.violations == []
        log = [m.content for m in results([m for _, m in memory.archive.read("t", 1, 999)])]
        assert log == [body(i, 400) for i in range(len(log))], "every byte of the log is there"


def grows(requests: list[list[dict[str, Any]]]) -> bool:
    """Whether each request begins with the bytes of the one before."""
    raw = [[json.dumps(m, sort_keys=True) for m in r] for r in requests]
    return all(new[: len(old)] == old for old, new in pairwise(raw))


def test_g1_c14_g35_steps_go_on_beside_a_run_and_the_prefix_does_not_move(world: World) -> None:
    """G1, C14, G35: while the summariser thinks, and after, every request extends the last."""
    world.cheap.gate.clear()
    agent = world.agent()
    begun = world.until(agent, "historian_started")
    assert begun["trigger"] == "pressure"
    assert world.cheap.asked.wait(60)
    before = len(world.main.requests)
    told = [e for _ in range(3) for e in world.round(agent)]
    assert not of(told, "summarize"), "nobody waited, nothing was taken in"
    assert len(world.main.requests) == before + 6
    world.cheap.gate.set()
    world.idle()
    assert len(world.rows()) >= 1, "published"
    assert of(world.round(agent), "historian_told")
    assert grows(world.sent()), "no byte moved, from the first request to the last"


def test_g26_what_is_told_while_the_user_is_away_is_published_at_the_next_fold(world: World) -> None:
    """G26, G12: a finished run costs no wait and no call; it enters when the cache is gone anyway."""
    agent = world.agent()
    world.until(agent, "historian_started")
    world.idle()
    calls = len(world.cheap.requests)
    world.clock.now += 3_600
    taken = of(world.round(agent), "summarize")
    assert [(e["ahead"], e["calls"], e["folded"]) for e in taken] == [(True, 0, True)]
    assert taken[0]["sources"] == ["model"] * taken[0]["compartments"]
    assert len(world.cheap.requests) == calls, "nothing was told twice"
    final = shown(world.main.requests[-1])
    assert P1 in final
    assert "KEY unit 0 " not in final
    assert "Never open valve V-0." in final, "E16: pins stay"
    assert any("its own port" in f.content for f in world.memory.facts.list()), "G21: facts come with it"


def test_g35_a_fold_for_another_reason_drains_what_has_been_told(world: World) -> None:
    """G35: HARD drains everything; under `summarise="line"` a warm or a cold step takes nothing in."""
    line = replace(POLICY, summarise="line")
    agent = world.agent(line)
    world.until(agent, "historian_started")
    world.idle()
    world.clock.now += 3_600
    assert not of(world.round(agent), "summarize"), "no loss below the line"
    other = world.agent(line, system_prompt="Be brief.")
    events = world.round(other)
    assert of(events, "offload")[0]["kind"] == "fold"
    assert of(events, "summarize")[0]["ahead"]
    assert P1 in shown(world.main.requests[-1])


def test_m6_at_the_line_a_finished_run_is_used_first(world: World) -> None:
    agent = world.agent(replace(POLICY, summarise="line"))
    first = world.until(agent, "summarize", 60)
    assert (first["ahead"], first["calls"]) == (True, 0)
    assert all(e["calls"] == 0 for e in of(world.events, "summarize")), "no step called the summariser"


def test_g1_a_step_at_the_line_joins_the_run_that_is_under_way(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is nearer to its end than a new one would be; the stretch is told once."""
    world.cheap.gate.clear()
    world.until(world.agent(), "historian_started")
    assert world.cheap.asked.wait(60)
    hurry = world.memory.runs.hurry

    def hurried(session: str) -> None:
        hurry(session)
        world.cheap.gate.set()

    monkeypatch.setattr(world.memory.runs, "hurry", hurried)
    world.until(world.agent(HASTY), "historian_awaited")
    told = of(world.events, "summarize")
    assert told[0]["ahead"]
    assert told[0]["calls"] == 0


async def test_g1_c14_an_asynchronous_agent_works_ahead_in_a_task(world: World) -> None:
    agent = world.agent()
    events: list[Event] = []
    while not of(events, "historian_told"):
        text = f"Check unit {world.rounds}. Never open valve V-{world.rounds}."
        events += [e async for e in agent.astream(says(text), config(), stream_mode="custom")]
        world.rounds += 1
        assert world.rounds < 40
    assert of(events, "historian_started")
    assert world.rows()
    assert grows(world.sent())


def test_c14_a_loop_that_ends_leaves_the_rest_to_a_thread(world: World) -> None:
    """One `asyncio.run` a turn: the run goes on while the user reads."""
    import asyncio

    async def turn(text: str) -> list[Event]:
        return [e async for e in agent.astream(says(text), config(), stream_mode="custom")]

    agent = world.agent()
    world.cheap.gate.clear()
    events: list[Event] = []
    while not of(events, "historian_started"):
        events += asyncio.run(turn(f"Check unit {world.rounds}. Never open valve V-{world.rounds}."))
        world.rounds += 1
    world.cheap.gate.set()
    world.idle()
    assert len(world.rows()) >= 1


def test_g15_three_garbage_answers_and_what_follows(world: World) -> None:
    """One repair call, the fallback, then a pause that doubles; the digest serves meanwhile."""
    world.cheap.answer = "I will do that, etc."
    now = Clock()
    world.memory.runs.clock = now
    both = [world.teller(), world.teller("second")]
    world.until(world.agent(summarizer=both), "historian_started")
    world.idle()
    agent = world.agent(HASTY, summarizer=both)
    asked = [r.model for r in world.cheap.requests]
    assert asked == ["cheap", "cheap", "second", "second"], "each once, and once more with the reason"
    assert "Rejected: " in shown(world.cheap.requests[1])
    world.round(agent)
    failed = of(world.events, "historian_failed")[0]
    assert (failed["failures"], failed["rows"]) == (1, [])
    assert "vague" in failed["reason"]
    standing = world.memory.runs.standing("t")
    assert (standing.failures, standing.pause) == (1, 30.0)
    told = of(world.events, "summarize")[0]
    assert (told["sources"], told["calls"], told["ahead"]) == (["digest"], 0, False)
    assert len(world.cheap.requests) == 4, "no storm: nobody is asked while the pause lasts"
    now.now += 31
    agent = world.agent(summarizer=both)
    world.until(agent, "historian_started")
    world.idle()
    assert world.memory.runs.standing("t").pause == 60.0
    world.cheap.answer = GOOD
    now.now += 61
    world.until(agent, "historian_told")
    assert world.memory.runs.standing("t").failures == 0


def test_a_fallback_serves_where_the_summariser_is_down(world: World) -> None:
    def answer(request: Request) -> Reply:
        if request.model == "cheap":
            raise Refuse(503, {"error": {"message": "overloaded", "type": "server_error"}})
        return Reply(GOOD)

    world.cheap.answer = answer
    agent = world.agent(summarizer=[world.teller(), world.teller("second")])
    told = world.until(agent, "historian_told")
    assert [r.model for r in world.cheap.requests][:2] == ["cheap", "second"]
    assert "503" in told["rejected"][0] or "overloaded" in told["rejected"][0]


def test_g2_a_run_that_dies_before_it_publishes_loses_nothing(world: World) -> None:
    """The memory is closed under a run, as when its program ends: the next one tells all."""
    world.cheap.gate.clear()
    agent = world.agent()
    first = world.until(agent, "historian_started")
    assert world.cheap.asked.wait(60)
    world.memory.close()
    world.cheap.gate.set()
    for thread in threading.enumerate():
        if thread.name == "headwater-historian":
            thread.join(60)
    assert world.rows() == [], "a run that was called off publishes nothing"
    again = world.until(agent, "historian_started")
    assert again["first"] == first["first"] == 1
    world.idle()
    assert world.rows()[0]["first"] == 1


def test_g35_another_branch_of_the_thread_takes_nothing_in(world: World) -> None:
    """What was told of messages that this branch does not have is no business of its frame."""
    agent = world.agent()
    for _ in range(3):
        world.round(agent)
    fork = agent.get_state(config()).config
    world.until(agent, "historian_started")
    world.idle()
    assert world.rows()
    world.clock.now += 3_600
    branch: RunnableConfig = {**fork, "recursion_limit": 2_000}
    events = watch(agent, says("Another way: check the units from here."), branch)
    assert not [e for e in of(events, "summarize") if e["ahead"]]


def test_the_switch_off_gives_the_same_calls_every_time(world: World) -> None:
    agent = world.agent(replace(HASTY, background=False))
    told = world.until(agent, "summarize")
    assert (told["ahead"], told["sources"]) == (False, ["model"])
    assert not of(world.events, "historian_started")
    assert not (world.memory.root / "runs.sqlite").exists(), "nothing is kept for it either"


def test_m14_what_runs_spend_counts_against_the_session(world: World) -> None:
    agent = world.agent(replace(POLICY, governance=9_000))
    for _ in range(24):
        world.round(agent)
        world.idle()
    spent = world.memory.runs.standing("t").spent
    assert 0 < spent <= 9_000
    assert spent == sum(e["spent"] for e in of(world.events, "historian_told"))


def test_g3_a_new_process_takes_in_what_the_old_one_told(world: World) -> None:
    """G3: rows and account are on disk; another `Memory` on the folder goes on from them."""
    agent = world.agent()
    world.until(agent, "historian_started")
    world.idle()
    count = len(world.rows())
    world.memory.close()
    with memory_in(world.memory.root) as reopened:
        second = world.agent(memory=reopened)
        world.clock.now += 3_600
        taken = of(world.round(second), "summarize")
        assert [e["compartments"] for e in taken] == [count]
        assert reopened.runs.standing("t").spent > 0


def test_g7_no_model_is_called_on_the_path_of_a_step(world: World) -> None:
    """G7: the requests of the summariser come from threads of its own; a step that is warm makes none."""
    world.cheap.gate.clear()
    agent = world.agent()
    world.until(agent, "historian_started")
    assert world.cheap.asked.wait(60)
    count = len(world.cheap.requests)
    for _ in range(3):
        events = world.round(agent)
        assert not of(events, "historian_started"), "one run a session at a time"
    assert len(world.cheap.requests) == count == 1

"""The four promises of the design under random sessions and random schedules.

Nothing is lost, a DEFER pass moves no byte, pins are verbatim in each request, and each request is valid,
whatever comes: cold gaps, restarts, time travel, a failing model, a failing summariser, runs that stop
half-way, another model, other tools. `HEADWATER_EXAMPLES=400` looks longer than the default.
"""

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from httpx import HTTPError
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.tools import BaseTool
from openai import APIError

from headwater import Prices, WindowPolicy
from headwater.graph import GovernanceMiddleware
from headwater.lab.provider import Disconnect, Overflow, Refuse, Reply, Request, ToolCall
from headwater.nodes.agent import OverflowUnresolved
from tests.graph.promises import Trial, Turn, by_graph, check_archive
from tests.graph.stage import CHEAP, Stage, staged
from tests.graph.world import TIGHT, WINDOW, Agent

EXAMPLES = int(os.environ.get("HEADWATER_EXAMPLES", "12"))

PINS = [
    "Never open valve V-113.",
    "We decided on port 8143.",
    "We tried the old filter F9, it did not help.",
    "不要使用 pump-9。",
    "I prefer short answers.",
]
FILLER = " ".join(f"Part {i} looks the same as before." for i in range(40))


class Act(NamedTuple):
    """One event of a schedule."""

    what: str
    value: Any = None
    more: Any = None


def fails(kind: str, at: int) -> Callable[[int], None]:
    """A model that fails at its `at`-th request of the round."""

    def fault(number: int) -> None:
        if number == at:
            if kind == "overflow":
                raise Overflow()
            if kind == "cut":
                raise Disconnect(Reply("I was just"), 0)
            raise Refuse(int(kind), {"error": {"message": "no such luck", "type": "server_error"}})

    return fault


def act(what: str, *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Act]:
    """Acts of one kind."""
    return st.tuples(st.just(what), *parts).map(lambda made: Act(*made))


batches = st.lists(st.lists(st.sampled_from([20, 150, 500]), min_size=1, max_size=3), max_size=5)
answers = st.sampled_from(["Done with this one.", FILLER, f"{FILLER} {FILLER}", "好的，已经完成。"])
says = act(
    "say",
    st.tuples(st.sampled_from(["Check it.", "继续检查。", FILLER]), st.none() | st.sampled_from(PINS)),
    st.tuples(batches, answers, st.sampled_from(["", "", "", "reduce", "note"])),
)
faults = st.tuples(st.sampled_from(["400", "500", "overflow", "cut"]), st.integers(1, 4))


def governed(trial: Trial, name: str = "GovernanceMiddleware") -> GovernanceMiddleware:
    """Governance for an agent that others make."""
    return GovernanceMiddleware(
        policy=trial.policy,
        prices=trial.prices,
        memory=trial.memory,
        summarizer=trial.stage.client("cheap", CHEAP) if trial.summarizer else None,
        clock=trial.stage.clock,
        name=name,
    )


def by_middleware(trial: Trial, tools: Sequence[BaseTool]) -> Agent:
    """An agent of LangChain's with the one line of ours."""
    made: Agent = create_agent(
        trial.stage.client(trial.model),
        list(tools),
        middleware=[governed(trial)],
        checkpointer=trial.saver,
    )
    return made


def by_deepagents(trial: Trial, tools: Sequence[BaseTool]) -> Agent:
    """A deep agent, its own summarisation exchanged for governance."""
    deepagents = pytest.importorskip("deepagents", reason="needs the extra headwater[deepagents]")
    made: Agent = deepagents.create_deep_agent(
        model=trial.stage.client(trial.model),
        tools=list(tools),
        middleware=[governed(trial, "SummarizationMiddleware")],
        checkpointer=trial.saver,
    )
    return made


class Way(NamedTuple):
    """A way to run governance: who makes the agent, where it may be stopped, how large its window is, and
    what it says of a call that a stopped run left open.
    """

    build: Callable[[Trial, Sequence[BaseTool]], Agent]
    nodes: Sequence[str]
    prefix: str = "headwater_"
    window: int = WINDOW
    closing: str = ""


WAYS = {
    "graph": Way(by_graph, ["watermark", "agent", "tools", "offload", "summarize", "remember"], ""),
    "middleware": Way(by_middleware, ["model", "tools", "GovernanceMiddleware.after_agent"]),
    # Its prompt and its own tools take 7,000 tokens by themselves.
    "deepagents": Way(
        by_deepagents,
        ["model", "tools", "SummarizationMiddleware.after_agent"],
        window=24_000,
        closing="did not complete",
    ),
}
acts = st.one_of(
    says,
    says,
    says,
    act("fault", faults),
    act("stop", st.integers(0, 5), st.booleans()),
    act("gap", st.sampled_from([10.0, 400.0, 7 * 86_400.0])),
    st.just(Act("restart")),
    act("travel", st.integers(0, 9)),
    act("model", st.sampled_from(["one", "two"])),
    act("tools", st.integers(0, 1)),
    act("cheap", st.sampled_from(["good", "empty", "500", "long", "cut"])),
)

# It ends with a round, so that there is something to judge.
schedules = st.tuples(st.lists(acts, min_size=2, max_size=15), says).map(lambda made: [*made[0], made[1]])


def cheap(kind: str) -> Callable[[Request], Reply]:
    """A summariser of one kind."""
    text = FILLER * 40 if kind == "long" else "The units were checked and all of them are well."

    def script(request: Request) -> Reply:
        if kind == "500":
            raise Refuse(500, {"error": {"message": "down", "type": "server_error"}})
        if kind == "empty":
            return Reply("")
        return Reply(json.dumps({"title": "t", "p1": text}), finish="length" if kind == "cut" else None)

    return script


class Schedule:
    """A trial, and what is set up for its next round."""

    def __init__(self, trial: Trial, nodes: Sequence[str]) -> None:
        self.trial = trial
        self.nodes = nodes
        self.fault: Callable[[int], None] | None = None
        self.stop: tuple[str, bool] | None = None

    def play(self, act: Act) -> None:
        """Carry out one act; what the schedule itself broke may fail, nothing else."""
        trial = self.trial
        if act.what == "say":
            self._say(act)
        elif act.what == "fault":
            self.fault = fails(*act.value)
        elif act.what == "stop":
            self.stop = (self.nodes[act.value % len(self.nodes)], act.more)
        elif act.what == "gap":
            trial.stage.now += act.value
        elif act.what == "restart":
            trial.restart()
        elif act.what == "travel":
            trial.travel(act.value)
        elif act.what == "cheap":
            trial.stage.cheap = cheap(act.value)
        elif act.what == "model":
            trial.change(model=act.value)
        else:
            trial.change(tools=act.value)

    def _say(self, act: Act) -> None:
        (text, pin), (made, answer, extra) = act.value, act.more
        calls: list[ToolCall] = []
        if extra == "note":
            calls = [ToolCall("ctx_note", {"text": "Tank T-4 is empty.", "kind": "note"})]
        elif extra == "reduce":
            calls = [
                ToolCall("ctx_reduce", {"tags": f"1-{max(1, self.trial.memory.archive.last('t') // 2)}"})
            ]
        # Results fill a larger window as fast.
        sizes = [[words * self.trial.policy.window // WINDOW for words in batch] for batch in made]
        turn = Turn(sizes, answer, calls, self.fault)
        stop, fault, self.stop, self.fault = self.stop, self.fault, None, None
        run = {"interrupt_before": [stop[0]]} if stop else {}
        self.trial.stage.now += 1.0
        try:
            self.trial.say(f"{text} {pin or ''}".strip(), turn, [pin] if pin else [], **run)
            if stop and stop[1]:
                self.trial.resume()
        except (OverflowUnresolved, APIError, HTTPError):
            # What the scripted fault becomes at the client; any other error is the graph's own.
            if fault is None:
                raise


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    return WAYS[request.param]


@pytest.fixture(scope="module")
def stage(way: Way) -> Iterator[Stage]:
    with staged(way.window) as made:
        yield made


policies = st.sampled_from([TIGHT, TIGHT, WindowPolicy(window=WINDOW)])
prices = st.sampled_from([Prices(), Prices(), Prices.uncached()])


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
@given(schedule=schedules, policy=policies, price=prices, told=st.booleans())
def test_the_four_promises_hold_under_any_schedule(
    way: Way, stage: Stage, schedule: list[Act], policy: WindowPolicy, price: Prices, told: bool
) -> None:
    """M1, M9-M11, M25, G10-G13, G35: the promises, each act checked, the archive checked at the end."""
    with tempfile.TemporaryDirectory() as root:
        stage.cheap = cheap("good")
        made: dict[str, Any] = {
            "policy": replace(policy, window=way.window),
            "prices": price,
            "summarizer": told,
            "build": way.build,
            "prefix": way.prefix,
            "closing": way.closing,
        }
        with Trial(stage, Path(root), **made) as trial:
            play = Schedule(trial, way.nodes)
            for act in schedule:
                play.play(act)
            check_archive(trial)
            for kind in [*trial.passes, *{str(e["type"]).removeprefix("headwater.") for e in trial.events}]:
                event(kind)

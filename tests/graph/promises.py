"""A session on trial: whatever happens to it, the four promises of the design are checked after each act.

The provider is the strict one, the client is real, the checkpointer and the archive are files: a restart
closes them and opens them again. The trial keeps the truth apart from the graph (what was said, what the
tools returned, what each branch may know), so that the checks do not ask the code under test.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.sqlite import SqliteSaver

from headwater import Memory, Prices, WindowPolicy, build_agent
from headwater.lab.provider import Exchange, Reply, Request, ToolCall
from headwater.nodes.engine import Engine
from headwater.nodes.recall import compartments
from headwater.window.face import safe, text_of
from headwater.window.frame import Frame
from headwater.window.marks import tag_of
from tests.graph.read_back import THREAD, arrows, expanded, tools_of
from tests.graph.stage import CHEAP, MAIN, Stage
from tests.graph.world import TIGHT, Agent, Event, body, config, extra, memory_in, pieces_of, shown


class Sent(NamedTuple):
    """A request, piece by piece, and the model and the tools that it went to."""

    pieces: tuple[bytes, ...] = ()
    identity: tuple[str, int] = ("", 0)


NONE_SENT = Sent()


@dataclass(frozen=True)
class Branch:
    """What one line of the session may know, the last request that was sent on it, and the last answered."""

    at: Any
    said: tuple[str, ...] = ()
    pins: tuple[str, ...] = ()
    sent: Sent = NONE_SENT
    answered: Sent = NONE_SENT


@dataclass
class Turn:
    """What the model does in one round: calls (each with its words) batch by batch, then the answer."""

    batches: Sequence[Sequence[int]] = ()
    answer: str = "Done with this one."
    calls: Sequence[ToolCall] = ()
    fault: Callable[[int], None] | None = None
    made: int = 0
    asked: int = 0


def by_graph(trial: "Trial", tools: Sequence[BaseTool]) -> Agent:
    """The agent of a trial, as `build_agent` makes it."""
    return build_agent(
        trial.stage.client(trial.model),
        tools=tools,
        policy=trial.policy,
        prices=trial.prices,
        memory=trial.memory,
        checkpointer=trial.saver,
        summarizer=trial.stage.client("cheap", CHEAP) if trial.summarizer else None,
        clock=trial.stage.clock,
    )


@dataclass
class Trial:
    """One session, its branches, and the truth about it.

    `build` makes its agent, by whatever way there is to govern one; `prefix` stands before the names of the
    channels in which that way keeps the frame. `closing` stands in the answers by which that way closes a
    call that a stopped run left open; "" where it does not.
    """

    stage: Stage
    root: Path
    policy: WindowPolicy = TIGHT
    prices: Prices = field(default_factory=Prices)
    summarizer: bool = False
    model: str = "one"
    extra_tools: int = 0
    own_tools: Sequence[BaseTool] = ()
    build: Callable[["Trial", Sequence[BaseTool]], Agent] = by_graph
    prefix: str = ""
    closing: str = ""
    branch: Branch = field(default_factory=lambda: Branch(config(THREAD)))
    past: list[Branch] = field(default_factory=list)
    truth: Counter[str] = field(default_factory=Counter)
    events: list[Event] = field(default_factory=list)
    passes: Counter[str] = field(default_factory=Counter)
    halts: int = 0
    units: int = 0
    rounds: int = 0
    turn: Turn = field(default_factory=Turn)
    values: Mapping[str, Any] = field(default_factory=dict)
    _open: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> "Trial":
        self.stage.main, self.stage.asked = self._speak, []
        self.stage.provider.requests.clear()
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def open(self) -> None:
        """A process begins: memory, checkpointer and agent from the files alone."""
        self.memory: Memory = self._open.enter_context(memory_in(self.root / "m"))
        saver = SqliteSaver.from_conn_string(str(self.root / "c.sqlite"))
        self.saver = self._open.enter_context(saver)
        self.agent: Agent = self._agent()

    def restart(self) -> None:
        """The process ends and another begins."""
        self._open.close()
        self._open = ExitStack()
        self.open()

    def change(self, *, model: str | None = None, tools: int | None = None) -> None:
        """Another model, or other tools, from the next request on."""
        self.model = model or self.model
        self.extra_tools = self.extra_tools if tools is None else tools
        self.agent = self._agent()

    def say(self, text: str, turn: Turn | None = None, pins: Sequence[str] = (), **run: Any) -> list[Event]:
        """One round; the sentences of `pins` stand in the text and must be in sight from now on."""
        self.rounds += 1
        marked = f"{text}\nround-{self.rounds}-"
        self.turn = turn or Turn()
        self.truth[marked] += 1
        # The first thing a user says is the goal.
        pinned = (*self.branch.pins, *pins) if self.branch.said else (marked, *pins)
        self.branch = replace(self.branch, said=(*self.branch.said, f"round-{self.rounds}-"), pins=pinned)
        return self._run({"messages": [("user", marked)]}, **run)

    def resume(self, **run: Any) -> list[Event]:
        """Go on where an interrupted run stopped."""
        return self._run(None, **run)

    def travel(self, index: int) -> None:
        """Go on from an earlier round's end; the way it came is another branch from now on."""
        if self.past:
            self.branch = self.past[index % len(self.past)]

    def _run(self, inputs: Any, **run: Any) -> list[Event]:
        first = len(self.stage.provider.requests)
        events: list[Event] = []
        try:
            for event in self.agent.stream(inputs, self.branch.at, stream_mode="custom", **run):
                events.append(event)
        finally:
            self.events += events
            self.halts += sum(event["type"] == "headwater.halt" for event in events)
            exchanges = self.stage.provider.requests[first:]
            sent = [x for x in exchanges if x.purpose == MAIN]
            self.branch = self._judge(sent, events)
            # The thread's newest checkpoint: what has just run wrote it.
            newest = self.agent.get_state(config(THREAD))
            self.branch, self.values = replace(self.branch, at=newest.config), newest.values
            self.past.append(self.branch)
            check_frame(self)
        return events

    def _judge(self, sent: Sequence[Exchange], events: Sequence[Event]) -> Branch:
        """The promises about requests: valid, prefix on DEFER, pins in sight, the other branch out of it."""
        assert self.stage.provider.violations == []
        kinds = iter([str(e["kind"]) for e in events if e["type"] == "headwater.request"])
        told = Counter(e["type"] for e in events)
        now = (self.model, self.extra_tools)
        branch = self.branch
        for exchange in sent:
            pieces = pieces_of(exchange)
            text = shown(self._request(exchange))
            for pin in self.branch.pins:
                assert pin in text, f"pinned and out of sight: {pin!r}"
            assert self.branch.said[-1] in text, "the newest request is out of sight"
            foreign = {f"round-{i}-" for i in range(1, self.rounds + 1)} - set(self.branch.said)
            assert not [mark for mark in foreign if mark in text], "another branch is in sight"
            # A run that a refusal ended leaves its frame in a graph, and not always in a middleware.
            bases = [branch.sent, branch.answered] if self.prefix else [branch.sent]
            branch = replace(branch, sent=Sent(pieces, now))
            if exchange.status == 200 and not exchange.error:
                branch = replace(branch, answered=branch.sent)
                kind = next(kinds)
                self.passes[kind] += 1
                if kind == "defer":
                    extends = [pieces[: len(base.pieces)] == base.pieces for base in bases]
                    assert any(extends), "a DEFER pass moved bytes"
                if exchange is sent[0] and all(base.pieces and base.identity != now for base in bases):
                    assert kind == "fold", f"another model or other tools, and the pass is {kind!r}"
        assert not told["headwater.text_lost"]
        return branch

    def _request(self, exchange: Exchange) -> Request:
        raw = json.loads(exchange.raw or b"{}")
        return replace(self.stage.asked[0], raw=raw) if self.stage.asked else Request("", "", raw, 0, _none)

    def _speak(self, request: Request) -> Reply:
        """The model: the turn's batches, its other calls, its answer; a fault where the schedule has one."""
        turn = self.turn
        turn.asked += 1
        if turn.fault is not None:
            turn.fault(turn.asked)
        calls: tuple[ToolCall, ...] = ()
        if turn.made < len(turn.batches):
            batch = turn.batches[turn.made]
            made = [{"unit": self.units + i + 1, "words": words} for i, words in enumerate(batch)]
            self.units += len(made)
            calls = tuple(ToolCall("inspect", args) for args in made)
        elif turn.made == len(turn.batches) and turn.calls:
            calls = tuple(turn.calls)
        turn.made += 1
        text = "" if calls else turn.answer
        return Reply(text, calls)

    def _agent(self) -> Agent:
        return self.build(self, [self._inspector(), *self.own_tools, *extra(self.extra_tools)])

    def _inspector(self) -> BaseTool:
        def inspect(unit: int, words: int) -> str:
            """Inspect one unit."""
            return body(unit, words)

        return tool(inspect)

    @property
    def compactions(self) -> int:
        """How often history was told so far."""
        return sum(event["type"] == "headwater.summarize" for event in self.events)

    @property
    def frame(self) -> Frame:
        """The frame as the newest checkpoint has it."""
        return Frame.from_state(*(self.values.get(self.prefix + n) for n in ("frame", "edits", "hints")))

    @property
    def engine(self) -> Engine:
        """An engine of its own, to read what the graph wrote."""
        return Engine(self.stage.client(self.model), self.memory, policy=self.policy)


def _none(raw: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]], list[str]]:
    return "", [], []


def check_frame(trial: Trial) -> None:
    """The frame says nothing that its messages contradict."""
    values = trial.values
    tags = [tag for m in values.get("messages", []) if (tag := tag_of(m))]
    frame = trial.frame
    assert tags == sorted(set(tags)), "numbers grow along the log"
    assert all(tag > frame.boundary for tag in tags)
    assert set(frame.edits) <= set(tags)
    assert set(frame.pending) <= set(tags)
    told = compartments(trial.engine, frame)
    assert len(told) == len(frame.told)
    ends = [0, *(part.last for part in told)]
    assert all(part.first > end for part, end in zip(told, ends, strict=False)), "told once, in order"
    if told:
        assert told[-1].last == frame.boundary


def check_archive(trial: Trial) -> None:
    """Nothing is lost: every number opens to the bytes that came, and all that came has a number."""
    log = trial.memory.archive.read(THREAD, 1, trial.memory.archive.last(THREAD))
    assert [tag for tag, _ in log] == list(range(1, len(log) + 1))
    tools = tools_of(trial.engine)
    opened = {tag: expanded(tools, tag) for tag, _ in log}
    for tag, message in log:
        assert opened[tag] == safe(text_of(message) + arrows(message)), tag
        if isinstance(message, ToolMessage) and message.name == "inspect":
            call = next(
                c for _, m in log for c in getattr(m, "tool_calls", ()) if c["id"] == message.tool_call_id
            )
            made = text_of(message) == body(call["args"]["unit"], call["args"]["words"])
            assert made or (trial.closing and trial.closing in text_of(message)), tag
    found = Counter(text_of(message) for _, message in log if message.type == "human")
    assert found <= trial.truth
    # A middleware is not asked before the model is: what no request has shown is in the checkpoint only.
    sent = b"".join(x.raw or b"" for x in trial.stage.provider.requests)
    missing = [text for text in trial.truth - found if text.rsplit("\n", 1)[1].encode() in sent]
    assert not missing
    if not trial.prefix:
        assert found == trial.truth

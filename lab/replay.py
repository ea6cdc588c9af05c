"""Replay: a recorded session through the real graph at the strict provider, and what it cost.

The recorded assistant messages are the model, the recorded results are the tools, and the recorded times
are the clock. Everything between is the graph as a user runs it.
"""

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_openai_messages
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.types import Command

from headwater.graph import build_agent
from headwater.lab.account import Account, Accountant, Step
from headwater.lab.provider import Reply, Request, StrictProvider, Totals
from headwater.lab.script import recorded
from headwater.lab.sessions import Session
from headwater.lab.survival import Survival, stated_facts, survival
from headwater.lab.trace import Sample, TraceError
from headwater.lab.wire_openai import OPENAI
from headwater.memory import Memory
from headwater.nodes import State
from headwater.window import Frame, Prices, WindowPolicy
from headwater.window.compartments import Compartment
from headwater.window.marks import unstamped
from headwater.window.policy import Lines
from headwater.window.render import Renderer

PACE = 10.0
END = "(end of the recording)"
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True)
class ReplayReport:
    """What a replay cost and kept. Tokens are the strict provider's; costs are in uncached input tokens.

    Attributes:
        name: The session's.
        window: Tokens.
        steps: Model calls played, of `recorded` in the session.
        totals: The provider's sums over the main model's requests.
        cost, unmanaged: Under the prices; `unmanaged` sends the whole log on every step.
        busts: Requests that broke a warm prefix.
        unfaithful: DEFER passes whose request was not an extension of the one before.
        told_tokens: Tokens that stood in the window and were replaced by a summary. What had left it
            before, by a stub that names it, is not among them.
        covered_tokens: Tokens of the log that compartments stand for, stubbed or not.
        archived: Messages in the archive; `damaged` of them differ from what was recorded.
        events: Counts of governance events by type.
        violations: Texts of broken provider rules.
        account: Every figure by step.
        survived: The session's facts by where they were at the end.
        compartments: The told history, in order.
        session: What was replayed.
    """

    name: str
    window: int
    steps: int
    recorded: int
    totals: Totals
    cost: float
    unmanaged: float
    busts: int
    unfaithful: int
    told_tokens: int
    covered_tokens: int
    log_tokens: int
    archived: int
    damaged: int
    events: dict[str, int] = field(default_factory=dict)
    violations: tuple[str, ...] = ()
    account: Account | None = field(default=None, repr=False)
    survived: Survival = field(default_factory=Survival, repr=False)
    compartments: tuple[Compartment, ...] = field(default=(), repr=False)
    session: Session | None = field(default=None, repr=False)

    @property
    def timeline(self) -> tuple[Step, ...]:
        """The figures of every step."""
        return self.account.steps if self.account else ()

    @property
    def samples(self) -> Sequence[Sample]:
        """The steps as `plot_window` draws them."""
        return self.account.samples if self.account else ()

    @property
    def lines(self) -> Lines:
        """The lines of the window.

        Raises:
            TraceError: No step was made.
        """
        if self.account is None or self.account.lines is None:
            raise TraceError(f"the replay of {self.name!r} made no step, so there are no lines")
        return self.account.lines

    @property
    def ratio(self) -> float:
        """Cost as a share of unmanaged."""
        return self.cost / self.unmanaged if self.unmanaged else 1.0


class Player:
    """A session's assistant messages as a script, its results as tools, its times as a clock."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.replies: Sequence[Reply] = recorded(session)
        self.rows = [i for i, m in enumerate(session.messages) if isinstance(m, AIMessage)]
        self.served = 0
        self.delivered: list[BaseMessage] = []
        self._given: set[int] = set()
        self._times = _filled(session)

    def script(self, request: Request) -> Reply:
        """The next recorded assistant message; behind the last one, a word to stop."""
        if self.done:
            return Reply(END)
        reply = self.replies[self.served]
        self.delivered.append(self.session.messages[self.rows[self.served]])
        self.served += 1
        return reply

    def clock(self) -> float:
        """When the next request was made, in the recording: at its last input."""
        row = self.rows[min(self.served, len(self.rows) - 1)]
        return self._times[max(0, row - 1)]

    @property
    def done(self) -> bool:
        """Whether every assistant message has been played."""
        return self.served >= len(self.rows)

    def inputs(self) -> list[Any]:
        """What stands before the next assistant message and has not been given yet."""
        end = self.rows[self.served] if not self.done else len(self.session.messages)
        rows = [i for i in range(end) if i not in self._given and i not in set(self.rows)]
        return self._give(rows)

    def result(self, call: dict[str, Any]) -> ToolMessage | Command[Any]:
        """The recorded result of a call; behind the arc's last call, also what came in meanwhile."""
        row = self.rows[self.served - 1]
        end = self.rows[self.served] if not self.done else len(self.session.messages)
        found = next(
            (
                i
                for i in range(row + 1, end)
                if i not in self._given and _answers(self.session.messages[i], call["id"])
            ),
            None,
        )
        message = ToolMessage("(not answered)", tool_call_id=call["id"], name=call["name"])
        if found is not None:
            message = self._give([found])[0]  # type: ignore[assignment]
        arc = self.session.messages[row]
        assert isinstance(arc, AIMessage)
        if not arc.tool_calls or call["id"] != arc.tool_calls[-1]["id"]:
            return message
        ids = {c["id"] for c in arc.tool_calls}
        rest = [
            i
            for i in range(row + 1, end)
            if i not in self._given and not any(_answers(self.session.messages[i], known) for known in ids)
        ]
        return Command(update={"messages": [message, *self._give(rest)]}) if rest else message

    def tools(self) -> list[BaseTool]:
        """One tool for each name that the session calls."""
        names = {c["name"] for m in self.session.messages if isinstance(m, AIMessage) for c in m.tool_calls}
        return [RecordedTool(name=n, player=self) for n in sorted(names) if _TOOL_NAME.fullmatch(n)]

    def _give(self, rows: Sequence[int]) -> list[BaseMessage]:
        self._given.update(rows)
        messages = [self.session.messages[i].model_copy(update={"id": f"row-{i}"}) for i in rows]
        self.delivered += messages
        return messages


class RecordedTool(BaseTool):
    """A tool that answers as it did when the session was recorded."""

    name: str
    description: str = "A recorded tool."
    args_schema: Any = {"type": "object", "properties": {}}  # noqa: RUF012 - a pydantic field, copied per instance
    player: Any

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        """Answer one call."""
        return self.player.result(input)

    def _run(self, **kwargs: Any) -> Any:
        raise NotImplementedError("recorded tools are invoked with the whole call")


def replay(
    session: Session,
    policy: WindowPolicy,
    prices: Prices | None = None,
    model: BaseChatModel | None = None,
    *,
    wire: Literal["openai", "anthropic"] = "openai",
    context_tools: bool = True,
    assumed: Prices | None = None,
    planted: Sequence[str] = (),
) -> ReplayReport:
    """Play a session through `build_agent` under a policy.

    Args:
        session: A recorded session.
        policy: The policy; its `window` is also the provider's true window.
        prices: The provider's; their `ttl` is its cache's lifetime.
        model: The model that summarises; None is the deterministic digest.
        wire: Which provider's format the real client speaks.
        context_tools: Whether the agent is offered the context tools, whose schemas cost tokens.
        assumed: The prices that the agent decides by, where they are not the provider's.
        planted: Facts to look for at the end, beside those that the session states.
    """
    prices = prices or Prices()
    books = Accountant()
    player = Player(session)
    window = policy.window or 200_000
    events: dict[str, int] = {}
    kinds: list[str] = []
    told = covered = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory(folder, repository=False) as memory,
        StrictProvider(
            player.script,
            window=window,
            clock=player.clock,
            ttl=prices.ttl,
            foreign_thinking=True,
            ledger=books.ledger,
        ) as provider,
    ):
        main = provider.openai() if wire == "openai" else provider.anthropic()
        agent = build_agent(
            main,
            summarizer=model,
            tools=player.tools(),
            policy=policy,
            prices=assumed or prices,
            memory=memory,
            checkpointer=books.saver,
            context_tools=context_tools,
            clock=player.clock,
        )
        config: RunnableConfig = {
            "configurable": {"thread_id": session.name},
            "recursion_limit": 100_000,
            "callbacks": [books],
        }
        while not player.done:
            before = player.served
            books.began()
            for event in agent.stream(
                State(messages=player.inputs()), config, stream_mode="custom", durability="exit"
            ):
                books.event(event)
                events[event["type"]] = events.get(event["type"], 0) + 1
                if event["type"] == "headwater.request":
                    kinds.append(event["kind"])
                elif event["type"] == "headwater.summarize":
                    told += event["shown"]
                    covered += event["tokens"]
            if player.served == before:
                break
        archived = memory.archive.read(session.name, 1, memory.archive.last(session.name))
        damaged = _damaged(player.delivered, [m for _, m in archived])
        violations = tuple(provider.violations)
        totals = provider.totals()
        account = books.close(prices, player.served, totals.refused)
        facts = stated_facts(
            session.messages[: player.rows[player.served - 1]] if player.served else (), planted
        )
        last = books.ledger.text(player.served - 1) if player.served else ""
        survived = survival(facts, last, memory, session.name, main)
        told_parts = tuple(
            Compartment.from_dict(data) for _, data in memory.archive.compartments(session.name)
        )
        # The request behind the last recorded message has no counterpart in the recording.
        accepted = [x for x in provider.requests if x.status == 200][: player.served]
    broken = [0 < b.cached_tokens < a.input_tokens for a, b in pairwise(accepted)]
    unfaithful = sum(broke and kind == "defer" for kind, broke in zip(kinds[1:], broken, strict=False))
    plain, log_tokens = unmanaged(session, player, prices)
    return ReplayReport(
        name=session.name,
        window=window,
        steps=player.served,
        recorded=len(player.rows),
        totals=totals,
        cost=sum(prices.read * x.cached_tokens + prices.write * x.written_tokens for x in accepted),
        unmanaged=plain,
        busts=sum(broken),
        unfaithful=unfaithful,
        told_tokens=told,
        covered_tokens=covered,
        log_tokens=log_tokens,
        archived=len(archived),
        damaged=damaged,
        events=events,
        violations=violations,
        account=account,
        survived=survived,
        compartments=told_parts,
        session=session,
    )


def unmanaged(session: Session, player: Player, prices: Prices) -> tuple[float, int]:
    """Cost of the session with the whole log sent on every step, in the same tokens; and the log's tokens."""
    renderer = Renderer(Frame(), has_head=False)
    cost = total = cached = 0.0
    last: float | None = None
    sized = 0
    for row, message in enumerate(session.messages):
        if isinstance(message, AIMessage):
            now = player._times[max(0, row - 1)]
            warm = cached if last is not None and now - last <= prices.ttl else 0.0
            cost += prices.read * warm + prices.write * (total - warm)
            cached, last = total, now
        renderer.feed(unstamped(message))
        while sized < len(renderer.shown):
            part = convert_to_openai_messages([renderer.shown[sized].message])[0]
            total += OPENAI.part_tokens("message", part)
            sized += 1
    return cost, int(total)


def _filled(session: Session) -> list[float]:
    """A time for each row: the recorded one, else a steady pace behind the row before; never backwards."""
    times: list[float] = []
    for stated in session.times:
        before = times[-1] if times else 0.0
        times.append(max(before, stated) if stated is not None else before + PACE)
    return times


def _answers(message: BaseMessage, call_id: str | None) -> bool:
    return isinstance(message, ToolMessage) and message.tool_call_id == call_id


def _damaged(delivered: Sequence[BaseMessage], archived: Sequence[BaseMessage]) -> int:
    """Delivered messages whose content is not in the archive, each as often as it was delivered."""
    left: dict[str, int] = {}
    for message in archived:
        key = _key(message)
        left[key] = left.get(key, 0) + 1
    lost = 0
    for message in delivered:
        key = _key(message)
        if left.get(key, 0) < 1:
            lost += 1
        else:
            left[key] -= 1
    return lost


def _key(message: BaseMessage) -> str:
    """What must come back: kind and text; an assistant's blocks are the client's way to say the same text."""
    if isinstance(message, AIMessage):
        return f"ai {message.text}"
    return f"{message.type} {message.content!r}"

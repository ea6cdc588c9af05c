"""Replay: a recorded session through the real graph at the strict provider, and what it cost.

The recorded assistant messages are the model, the recorded results are the tools, and the recorded times
are the clock. Everything between is the graph as a user runs it.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.runnables import RunnableConfig

from headwater.graph import build_agent
from headwater.lab.account import Account, Accountant, Step
from headwater.lab.player import Player, times_of
from headwater.lab.provider import StrictProvider, Totals
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
        policy: By which.
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
    policy: WindowPolicy = field(default_factory=WindowPolicy, repr=False)

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
            sent=books.sent,
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
        last = books.sent.text(player.served - 1) if player.served else ""
        survived = survival(facts, last, memory, session.name, main)
        told_parts = tuple(
            Compartment.from_dict(data) for _, data in memory.archive.compartments(session.name)
        )
        # The request behind the last recorded message has no counterpart in the recording.
        accepted = [x for x in provider.requests if x.status == 200][: player.served]
    broken = [0 < b.cached_tokens < a.input_tokens for a, b in pairwise(accepted)]
    unfaithful = sum(broke and kind == "defer" for kind, broke in zip(kinds[1:], broken, strict=False))
    plain, log_tokens = unmanaged(session, prices)
    return ReplayReport(
        name=session.name,
        window=window,
        steps=player.served,
        recorded=len(player.rows),
        totals=totals,
        cost=sum(x.cost(prices) for x in accepted),
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
        policy=policy,
    )


def unmanaged(session: Session, prices: Prices) -> tuple[float, int]:
    """Cost of the session with the whole log sent on every step, in the same tokens; and the log's tokens."""
    renderer = Renderer(Frame(), has_head=False)
    cost = total = cached = 0.0
    last: float | None = None
    sized = 0
    times = times_of(session)
    for row, message in enumerate(session.messages):
        if isinstance(message, AIMessage):
            now = times[max(0, row - 1)]
            warm = cached if last is not None and now - last <= prices.ttl else 0.0
            cost += prices.read * warm + prices.write * (total - warm)
            cached, last = total, now
        renderer.feed(unstamped(message))
        while sized < len(renderer.shown):
            part = convert_to_openai_messages([renderer.shown[sized].message])[0]
            total += OPENAI.part_tokens("message", part)
            sized += 1
    return cost, int(total)


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

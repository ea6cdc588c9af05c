"""One session through one peer: its own agent at the strict provider, and what that cost and kept.

The recorded assistant messages are the model, the recorded results are the tools and the recorded times are
the clock, as in `headwater.lab.replay`. A request that the provider refuses is counted. Where the system does
not get over the refusal by itself its session would end there; it is counted as a stop, and the provider lets
that one step pass, so that the rest of the session can be compared.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from openai import APIError

from headwater.lab.player import Player
from headwater.lab.provider import Reply, Request, StrictProvider
from headwater.lab.replay import unmanaged
from headwater.lab.sent_requests import SentRequests
from headwater.lab.sessions import Session
from headwater.lab.survival import Stated, flat, stated_facts
from headwater.window import Prices
from headwater.window.face import text_of

MAIN, TELLER = "strict-main", "strict-summarizer"
DIGEST = "Summary: the work went on as planned; the results so far were noted and the next step is under way."
PROMPT = "You are a helpful agent."
"""For sessions whose system prompt was not recorded: with none, one peer sends an empty system message."""
CHEAP = 0.2
"""Price of a token that a summariser of its own reads, in uncached tokens of the main model."""
ANY_WINDOW = 10_000_000

Result = ToolMessage | Command[Any]
Answer = Callable[[dict[str, Any]], Result]


@dataclass(frozen=True)
class Seat:
    """What a peer is given to build its agent from.

    Attributes:
        main, teller: The model, and a cheap one for summaries; both know the window by their profile.
        tools: The session's.
        answer: What a tool call of the recording gave; for systems whose own tools share a name with those.
        system: The session's system prompt.
        window: Tokens.
    """

    main: BaseChatModel
    teller: BaseChatModel
    tools: Sequence[BaseTool]
    answer: Answer
    system: str
    window: int
    saver: InMemorySaver


Build = Callable[[Seat], Any]


@dataclass(frozen=True)
class Cell:
    """One session under one system in one window. Costs are in uncached input tokens of the main model.

    Attributes:
        steps: Model calls played, of `recorded`.
        cost: Of the main model's requests; `told_cost` of the summaries, beside it.
        refused: Requests over the window, and `invalid` that broke another rule; none of them was answered.
        stopped: Steps at which the system gave up on a refusal.
        largest: Tokens of the largest request that was answered.
        in_sight, in_reach, lost: Facts.
        by_step: The cost of each step, summaries not included.
        rules: How often each rule was broken.
    """

    system: str
    window: int
    session: str
    log_tokens: int
    steps: int
    recorded: int
    cost: float
    unmanaged: float
    told_calls: int = 0
    told_tokens: int = 0
    told_cost: float = 0.0
    refused: int = 0
    invalid: int = 0
    stopped: int = 0
    largest: int = 0
    in_sight: int = 0
    in_reach: int = 0
    lost: int = 0
    by_step: list[float] = field(default_factory=list, repr=False)
    rules: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """All that was spent."""
        return self.cost + self.told_cost


class PeerPlayer(Player):
    """A player for systems that take no system message but one: the session's first are the system prompt."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        leading: list[BaseMessage] = []
        for message in session.messages:
            if not isinstance(message, SystemMessage):
                break
            leading.append(message)
        self.system = "\n\n".join(text_of(m) for m in leading) or PROMPT
        self._given.update(range(len(leading)))

    def _give(self, rows: Sequence[int]) -> list[BaseMessage]:
        """The messages as a peer can take them; ours does both by itself.

        A system message in the middle is said by the user, and a tool that gave nothing says so.
        """
        return [_takeable(message) for message in super()._give(rows)]


def _takeable(message: BaseMessage) -> BaseMessage:
    if isinstance(message, SystemMessage):
        return HumanMessage(text_of(message), id=message.id)
    if isinstance(message, ToolMessage) and not text_of(message).strip():
        return message.model_copy(update={"content": "(no output)"})
    return message


def play_peer(name: str, build: Build, session: Session, window: int, prices: Prices | None = None) -> Cell:
    """Play a session through a peer's agent in a window."""
    prices = prices or Prices()
    player = PeerPlayer(session)
    requests = SentRequests()
    told: list[bool] = []

    def script(request: Request) -> Reply:
        # The main model is asked without tools for a summary only, by systems that always offer some.
        told.append(request.model == TELLER or (own_tools and not request.tools))
        if told[-1]:
            return Reply(DIGEST)
        provider.lenient = False
        return player.script(request)

    own_tools = name.startswith("deepagents")
    with StrictProvider(
        script,
        window=window,
        clock=player.clock,
        ttl=prices.ttl,
        # OpenAI itself takes several system messages, so peers are let have them.
        one_system=False,
        foreign_thinking=True,
        sent=requests,
    ) as provider:
        seat = Seat(
            main=provider.openai(MAIN, profile={"max_input_tokens": window}),
            teller=provider.openai(TELLER, purpose="summarizer", profile={"max_input_tokens": window}),
            tools=player.tools(),
            answer=player.result,
            system=player.system,
            window=window,
            saver=InMemorySaver(),
        )
        agent = build(seat)
        config: RunnableConfig = {"configurable": {"thread_id": session.name}, "recursion_limit": 100_000}
        stopped = 0
        while not player.done:
            before = player.served
            stopped += _round(agent, player, provider, config)
            if player.served == before:
                break
        files = agent.get_state(config).values.get("files") or {}
    accepted = [x for x in provider.requests if x.status == 200]
    main = [x for x, summary in zip(accepted, told, strict=True) if not summary][: player.served]
    tales = [x for x, summary in zip(accepted, told, strict=True) if summary]
    # The main model's summaries are among them, the teller's are not.
    noted = [summary for x, summary in zip(accepted, told, strict=True) if x.model != TELLER]
    steps = [number for number, summary in enumerate(noted) if not summary]
    last = requests.text(steps[player.served - 1]) if player.served else ""
    facts = stated_facts(session.messages[: player.rows[player.served - 1]] if player.served else ())
    sight, reach, lost = _where(facts, last, files)
    plain, log_tokens = unmanaged(session, prices)
    by_step = [x.cost(prices) for x in main]
    turned_away = [x for x in provider.requests if x.status != 200]
    rules = Counter(str(x.rule) for x in turned_away if x.violation is not None)
    return Cell(
        system=name,
        window=window,
        session=session.name,
        log_tokens=log_tokens,
        steps=player.served,
        recorded=len(player.rows),
        cost=sum(by_step),
        unmanaged=plain,
        told_calls=len(tales),
        told_tokens=sum(x.input_tokens for x in tales),
        told_cost=sum(x.input_tokens * (CHEAP if x.model == TELLER else 1.0) for x in tales),
        refused=sum(x.over_window for x in turned_away),
        invalid=sum(rules.values()),
        stopped=stopped,
        largest=max((x.input_tokens for x in main), default=0),
        in_sight=sight,
        in_reach=reach,
        lost=lost,
        by_step=[round(x, 1) for x in by_step],
        rules=dict(rules),
    )


def _round(agent: Any, player: Player, provider: StrictProvider, config: RunnableConfig) -> int:
    """Give what stands before the next step and run to the end of the round; how often the system stopped."""
    feed: Any = {"messages": player.inputs()}
    stops = 0
    stood = -1
    while True:
        try:
            for _ in agent.stream(feed, config, stream_mode="values", durability="exit"):
                pass
        except (APIError, ContextOverflowError):
            if stood == player.served:
                return stops
            stops, stood, feed = stops + 1, player.served, None
            provider.lenient = True
        else:
            return stops


def _where(facts: Sequence[Stated], request: str, files: Mapping[str, Any]) -> tuple[int, int, int]:
    """Facts in sight in the last request, in reach in a file that it names, and lost."""
    shown = flat(request)
    named = flat("\n".join(_text(data) for path, data in files.items() if path in request))
    sight = sum(fact.text in request or flat(fact.text) in shown for fact in facts)
    both = sum(fact.text in request or flat(fact.text) in shown or flat(fact.text) in named for fact in facts)
    return sight, both - sight, len(facts) - both


def _text(data: Any) -> str:
    """What a file of an agent's state holds, by lines or whole."""
    content = data.get("content", "") if isinstance(data, Mapping) else data
    return content if isinstance(content, str) else "\n".join(map(str, content))

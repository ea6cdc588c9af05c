"""Paying for steps: what one agent's next step may take from its account and from those of all above it.

Two steps are asked for where one is to be made: the second is what a conclusion takes. Where only one is
left the agent is told, once, to conclude, and its calls are cut; where none is left nothing is sent.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from headwater.memory.ledger import Ledger, Short, Spend
from headwater.nodes.budget import UNBOUNDED, Budget
from headwater.window.marks import tag_of
from headwater.window.prices import Prices

if TYPE_CHECKING:
    from headwater.nodes.engine import Engine

CHAIN, DEPTH, BRIEFS, LIMITS = "headwater_chain", "headwater_depth", "headwater_briefs", "headwater_limits"
OUTPUT_TOKENS = 4_000
"""Output that is held for a step before it is made; what is longer is booked when it is known."""
LAST_SECONDS = 0.15
"""Share of the time at whose beginning an agent is told to conclude."""

_CONCLUDE = {
    "en": "[budget] {why}. Conclude now: answer with what you have, say what is missing, and call no tool; "
    "calls in this answer are not carried out.",
    "zh": "[预算] {why}。现在请给出结论：用已有的内容回答，说明还缺什么，"
    "不要再调用工具；本次回答中的调用不会执行。",
}
_SPENT = {"en": "Stopped: its budget of {limit} is spent.", "zh": "已停止：{limit} 预算已用完。"}


@dataclass(frozen=True)
class Purse:
    """What an agent pays from.

    Attributes:
        ledger: Where accounts are kept.
        chain: Keys of the accounts that pay, its own first, the root's last.
        holder: Who holds: the agent's session.
        depth: Levels it may still delegate.
        briefs: Digests of the briefs that are being worked on above it, its own included.
        pays: Whether its own steps have a limit anywhere.
    """

    ledger: Ledger
    chain: tuple[str, ...]
    holder: str
    depth: int
    briefs: tuple[str, ...] = ()
    pays: bool = True

    def before(self, step: Spend) -> Short | None:
        """Hold a step and a conclusion; the limit that allows this one step only, None when there is more.

        Raises:
            Exhausted: Not even one step is left.
        """
        # The concluding step reads what this one has added.
        both = Spend(2, 2 * step.tokens, 2 * step.cost)
        time = self.ledger.time_left(self.chain)
        if time.left <= 0:
            raise Exhausted(time)
        short = self.ledger.ask(self.chain, self.holder, both)
        if short is None:
            return time if time.left < LAST_SECONDS * time.of and time.of < math.inf else None
        last = self.ledger.ask(self.chain, self.holder, step, overdraft=True)
        if last is not None:
            raise Exhausted(last)
        return short

    def after(self, spent: Spend, keep: Spend) -> None:
        """Book what a step took, and hold what a conclusion takes; `Spend()` when the agent has ended."""
        self.ledger.settle(self.chain, self.holder, spent, keep)


class Exhausted(Exception):
    """A purse that does not hold one more step."""

    def __init__(self, short: Short) -> None:
        super().__init__(f"its budget of {short.limit} is spent")
        self.short = short


def purse_of(
    engine: "Engine",
    session: str,
    messages: Sequence[BaseMessage],
    config: RunnableConfig | None,
    known: Mapping[str, Any] | None = None,
) -> Purse:
    """The purse of an agent: a sub-agent's is named by who delegated, a root's lasts a round.

    `known` is the state's `purse`: the round goes on when its first message has left the tail.
    """
    given: Mapping[str, Any] = (config or {}).get("configurable") or {}
    ledger = engine.memory.ledger
    if chain := given.get(CHAIN):
        return Purse(ledger, tuple(chain), session, int(given.get(DEPTH, 0)), tuple(given.get(BRIEFS, ())))
    budget = _limited(engine.budget, given.get(LIMITS))
    key = f"{session}#{round_of(messages, known)}"
    if budget is not None:
        ledger.open(key, budget.limits)
    depth = (budget or UNBOUNDED).depth
    return Purse(ledger, (key,), session, depth, pays=budget is not None)


def round_of(messages: Sequence[BaseMessage], known: Mapping[str, Any] | None) -> int:
    """Tag of the user's message that began the round."""
    newest = next((tag_of(m) for m in reversed(messages) if isinstance(m, HumanMessage)), 0)
    return max(newest, int((known or {}).get("round", 0)))


def step_of(prices: Prices, tokens: int, reserve: int) -> Spend:
    """What a step of so many input tokens takes at most, as far as it can be known before."""
    output = min(reserve, OUTPUT_TOKENS)
    return Spend(1, tokens + output, prices.cost(0, written=tokens, output=output))


def spend_of(prices: Prices, answer: AIMessage, otherwise: int) -> Spend:
    """What a step took by the provider's report; `otherwise` tokens where there is none."""
    usage = answer.usage_metadata
    if not usage:
        return Spend(1, otherwise, prices.cost(otherwise))
    details = usage.get("input_token_details") or {}
    read, written = details.get("cache_read") or 0, details.get("cache_creation") or 0
    fresh = max(0, usage["input_tokens"] - read - written)
    return Spend(1, usage["total_tokens"], prices.cost(fresh, read, written, usage["output_tokens"]))


def told_to_conclude(short: Short, language: str) -> HumanMessage:
    """What an agent is told when only its concluding step is left; it stands in that request alone."""
    words = _CONCLUDE.get(language, _CONCLUDE["en"])
    return HumanMessage(words.format(why=f"{short}" if language == "zh" else f"Nearly spent ({short})"))


def cut_off(short: Short, language: str) -> AIMessage:
    """The end of an agent that may not make one more step."""
    text = _SPENT.get(language, _SPENT["en"]).format(limit=short.limit)
    marks = {"headwater": f"its budget of {short.limit} is spent", "headwater_notice": True}
    return AIMessage(text, response_metadata=marks)


def _limited(budget: Budget | None, limits: Mapping[str, Any] | None) -> Budget | None:
    """The budget of an agent that another machine's agent delegates to: never more than it was given."""
    if not limits:
        return budget
    own = budget or UNBOUNDED
    names = ("steps", "tokens", "seconds", "depth", "children", "cost")
    lower = {n: min(getattr(own, n), limits[n]) for n in names if limits.get(n) is not None}
    return replace(own, **lower)

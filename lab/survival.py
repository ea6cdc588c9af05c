"""What survived: which of a session's facts are in sight in its last request, in reach, or lost.

In sight is verbatim in the request. In reach is one call away, and found by it: `ctx_search` for the fact's
own words shows it or names the message it stands in, or `ctx_expand` of a number that the request shows does.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.tools import BaseTool, ToolException

from headwater.memory import Memory
from headwater.nodes.context_tools import context_tools
from headwater.nodes.engine import Engine
from headwater.window.audit import required_identifiers
from headwater.window.cues import pins_in
from headwater.window.face import text_of
from headwater.window.policy import WindowPolicy

RULES = ("constraint", "exclusion", "decision", "preference")
_TAGS = re.compile(r"§(\d+)§(?:\s*[-–—~至]\s*§?(\d+)§?)?|§(\d+)\s*[-–—]\s*(\d+)§")
_FOUND = re.compile(r"§(\d+)§")
_QUERY = 300


class Stated(NamedTuple):
    """A fact to be looked for: its kind (a rule's, `identifier` or `planted`) and its words."""

    kind: str
    text: str


@dataclass(frozen=True)
class Survival:
    """Facts by where they are at the end."""

    in_sight: tuple[Stated, ...] = ()
    in_reach: tuple[Stated, ...] = ()
    lost: tuple[Stated, ...] = ()

    @property
    def facts(self) -> int:
        """How many were looked for."""
        return len(self.in_sight) + len(self.in_reach) + len(self.lost)

    @property
    def sight(self) -> float:
        """The share in sight; 1 where there was none to look for."""
        return len(self.in_sight) / self.facts if self.facts else 1.0


def stated_facts(messages: Sequence[BaseMessage], planted: Iterable[str] = ()) -> list[Stated]:
    """What a session states that must not be lost: planted facts, the user's rules, names they rest on."""
    found: dict[str, Stated] = {text: Stated("planted", text) for text in planted if text.strip()}
    for rule in stated_rules(messages):
        found.setdefault(rule.text, rule)
    for name in required_identifiers(messages):
        found.setdefault(name, Stated("identifier", name))
    return list(found.values())


def stated_rules(messages: Iterable[BaseMessage]) -> list[Stated]:
    """The rules that a session's user lays down, each once."""
    found: dict[str, Stated] = {}
    for message in messages:
        if isinstance(message, HumanMessage):
            for kind, sentence in pins_in(text_of(message)):
                found.setdefault(sentence, Stated(kind, sentence))
    return list(found.values())


def holds(text: str, fact: str) -> bool:
    """Whether a text has a fact verbatim; how its words are spaced does not count."""
    return fact in text or flat(fact) in flat(text)


def flat(text: str) -> str:
    """A text with every run of white space as one space."""
    return " ".join(text.split())


def survival(
    facts: Sequence[Stated], request: str, memory: Memory, session: str, model: BaseChatModel
) -> Survival:
    """Look for every fact, by the tools that the agent itself has.

    Args:
        facts: What to look for.
        request: All that the last request said.
        memory: The run's.
        session: The run's session.
        model: The run's model; the tools ask for its window.
    """
    tools = {tool.name: tool for tool in context_tools(Engine(model, memory, policy=WindowPolicy()))}
    flattened = flat(request)
    shown = _shown(request)
    sight: list[Stated] = []
    reach: list[Stated] = []
    lost: list[Stated] = []
    for fact in facts:
        if fact.text in request or flat(fact.text) in flattened:
            sight.append(fact)
        elif _reachable(fact.text, shown, memory, session, tools):
            reach.append(fact)
        else:
            lost.append(fact)
    return Survival(tuple(sight), tuple(reach), tuple(lost))


def _reachable(
    fact: str, shown: frozenset[int], memory: Memory, session: str, tools: dict[str, BaseTool]
) -> bool:
    answer = _call(tools["ctx_search"], session, query=fact[:_QUERY])
    if holds(answer, fact):
        return True
    named = {int(tag) for tag in _FOUND.findall(answer)}
    last = memory.archive.last(session)
    for tag in sorted({t for t in named | shown if 1 <= t <= last}):
        if holds(text_of(memory.archive.get(session, tag)), fact):
            return True
    return False


def _call(tool: BaseTool, session: str, **args: str) -> str:
    try:
        return str(
            tool.func(**args, state={}, config={"configurable": {"thread_id": session}})  # type: ignore[attr-defined]
        )
    except ToolException as error:
        return str(error)


def _shown(request: str) -> frozenset[int]:
    """Numbers of messages that a request shows, those within a range included."""
    shown: set[int] = set()
    for found in _TAGS.finditer(request):
        first, last = (int(x) if x else 0 for x in (found[1] or found[3], found[2] or found[4]))
        shown.update(range(first, max(first, min(last, first + 10_000)) + 1))
    return frozenset(shown)

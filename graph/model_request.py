"""Between an agent's `ModelRequest` and the engine: the same model, prompt and tools, the same log."""

import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from langchain.agents.middleware.types import ModelRequest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, BaseMessage, RemoveMessage, SystemMessage, ToolMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from headwater.graph.per_run import differing, under
from headwater.memory import Memory
from headwater.nodes.engine import Engine
from headwater.nodes.faults import capped
from headwater.nodes.settings import RunSettings, settings_now
from headwater.window.face import text_of
from headwater.window.policy import WindowPolicy
from headwater.window.prices import Prices
from headwater.window.providers import caching_asked

_ENGINES = 16


@dataclass
class Engines:
    """The engines of one middleware: one for each model, system prompt, set of tools and settings it has met.

    Fallbacks, routers and tool selectors change what an agent sends from call to call; each is another
    prefix for the provider.
    """

    memory: Memory
    policy: WindowPolicy
    prices: Prices
    summarizer: BaseChatModel | None = None
    clock: Callable[[], float] | None = None
    _latest: "OrderedDict[RunSettings | None, Engine]" = field(default_factory=OrderedDict, repr=False)
    _known: "OrderedDict[tuple[object, ...], Engine]" = field(default_factory=OrderedDict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def latest(self) -> Engine | None:
        """The one that was used last under the settings of the run that is under way."""
        return self._latest.get(self.asked())

    def asked(self) -> RunSettings | None:
        """What the run that is under way sets for itself."""
        return differing(self.memory, self.policy, settings_now())

    def of(self, request: ModelRequest[Any], guide: str) -> Engine:
        """The engine for a request. Tools are told apart as objects, which an engine keeps alive."""
        system = text_of(request.system_message) if request.system_message else ""
        system = "\n\n".join(part for part in (system, guide) if part)
        tools = list(request.tools)
        # The schemas of structured output are not among them: the scale learns their weight.
        asked = self.asked()
        key = (asked, id(request.model), system, *map(id, tools))
        with self._lock:
            engine = self._known.pop(key, None) or self._new(asked, request.model, system, tools)
            self._known[key] = engine
            self._latest.pop(asked, None)
            self._latest[asked] = engine
            for kept in (self._known, self._latest):
                while len(kept) > _ENGINES:
                    kept.popitem(last=False)
        return engine

    def _new(
        self, asked: RunSettings | None, model: BaseChatModel, system: str, tools: Sequence[Any]
    ) -> Engine:
        memory, policy = under(self.memory, self.policy, asked)
        engine = Engine(
            model=model,
            memory=memory,
            tools=tools,
            system=system,
            summarizer=self.summarizer,
            policy=policy,
            prices=self.prices,
        )
        if self.clock is not None:
            engine.clock = self.clock
        return engine


def identified(messages: Sequence[AnyMessage]) -> dict[str, Any] | None:
    """The update that gives an id to every message without one; None where all have theirs."""
    if all(m.id for m in messages):
        return None
    named = [m if m.id else m.model_copy(update={"id": uuid.uuid4().hex}) for m in messages]
    return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *named]}


def log_of(request: ModelRequest[Any]) -> tuple[list[BaseMessage], list[BaseMessage]]:
    """The agent's log, and what others added behind it for this call only.

    The log is the state's, for governance is a view of it: what others changed in the copy is not taken
    over. Answers to calls that could not be read are: the agent is about to put them into its state.
    """
    state: list[AnyMessage] = list(request.state["messages"])
    own = {id(m) for m in state} | {m.id for m in state if m.id}
    by_id = {m.id: m for m in state if m.id}
    log: list[BaseMessage] = []
    extra: list[BaseMessage] = []
    for message in request.messages:
        if message.id in own or id(message) in own:
            log.append(by_id.get(message.id or "", message))
            extra = []
        elif isinstance(message, ToolMessage):
            # The agent writes this very object into its state, so that both know it by one id.
            message.id = message.id or uuid.uuid4().hex
            log.append(message)
        else:
            extra.append(message)
    missing = len(state) - sum(m.id in own or id(m) in own for m in log)
    return (log if not missing else list(state)), extra


def request_for(
    request: ModelRequest[Any], rendered: Sequence[BaseMessage], extra: Sequence[BaseMessage], engine: Engine
) -> ModelRequest[Any]:
    """The agent's request with the rendered view in it, its own additions behind."""
    system = request.system_message
    rest = list(rendered)
    if rest and isinstance(head := rest[0], SystemMessage):
        del rest[0]
        system = head if system is None or isinstance(system.content, str) else _lengthened(system, head)
    return request.override(
        system_message=system,
        messages=[*rest, *extra],  # type: ignore[list-item]
        model_settings={**caching_asked(request.model), **request.model_settings, **capped(engine)},
    )


def _lengthened(system: SystemMessage, head: SystemMessage) -> SystemMessage:
    """A system message of blocks, which may carry marks of their own, with what the window adds to it."""
    own = text_of(system)
    more = text_of(head).removeprefix(own).lstrip("\n")
    blocks = [{"type": "text", "text": b} if isinstance(b, str) else b for b in system.content]
    return SystemMessage(content=[*blocks, *([{"type": "text", "text": more}] if more else [])])

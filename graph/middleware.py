"""`GovernanceMiddleware`: the graph's governance for `langchain.agents.create_agent`, in one line.

The agent's own state keeps the tail, numbered; what the frame holds goes into private channels beside it.
Each model call walks the same step as the graph does, with the request that the agent was going to send.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NotRequired, cast

from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
    ToolCallRequest,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.channels.delta import DeltaChannel
from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.types import Command

from headwater.graph.build import GUIDE, memory_of, resolve_model
from headwater.graph.model_request import Engines, identified, log_of, request_for
from headwater.graph.per_run import under
from headwater.memory import Memory
from headwater.nodes.context_tools import context_tools as tools_for
from headwater.nodes.engine import Engine, frame_in
from headwater.nodes.remember import remember
from headwater.nodes.state import State, Update, merge_tags
from headwater.nodes.told import ToldRows
from headwater.nodes.tools import refusal_of
from headwater.nodes.walk import Ask, Effect, Step, walk
from headwater.window.frame import Frame
from headwater.window.policy import Lines, WindowPolicy
from headwater.window.prices import Prices
from headwater.window.tokens import warm_up

Handler = Callable[[ModelRequest[Any]], ModelResponse[Any]]
AsyncHandler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
ToolHandler = Callable[[ToolCallRequest], ToolMessage | Command[Any]]
AsyncToolHandler = Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]

_PREFIX = "headwater_"
_OWN = ("frame", "edits", "hints", "facts", "purse")
_UNSENT = 64


class GovernedState(AgentState[Any]):
    """The agent's state with governance beside it; `pins` is the caller's way to add to the task note."""

    pins: NotRequired[list[str]]
    headwater_frame: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]
    headwater_edits: NotRequired[Annotated[dict[int, str], DeltaChannel(merge_tags), PrivateStateAttr]]
    headwater_hints: NotRequired[Annotated[dict[int, str], DeltaChannel(merge_tags), PrivateStateAttr]]
    headwater_facts: NotRequired[Annotated[list[dict[str, Any]], PrivateStateAttr]]
    headwater_purse: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]


class GovernanceMiddleware(AgentMiddleware[GovernedState, Any, Any]):
    """Governs the window of an agent made by `create_agent`, `create_deep_agent` and what is built on them.

    Put it last in `middleware=[...]`: what stands before it (fallback, retries, a changed prompt) is then
    inside what it measures. Told history leaves the agent's `messages`; it stays in the archive.

    Args:
        memory: Where sessions, artifacts and facts live; default: `.headwater` in the working directory.
        policy: When and on what to act.
        prices: The provider's, to decide when moving the window pays.
        summarizer: A cheap model for summaries, "provider:name" or a chat model; None serves the
            deterministic digest.
        context_tools: Whether to offer file_read and the ctx_ tools.
        store: LangGraph's, the truth about facts, where `memory` is none or a path.
        clock: Seconds; for tests and replays.
        name: The middleware's name. deepagents exchanges a part of its own for one of the same name:
            "SummarizationMiddleware" puts this in the place of its summarisation.

    Raises:
        UnknownModel: The summarizer's string names no installed provider.
        WindowTooSmall: On the first step, when system prompt and tools leave no room.

    Example:
        >>> from langchain.agents import create_agent
        >>> from headwater.graph import GovernanceMiddleware
        >>> GovernanceMiddleware().name
        'GovernanceMiddleware'
    """

    state_schema = GovernedState
    tools: Sequence[BaseTool]

    def __init__(
        self,
        *,
        memory: Memory | str | Path | None = None,
        policy: WindowPolicy | None = None,
        prices: Prices | None = None,
        summarizer: str | BaseChatModel | None = None,
        context_tools: bool = True,
        store: BaseStore | None = None,
        clock: Callable[[], float] | None = None,
        name: str = "GovernanceMiddleware",
    ) -> None:
        warm_up()
        self._name = name
        self._guide = GUIDE if context_tools else ""
        self.memory: Memory = memory_of(memory, store)
        self._engines = Engines(
            memory=self.memory,
            policy=policy or WindowPolicy(),
            prices=prices or Prices(),
            summarizer=resolve_model(summarizer) if summarizer is not None else None,
            clock=clock,
        )
        self.tools = tools_for(_Desk(self._engines)) if context_tools else []
        # Steps whose model call failed, by session and the message they were to answer: a retry goes on from
        # there and pays for no summary twice.
        self._unsent: OrderedDict[tuple[str, str], tuple[State, Step]] = OrderedDict()

    @property
    def name(self) -> str:
        """The middleware's name in the agent and its traces."""
        return self._name

    def before_agent(self, state: GovernedState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Give every message an id; a reducer that gives none could not replace it by its numbered self."""
        return identified(state["messages"])

    async def abefore_agent(self, state: GovernedState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """The same."""
        return identified(state["messages"])

    def wrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> ExtendedModelResponse[Any]:
        """One governed step with the request that the agent was going to send."""
        call = _Call(self, request)
        effect, done = call.advance(None)
        while effect is not None:
            effect, done = call.advance(_served(effect, call, handler))
        assert done is not None
        return done

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: AsyncHandler
    ) -> ExtendedModelResponse[Any]:
        """The same; what reads files does so beside the event loop."""
        call = await asyncio.to_thread(_Call, self, request)
        effect, done = await asyncio.to_thread(call.advance, None)
        while effect is not None:
            effect, done = await asyncio.to_thread(call.advance, await _aserved(effect, call, handler))
        assert done is not None
        return done

    def wrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolMessage | Command[Any]:
        """Refuse a call into which a stub was copied; all others go on."""
        return refusal_of(request.tool_call) or handler(request)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: AsyncToolHandler
    ) -> ToolMessage | Command[Any]:
        """The same."""
        return refusal_of(request.tool_call) or await handler(request)

    def after_agent(self, state: GovernedState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Archive the answer and write the round's facts."""
        engine = self._engines.latest
        if engine is None or not state.get("headwater_frame"):
            # No model was called in this process; what is new is taken in by the next step.
            return None
        return _outward(remember(engine)(_inward(state), get_config()))

    async def aafter_agent(self, state: GovernedState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """The same."""
        return await asyncio.to_thread(self.after_agent, state, runtime)

    def _resumed(self, begun: State, config: RunnableConfig) -> Step:
        """The step to walk: a fresh one, or what a call that failed in the very same state left behind."""
        before, step = self._unsent.pop(_key(begun, config), (None, None))
        return step if step is not None and before == begun else Step(begun)

    def _failed(self, begun: State, config: RunnableConfig, step: Step) -> None:
        self._unsent[_key(begun, config)] = begun, step
        while len(self._unsent) > _UNSENT:
            self._unsent.popitem(last=False)


class _Call:
    """One model call under way: the walk, and the agent's own request to fill."""

    def __init__(self, middleware: GovernanceMiddleware, request: ModelRequest[Any]) -> None:
        self.middleware = middleware
        self.request = request
        self.config: RunnableConfig = get_config()
        self.engine = middleware._engines.of(request, middleware._guide)
        log, self.extra = log_of(request)
        self.begun = _inward({**request.state, "messages": log})
        self.step = middleware._resumed(self.begun, self.config)
        self.response: ModelResponse[Any] | None = None
        self._said: AIMessage | None = None
        self._walk: Generator[Effect, Any, AIMessage] = walk(self.engine, self.step, self.config)

    def advance(self, answer: Any) -> tuple[Effect | None, ExtendedModelResponse[Any] | None]:
        """On to the next thing that waits, or to the end."""
        try:
            return self._walk.send(answer), None
        except StopIteration as stop:
            # What the walk says in the model's place is the answer: the window is full, a call unreadable.
            response = self.response
            if response is None or stop.value is not self._said:
                response = ModelResponse(result=[stop.value])
            return None, ExtendedModelResponse(response, Command(update=_outward(self.step.update)))
        except Exception:
            self.middleware._failed(self.begun, self.config, self.step)
            raise

    def outgoing(self, rendered: list[BaseMessage]) -> ModelRequest[Any]:
        """The agent's request with what the model is to see."""
        return request_for(self.request, rendered, self.extra, self.engine)

    def answered(self, response: ModelResponse[Any]) -> AIMessage:
        """The model's own message; what else the agent adds to it stays in the response."""
        self.response = response
        self._said = next(m for m in response.result if isinstance(m, AIMessage))
        return self._said


def _served(effect: Effect, call: _Call, handler: Handler) -> Any:
    if not isinstance(effect, Ask):
        return effect.node.invoke(effect.state, call.config)
    try:
        return call.answered(handler(call.outgoing(effect.request)))
    except Exception as error:  # noqa: BLE001 - the walk raises again what is no overflow
        return error


async def _aserved(effect: Effect, call: _Call, handler: AsyncHandler) -> Any:
    if not isinstance(effect, Ask):
        return await effect.node.ainvoke(effect.state, call.config)
    try:
        return call.answered(await handler(call.outgoing(effect.request)))
    except Exception as error:  # noqa: BLE001 - as above
        return error


class _Desk:
    """What the context tools know of an agent whose model is first seen at its first call."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines

    @property
    def memory(self) -> Memory:
        """Of the tenant that the run names."""
        return under(self._engines.memory, self._engines.policy, self._engines.asked())[0]

    @property
    def subagents(self) -> Sequence[Any]:
        """None of ours: such an agent delegates by tools of its own."""
        return ()

    @property
    def told(self) -> ToldRows:
        """What the latest of them has read; before the first call there is nothing to have read."""
        latest: Engine | None = self._engines.latest
        return latest.told if latest is not None else ToldRows()

    @property
    def lines(self) -> Lines:
        latest: Engine | None = self._engines.latest
        return latest.lines if latest is not None else self._engines.policy.lines()

    def frame(self, state: Mapping[str, Any], config: RunnableConfig | None = None) -> Frame:
        return frame_in(_inward(state), config)

    def texts(self, frame: Frame) -> Sequence[str]:
        latest: Engine | None = self._engines.latest
        return latest.texts(frame) if latest is not None else ()


def _key(state: State, config: RunnableConfig) -> tuple[str, str]:
    messages = state["messages"]
    thread = str((config.get("configurable") or {}).get("thread_id", ""))
    return thread, (messages[-1].id or "") if messages else ""


def _inward(state: Mapping[str, Any]) -> State:
    """The agent's channels under the nodes' names."""
    own = {name: state[_PREFIX + name] for name in _OWN if _PREFIX + name in state}
    shared = {name: state[name] for name in ("messages", "pins") if name in state}
    return cast(State, {**shared, **own})


def _outward(update: Update) -> dict[str, Any]:
    """A node's update under the agent's names; what lives within a step only is left out."""
    own = {_PREFIX + name: value for name, value in update.items() if name in _OWN}
    return {**own, **({"messages": update["messages"]} if update.get("messages") else {})}

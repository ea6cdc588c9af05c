"""One step from intake to answer, by the graph's own edges, for whoever has no graph of ours.

A generator that asks its driver for what waits (the model, a summary), so that sync and async drive the
same code. It returns what the step changes, as one update.
"""

from collections.abc import Generator
from typing import Any, NamedTuple, cast

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig

from headwater.nodes.agent import advance, exchange
from headwater.nodes.engine import Engine
from headwater.nodes.halt import halt
from headwater.nodes.intake import intake
from headwater.nodes.offload import offload
from headwater.nodes.reclaim import reclaim
from headwater.nodes.spans import spanned
from headwater.nodes.state import State, Update, append_messages, merge_tags
from headwater.nodes.summarize import summarize
from headwater.nodes.watermark import route, watermark
from headwater.nodes.work_ahead import work_ahead


class Ask(NamedTuple):
    """Send this request to the main model; to be answered by its message or the error it raised."""

    request: list[BaseMessage]


class Run(NamedTuple):
    """Run a node that may wait for a model; to be answered by its update."""

    node: Runnable[State, Update]
    state: State


Effect = Ask | Run


class Step:
    """A step under way: the state so far, and all that it has changed.

    Attributes:
        state: As the channels would hold it.
        update: The same changes for the channels of another graph.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.update: Update = {}

    def take(self, update: Update) -> None:
        """Apply a node's update, as the channels do."""
        state = cast(dict[str, Any], dict(self.state))
        for name, value in update.items():
            if name == "messages":
                state[name] = append_messages(state.get(name) or [], [value])
                self.update[name] = [*self.update.get(name, ()), *value]
            elif name in ("edits", "hints"):
                state[name] = merge_tags(state.get(name), [value])
                self.update[name] = {**self.update.get(name, {}), **value}
            else:
                state[name] = self.update[name] = value
        self.state = cast(State, state)


def walk(engine: Engine, step: Step, config: RunnableConfig) -> Generator[Effect, Any, AIMessage]:
    """Walk one step; its changes are in `step` and its answer is returned, not among them.

    Raises:
        Exception: What the model's client raised, unless it was an overflow that could be survived.
        OverflowUnresolved: It was one, and nothing was left to take out.
    """
    step.take(spanned("intake", intake(engine)).invoke(step.state, config))
    while True:
        step.take(spanned("watermark", watermark(engine)).invoke(step.state, config))
        way = route(step.state)
        if way == "halt":
            return _answered(step, spanned("halt", halt(engine)).invoke(step.state, config))
        if way != "agent":
            yield from _remedy(engine, step, config, way)
            continue
        update = yield from _asked(engine, step, config)
        if "messages" in update:
            return _answered(step, update)
        # Refused, and nothing that a stub could stand for was left: once more by the lines that have moved.
        step.take(update)


def _remedy(engine: Engine, step: Step, config: RunnableConfig, way: str) -> Generator[Effect, Any, None]:
    if way == "summarize":
        step.take((yield Run(summarize(engine), step.state)))
    else:
        node = {"offload": offload, "reclaim": reclaim}[way](engine)
        step.take(spanned(way, node).invoke(step.state, config))


def _asked(engine: Engine, step: Step, config: RunnableConfig) -> Generator[Effect, Any, Update]:
    work_ahead(engine, step.state, config)
    dialogue = exchange(engine, step.state, config)
    request, update = advance(dialogue)
    while update is None:
        answer = yield Ask(request)
        request, update = advance(dialogue, answer)
    return update


def _answered(step: Step, update: Update) -> AIMessage:
    (answer,) = update["messages"]
    step.take({name: value for name, value in update.items() if name != "messages"})
    return cast(AIMessage, answer)

"""Ask the cheap models what a telling wants to know, with patience that ends.

A model that does not answer is left behind in a daemon thread: neither the session nor the end of the
program waits for it.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig

from headwater.nodes.historian import Answer, Ask, Telling, Told
from headwater.window.providers import cap_name

Before = Callable[[Ask], None]


class NoAnswer(TimeoutError):
    """A call was not answered in its time, and was left behind."""


def run(
    telling: Telling,
    models: Sequence[BaseChatModel],
    config: RunnableConfig | None = None,
    before: Before | None = None,
) -> Told:
    """Drive a telling with its models; what they raise is an answer like any other.

    `before` is called before each request; what it raises ends the telling and is raised again.
    """
    answer: Answer | None = None
    while not isinstance(asked := _advance(telling, answer), Told):
        if before is not None:
            before(asked)
        answer = _invoke(models[asked.model], asked, config)
    return asked


async def arun(
    telling: Telling,
    models: Sequence[BaseChatModel],
    config: RunnableConfig | None = None,
    before: Before | None = None,
) -> Told:
    """`run` for an event loop; what is counted and audited between two requests does not hold it up."""
    answer: Answer | None = None
    while not isinstance(asked := await asyncio.to_thread(_advance, telling, answer), Told):
        if before is not None:
            await asyncio.to_thread(before, asked)
        answer = await _ainvoke(models[asked.model], asked, config)
    return asked


def within(seconds: float, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in a daemon thread of its own and wait so long for it, no longer.

    The thread sees the caller's context variables. What the function raises is raised here.

    Raises:
        NoAnswer: It has not come back in time; its thread is left behind.
    """
    outcome: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def work() -> None:
        try:
            outcome.put((function(*args), None))
        except BaseException as error:  # noqa: BLE001 - raised again where the call was made
            outcome.put((None, error))

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name="headwater-asking", daemon=True).start()
    try:
        value, error = outcome.get(timeout=seconds)
    except Empty:
        raise NoAnswer(f"no answer within {seconds:.0f} s") from None
    if error is not None:
        raise error
    return value


def _advance(telling: Telling, answer: Answer | None) -> Ask | Told:
    """The telling's next request, or what it has told."""
    try:
        return next(telling) if answer is None else telling.send(answer)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


def _invoke(model: BaseChatModel, ask: Ask, config: RunnableConfig | None) -> Answer:
    try:
        bound = model.bind(**{cap_name(model): ask.max_tokens})
        return _as_message(within(ask.timeout, bound.invoke, ask.messages, config))
    except Exception as error:  # noqa: BLE001 - a client may raise anything; every failure means "digest instead"
        return error


async def _ainvoke(model: BaseChatModel, ask: Ask, config: RunnableConfig | None) -> Answer:
    try:
        async with asyncio.timeout(ask.timeout):
            bound = model.bind(**{cap_name(model): ask.max_tokens})
            return _as_message(await bound.ainvoke(ask.messages, config))
    except TimeoutError:
        return NoAnswer(f"no answer within {ask.timeout:.0f} s")
    except Exception as error:  # noqa: BLE001 - as above
        return error


def _as_message(answer: BaseMessage) -> AIMessage:
    return answer if isinstance(answer, AIMessage) else AIMessage(answer.content)

"""Agent: render the window, call the main model once, learn from what it reports.

An overflow that the provider proves is survived in the same step: the largest part becomes an artifact
and the request goes out smaller (M17-M20). The same bytes are never sent twice.
"""

import asyncio
from collections.abc import Generator
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig

from headwater.memory.ledger import Short, Spend
from headwater.nodes.binding import head_moved
from headwater.nodes.engine import Engine, live, saved
from headwater.nodes.events import emit
from headwater.nodes.faults import (
    by_another,
    capped,
    cut_in,
    heard,
    is_malformed,
    lower_cap,
    note_larger,
    overflow_in,
    said_malformed,
    with_note,
)
from headwater.nodes.handover import keep
from headwater.nodes.offload import apply_edits
from headwater.nodes.placed import Placed
from headwater.nodes.purse import (
    Exhausted,
    Purse,
    cut_off,
    purse_of,
    round_of,
    spend_of,
    step_of,
    told_to_conclude,
)
from headwater.nodes.reclaim import bare
from headwater.nodes.state import State, Update
from headwater.nodes.work_ahead import work_ahead
from headwater.window.blocks import BLOCKS, window_report
from headwater.window.calibration import MAX_SCALE, Meter, learn
from headwater.window.cut_prompts import Reports
from headwater.window.face import text_of
from headwater.window.frame import Frame, Pass
from headwater.window.overflow import Overflow
from headwater.window.providers import caching_asked
from headwater.window.sizes import model_name

MAX_RETRIES = 3

Exchange = Generator[list[BaseMessage], AIMessage | Exception, Update]


class OverflowUnresolved(RuntimeError):
    """The provider refuses the request as too long and nothing is left to take out of it."""


def agent(engine: Engine) -> Runnable[State, Update]:
    """A node that makes one step: one call of the main model."""
    bound = _bound(engine)

    def node(state: State, config: RunnableConfig) -> Update:
        work_ahead(engine, state, config)
        dialogue = exchange(engine, state, config)
        request, update = advance(dialogue)
        while update is None:
            try:
                answer: AIMessage | Exception = bound.invoke(request, config, **capped(engine))
            except Exception as error:  # noqa: BLE001 - clients raise what they like; all but overflow is raised again
                answer = error
            request, update = advance(dialogue, answer)
        return update

    async def anode(state: State, config: RunnableConfig) -> Update:
        work_ahead(engine, state, config, asyncio.get_running_loop())
        dialogue = exchange(engine, state, config)
        # Archive, artifacts and ledger are files: no event loop waits for them.
        request, update = await asyncio.to_thread(advance, dialogue)
        while update is None:
            try:
                answer: AIMessage | Exception = await bound.ainvoke(request, config, **capped(engine))
            except Exception as error:  # noqa: BLE001 - as above
                answer = error
            request, update = await asyncio.to_thread(advance, dialogue, answer)
        return update

    return Placed(node, anode, name="agent")


def advance(
    exchange: Exchange, answer: AIMessage | Exception | None = None
) -> tuple[list[BaseMessage], Update | None]:
    """The next request, or what the step has come to."""
    try:
        return (next(exchange) if answer is None else exchange.send(answer)), None
    except StopIteration as stop:
        return [], stop.value


def _bound(engine: Engine) -> Runnable[Any, Any]:
    """The model with its tools; where caching must be asked for, asked to cache all that is sent."""
    asked = caching_asked(engine.model)
    if engine.tools:
        return engine.model.bind_tools(list(engine.tools), **asked)
    return engine.model.bind(**asked)


def exchange(engine: Engine, state: State, config: RunnableConfig) -> Exchange:
    """One step as a dialogue: yields requests, is sent what became of them, returns what the step changes.

    Without an answer in what it returns, the step goes back to `watermark`: see `step["refused"]`.
    """
    frame = engine.frame(state, config)
    messages = live(state)
    step = dict(state.get("step") or {})
    frame, loose = head_moved(engine, frame, messages)
    frame, edits = apply_edits(engine, frame, messages, loose)
    purse = purse_of(engine, frame.session, messages, config, state.get("purse"))
    short: Short | None = None
    unread: list[Spend] = []
    for attempt in range(MAX_RETRIES + 1):
        with engine.view(frame, messages) as view:
            request, tokens, last, prefix = view.request(), view.tokens, view.last, view.prefix(frame)
            estimate = engine.estimate(frame, view)
        if purse.pays and attempt == 0:
            try:
                short = purse.before(step_of(engine.prices, estimate, engine.reserve))
            except Exhausted as spent:
                return saved(frame, messages=[cut_off(spent.short, frame.language)], step={})
        if short is not None:
            request = [*request, told_to_conclude(short, frame.language)]
        refused = step.get("refused")
        if refused is not None and tokens >= refused["tokens"]:
            # Never the same content twice (M19): the remedies have found nothing either.
            raise _unresolved(engine, frame, messages, tokens, refused["limit"])
        # A cache lives from when it was asked for, not from when a long answer was done.
        asked = engine.clock()
        answer = yield request
        if isinstance(answer, AIMessage) and is_malformed(answer):
            # Once more, saying what was wrong; what comes then is taken, or said.
            emit("malformed", session=frame.session, calls=len(answer.invalid_tool_calls))
            unread.append(spend_of(engine.prices, answer, tokens))
            answer = yield with_note(request, answer)
            if isinstance(answer, AIMessage) and is_malformed(answer):
                answer = said_malformed(answer, frame.language)
        overflow = overflow_in(engine, answer)
        full = overflow is None and attempt == 0
        if full:
            overflow = cut_in(engine, frame, answer, tokens)
        if overflow is None and isinstance(answer, AIMessage):
            break
        if overflow is None:
            assert isinstance(answer, Exception)
            raise answer
        emit(
            "overflow",
            session=frame.session,
            limit=overflow.limit,
            requested=overflow.requested,
            attempt=attempt,
        )
        foreign = by_another(engine, answer)
        cap = overflow._replace(limit=None) if foreign else overflow
        if overflow.kind == "output" and attempt < MAX_RETRIES and lower_cap(engine, frame, tokens, cap):
            # The cap is the cause: history stays as it is (case 57).
            continue
        if not foreign:
            frame = _refused(engine, frame, tokens, overflow)
        frame, more = _shrink(engine, frame, messages, tokens, overflow)
        edits |= more
        if full and not more:
            # There is an answer, and nothing smaller to ask with.
            break
        if attempt == MAX_RETRIES or not more:
            if refused is not None or attempt == MAX_RETRIES:
                cause = answer if isinstance(answer, Exception) else None
                raise _unresolved(engine, frame, messages, tokens, overflow.limit) from cause
            # Nothing that a stub can stand for is left: once, by the lines that the refusal has moved.
            return saved(frame, edits=edits, step={"refused": {"tokens": tokens, "limit": overflow.limit}})
    assert isinstance(answer, AIMessage)
    made = _Answered(answer, tokens, last, prefix, asked, short, tuple(unread))
    update = _ended(engine, frame, state, purse, made, edits)
    keep(engine, state, update, config)
    return update


class _Answered(NamedTuple):
    """An answered request.

    Attributes:
        tokens: Of the request, as counted.
        last: The newest tag in it.
        prefix: What it showed before the newest messages; see `View.prefix`.
        asked: Clock at which it was sent, in seconds.
        short: Why it is the agent's last; None where it is not.
        unread: What answers took that could not be read and were asked for again.
    """

    answer: AIMessage
    tokens: int
    last: int
    prefix: str
    asked: float
    short: Short | None
    unread: tuple[Spend, ...]


def _ended(
    engine: Engine, frame: Frame, state: State, purse: Purse, made: _Answered, edits: dict[int, str]
) -> Update:
    """Report, learn and book an answered request; what the step changes."""
    answer, tokens = made.answer, made.tokens
    step = state.get("step") or {}
    note_larger(engine, frame, answer)
    emit(
        "request",
        session=frame.session,
        tokens=tokens,
        usage=dict(answer.usage_metadata or {}),
        kind=str(_pass_of(frame.answered, made.prefix, step.get("pass", Pass.DEFER))),
    )
    frame = _learned(engine, frame, made)
    answer = _cut(answer, made.short)
    last = spend_of(engine.prices, answer, tokens)
    paid = Spend(*map(sum, zip(*made.unread, last, strict=True)))
    if purse.pays:
        held = step_of(engine.prices, int(last.tokens), engine.reserve)
        purse.after(paid, held if answer.tool_calls else Spend())
    used = dict(state.get("purse") or {})
    used["steps"] = used.get("steps", 0) + int(paid.steps)
    used["tokens"] = used.get("tokens", 0) + int(paid.tokens)
    used["cost"] = used.get("cost", 0.0) + paid.cost
    used["round"] = round_of(live(state), used)
    return saved(frame, messages=[answer], edits=edits, step={}, purse=used)


def _pass_of(before: str, prefix: str, planned: str) -> Pass:
    """How the request relates to the one before: as planned where anything has moved since, else DEFER.

    A remedy that found nothing to take out has moved nothing; a refusal, a lost text, an `undo`, or an image
    too many has, though nobody planned it.
    """
    kind = Pass(planned)
    if not before:
        return kind
    if before == prefix:
        return Pass.DEFER
    return Pass.EXECUTE if kind is Pass.DEFER else kind


def _cut(answer: AIMessage, short: Short | None) -> AIMessage:
    """The answer of one that was told to conclude: its calls are taken out."""
    if short is None:
        return answer
    return AIMessage(
        text_of(answer),
        id=answer.id,
        usage_metadata=answer.usage_metadata,
        response_metadata={**answer.response_metadata, "headwater": f"its budget of {short.limit} is spent"},
    )


def _refused(engine: Engine, frame: Frame, tokens: int, overflow: Overflow) -> Frame:
    """Learn from a refusal: the window it states, else that the count is too low by an eighth at least."""
    if overflow.limit is not None and overflow.kind == "silent":
        engine.beware(overflow.limit)
    elif overflow.limit is not None:
        engine.learn(overflow.limit)
    counted = tokens + engine.fixed_tokens
    stated = overflow.requested / counted if overflow.requested else frame.scale * 1.125
    # What was reported before says less than the refusal does.
    scale = round(min(MAX_SCALE, max(frame.scale, stated)), 4)
    return frame.with_(scale=scale, meter=Meter(), reports=Reports())


def _shrink(
    engine: Engine, frame: Frame, messages: list[BaseMessage], tokens: int, overflow: Overflow
) -> tuple[Frame, dict[int, str]]:
    """Take out the largest parts until the request should fit what the provider said (M20)."""
    limit = overflow.limit or int(0.8 * tokens)
    stated = overflow.requested or max(tokens, limit)
    excess = max(1, int((stated - 0.9 * limit) * tokens / max(stated, 1)))
    with engine.view(frame, messages) as view:
        wanted = bare(view, frame.with_(scale=1.0), excess)
    return apply_edits(engine, frame, messages, wanted)


def _learned(engine: Engine, frame: Frame, made: _Answered) -> Frame:
    """The frame after a request that was answered: what is cached now, and how far the count was off."""
    answer, tokens, asked = made.answer, made.tokens, made.asked
    warm = frame.warm + (0 if engine.prices.is_cold(frame.asked, asked) else 1)
    reported = answer.usage_metadata["input_tokens"] if answer.usage_metadata else 0
    scale, meter = learn(
        frame.scale,
        frame.meter,
        tokens + engine.fixed_tokens,
        reported,
        model=engine.endpoint,
        revision=frame.revision,
    )
    if meter.sloped:
        engine.memory.scales.learn(engine.endpoint, scale, asked)
    engine.probe()
    return frame.with_(
        sent=made.last,
        asked=asked,
        warm=warm,
        size=tokens,
        answered=made.prefix,
        scale=scale,
        meter=meter,
        reports=heard(engine, frame, answer, tokens),
    )


def _unresolved(
    engine: Engine, frame: Frame, messages: list[BaseMessage], tokens: int, limit: int | None
) -> OverflowUnresolved:
    stated = f" of {limit:,}" if limit else ""
    report = window_report(frame, messages, engine.texts(frame), engine.lines, engine.tools, engine.provider)
    parts = sorted(((report[name], name) for name in BLOCKS if name != "reserve"), reverse=True)[:3]
    return OverflowUnresolved(
        f"{model_name(engine.model) or 'the model'!r} refuses {tokens:,} tokens as too long for its window"
        f"{stated}; "
        f"largest parts: {', '.join(f'{name} {size:,}' for size, name in parts)}. Nothing is left to take "
        "out and nothing is lost. Set WindowPolicy(window=...) to the model's real window (assumed: "
        f"{engine.window.tokens:,} by {engine.window.source}), then continue the session"
    )

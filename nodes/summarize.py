"""Summarize: history before the protected zone becomes compartments (M6, M11, E8, C8).

The last resort before EXHAUSTED, in line; counted and reported. Nothing is removed before its account is
in the archive, and the messages themselves stay there for ever.
"""

import asyncio

from langchain_core.messages import BaseMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda

from headwater.nodes.engine import Engine, live, saved
from headwater.nodes.events import emit
from headwater.nodes.historian import Historian, Told, arun, run
from headwater.nodes.recall import compartments, fold, outgrown, publish
from headwater.nodes.state import State, Update
from headwater.window.frame import Frame
from headwater.window.marks import tag_of
from headwater.window.sizes import window_of
from headwater.window.tokens import count_tokens

MIN_CHUNK, MAX_CHUNK = 8_000, 50_000


def summarize(engine: Engine) -> Runnable[State, Update]:
    """A node that tells what stands before the protected zone; sync and async."""

    def node(state: State, config: RunnableConfig) -> Update:
        frame, stretch, historian = _prepare(engine, state, config)
        if not stretch:
            return _nothing(state, frame)
        return _publish(
            engine, state, frame, stretch, run(historian.tell(stretch), engine.summarizer, config)
        )

    async def anode(state: State, config: RunnableConfig) -> Update:
        # Archive and artifacts are files: no event loop waits for them.
        frame, stretch, historian = await asyncio.to_thread(_prepare, engine, state, config)
        if not stretch:
            return _nothing(state, frame)
        told = await arun(historian.tell(stretch), engine.summarizer, config)
        return await asyncio.to_thread(_publish, engine, state, frame, stretch, told)

    return RunnableLambda(node, anode, name="summarize")


def stretch_to_tell(
    engine: Engine, frame: Frame, messages: list[BaseMessage]
) -> list[tuple[int, BaseMessage]]:
    """The tail before the protected zone, ending where no arc is split."""
    with engine.view(frame, messages) as view:
        end = view.protected(engine.policy, engine.lines.window, engine.room(view))
    hidden = max(frame.boundary, frame.lead)
    tail = [(tag_of(m), m) for m in messages if tag_of(m) > hidden]
    cut = sum(1 for tag, _ in tail if tag < end)
    while 0 < cut < len(tail) and isinstance(tail[cut][1], ToolMessage):
        cut -= 1
    return tail[:cut]


def _prepare(
    engine: Engine, state: State, config: RunnableConfig
) -> tuple[Frame, list[tuple[int, BaseMessage]], Historian]:
    frame = engine.frame(state, config)
    told = compartments(engine, frame)
    budget = engine.policy.governance
    model = engine.summarizer
    chunk = MAX_CHUNK
    if model is not None:
        chunk = max(MIN_CHUNK, min(MAX_CHUNK, window_of(model).tokens // 4))
        chunk = min(chunk, window_of(model).tokens // 2)
    historian = Historian(
        chunk=chunk,
        language=frame.language,
        work=told[-1].work if told else None,
        budget=None if budget is None else max(0, budget - frame.spent),
        model=model is not None,
    )
    return frame, stretch_to_tell(engine, frame, live(state)), historian


def _publish(
    engine: Engine, state: State, frame: Frame, stretch: list[tuple[int, BaseMessage]], told: Told
) -> Update:
    with engine.view(frame, live(state)) as view:
        shown = view.span(stretch[0][0], stretch[-1][0])
    rows = [
        engine.memory.archive.put_compartment(frame.session, part.to_dict()) for part in told.compartments
    ]
    frame = frame.with_(
        boundary=stretch[-1][0],
        told=(*frame.told, *rows),
        zone=max(frame.zone, stretch[-1][0]),
        spent=frame.spent + told.tokens,
        pending={tag: p for tag, p in frame.pending.items() if tag > stretch[-1][0]},
        busts=frame.busts + 1,
    )
    frame = publish(engine, frame)
    folded = (
        engine.prices.is_cold(frame.asked, engine.clock()) or outgrown(engine, frame) or not frame.baseline
    )
    if folded:
        frame = fold(engine, frame)
    emit(
        "summarize",
        session=frame.session,
        first=stretch[0][0],
        last=stretch[-1][0],
        tokens=count_tokens([m for _, m in stretch]),
        shown=shown,
        compartments=len(told.compartments),
        sources=[part.source for part in told.compartments],
        calls=told.calls,
        spent=told.tokens,
        rejected=told.rejected,
        folded=folded,
    )
    gone = [RemoveMessage(id=m.id) for _, m in stretch if m.id]
    return saved(
        frame,
        messages=gone,
        edits={tag: None for tag in frame.edits if tag <= frame.boundary},
        hints={tag: None for tag in frame.hints if tag <= frame.boundary},
        facts=[*(state.get("facts") or []), *told.facts],
        step=_tried(state),
    )


def _nothing(state: State, frame: Frame) -> Update:
    return saved(frame, step=_tried(state))


def _tried(state: State) -> dict[str, object]:
    step = dict(state.get("step") or {})
    return {**step, "tried": [*step.get("tried", ()), "summarize"]}

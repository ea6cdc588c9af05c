"""Summarize: history before the protected zone becomes compartments (M6, M11, E8, C8).

What a background run has told is taken in first, at no wait. The rest is told in line: the last resort
before EXHAUSTED, counted and reported. Nothing is removed before its account is in the archive, and the
messages themselves stay there for ever.
"""

import asyncio
import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig

from headwater.memory import StorageError
from headwater.nodes.adopt import Adopted, account, adopt, channels, moved, put, stretch_to_tell
from headwater.nodes.asking import arun, run
from headwater.nodes.endpoints import chunk_of, teller_refused
from headwater.nodes.engine import Engine, live, saved
from headwater.nodes.events import emit
from headwater.nodes.historian import Ask, Historian, Telling, Told
from headwater.nodes.placed import Placed
from headwater.nodes.recall import compartments, last_request
from headwater.nodes.spans import asking
from headwater.nodes.spending import governance_spent
from headwater.nodes.state import State, Update
from headwater.window.compartments import WorkState
from headwater.window.context import Parts, delta_text
from headwater.window.frame import Frame
from headwater.window.overflow import Overflow
from headwater.window.policy import Level
from headwater.window.tokens import count_text

PATIENCE = 300.0
"""Seconds that a step at COMPACT waits for a run that is under way; it has been at it for a while."""
LEASE = 300.0
"""Seconds a lease holds; each request to a model renews it for at least as long as its patience."""


def summarize(engine: Engine) -> Runnable[State, Update]:
    """A node that tells what stands before the protected zone; sync and async."""

    def node(state: State, config: RunnableConfig) -> Update:
        with _Compaction(engine, state, config) as work:
            work.adopt()
            if work.joins():
                engine.memory.runs.wait(PATIENCE, work.frame.session)
                work.adopt()
            models, telling = work.telling()
            asked = asking("historian", config)
            return work.end(run(telling, models, asked, work.renew) if telling else None)

    async def anode(state: State, config: RunnableConfig) -> Update:
        # Archive and artifacts are files: no event loop waits for them.
        with await asyncio.to_thread(_Compaction, engine, state, config) as work:
            await asyncio.to_thread(work.adopt)
            if work.joins():
                await asyncio.to_thread(engine.memory.runs.wait, PATIENCE, work.frame.session)
                await asyncio.to_thread(work.adopt)
            models, telling = await asyncio.to_thread(work.telling)
            asked = asking("historian", config)
            told = await arun(telling, models, asked, work.renew) if telling else None
            return await asyncio.to_thread(work.end, told)

    return Placed(node, anode, name="summarize")


def historian(
    engine: Engine, frame: Frame, work: WorkState | None, models: Sequence[BaseChatModel], spent: int
) -> Historian:
    """A historian for these models, with what is left of the session's budget after `spent` tokens."""
    budget = engine.policy.governance

    def refused(model: int, overflow: Overflow, sent: int) -> int:
        teller_refused(engine, models[model], overflow, sent)
        return chunk_of(engine, models)

    return Historian(
        chunk=chunk_of(engine, models),
        language=frame.language,
        work=work,
        budget=None if budget is None else max(0, budget - spent),
        models=len(models),
        refused=refused,
    )


class _Compaction:
    """One visit of the node: what has been told ahead is taken in; then, where that is not enough, the rest
    is told in line, under the session's lease.
    """

    def __init__(self, engine: Engine, state: State, config: RunnableConfig) -> None:
        self.engine = engine
        self.state = state
        self.frame = engine.frame(state, config)
        self.messages = live(state)
        # Below the line nobody waits for a model: there only what is ready is taken in (G1).
        level = (state.get("step") or {}).get("level", "")
        self.only_ready = engine.works_ahead and level in (Level.NORMAL.name, Level.OFFLOAD.name)
        self.gone: list[BaseMessage] = []
        self.facts: list[dict[str, object]] = []
        self.stretch: list[tuple[int, BaseMessage]] = []
        self.holder = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.holder:
            self.engine.memory.runs.release(self.frame.session, self.holder)

    def adopt(self) -> None:
        """Take in what background runs have told."""
        adopted = adopt(self.engine, self.frame, self.messages)
        self.frame = adopted.frame
        self.gone += adopted.gone
        self.facts += adopted.facts

    def joins(self) -> bool:
        """Whether to wait for a run of this process: it is nearer to its end than a new one would be."""
        runs, session = self.engine.memory.runs, self.frame.session
        if self.only_ready or not self.engine.works_ahead or not runs.live(session) or self._enough():
            return False
        runs.hurry(session)
        emit("historian_awaited", session=session)
        return True

    def telling(self) -> tuple[Sequence[BaseChatModel], Telling | None]:
        """What is left to tell, and the models that may be asked for it; None where nothing is."""
        if self.only_ready or self._enough():
            return (), None
        self.stretch = stretch_to_tell(self.engine, self.frame, self.messages)
        if not self._worth_telling():
            return (), None
        models = self._models()
        told = compartments(self.engine, self.frame)
        work = told[-1].work if told else None
        spent = governance_spent(self.engine, self.frame)
        return models, historian(self.engine, self.frame, work, models, spent).tell(self.stretch)

    def renew(self, ask: Ask) -> None:
        """Hold the lease for as long as the next request may take."""
        if self.holder:
            self.engine.memory.runs.renew(self.frame.session, self.holder, lease_for(ask))

    def end(self, told: Told | None) -> Update:
        """Publish what was told in line, if anything was; the node's update."""
        if told is not None:
            self._publish(told)
        adopted = Adopted(self.frame, self.gone, self.facts)
        return saved(self.frame, **channels(self.state, adopted), step=_tried(self.state))

    def _worth_telling(self) -> bool:
        """Whether telling the stretch can make the window smaller; where not, says so, and nothing is asked
        or spent.
        """
        frame, stretch = self.frame, self.stretch
        if not stretch:
            emit("nothing_freed", session=frame.session, remedy="summarize", reason="all is protected")
            return False
        first, last = stretch[0][0], stretch[-1][0]
        with self.engine.view(frame, self.messages) as view:
            shown = view.span(first, last)
        # What the told stretch shows at the least: its pins and an open request, word for word, and a title.
        pins = [pin for pin in frame.pins if frame.boundary < pin.tag <= last]
        asked = last_request(self.engine, frame, frame.boundary, last)
        parts = Parts(pins=pins, history=f"### §{first}–{last}§", task=asked)
        least = count_text(delta_text(parts, frame.language))
        if shown > least:
            return True
        reason = f"{shown:,} tokens are left to tell, and telling them takes {least:,}"
        emit("nothing_freed", session=frame.session, remedy="summarize", reason=reason)
        return False

    def _enough(self) -> bool:
        """Whether what was taken in has brought the window below the line."""
        if not self.gone:
            return False
        with self.engine.view(self.frame, self.messages) as view:
            return self.engine.lines.level(self.engine.estimate(self.frame, view)) < Level.COMPACT

    def _models(self) -> Sequence[BaseChatModel]:
        """The models to ask: none while another process tells this session, or a failure's pause lasts."""
        engine = self.engine
        if not engine.works_ahead:
            return engine.historians
        holder = uuid.uuid4().hex
        try:
            if not engine.memory.runs.take(self.frame.session, holder, LEASE):
                return ()
        except StorageError as error:
            emit("historian_failed", session=self.frame.session, reason=str(error), failures=0)
            return engine.historians
        self.holder = holder
        return engine.historians

    def _publish(self, told: Told) -> None:
        tags = [tag for tag, _ in self.stretch]
        rows = [
            put(self.engine, self.frame.session, part, [t for t in tags if part.first <= t <= part.last])
            for part in told.compartments
        ]
        before = self.frame
        frame, shown, folded = moved(self.engine, before, self.messages, rows)
        self.frame = frame.with_(spent=frame.spent + told.tokens)
        gone = [m for _, m in self.stretch]
        emit(
            "summarize",
            **{**account(before, rows, gone, shown), "rejected": told.rejected},
            ahead=False,
            calls=told.calls,
            spent=told.tokens,
            folded=folded,
        )
        self.gone += gone
        self.facts += told.facts
        if self.holder:
            failed = told.calls > 0 and all(part.source == "digest" for part in told.compartments)
            self.engine.memory.runs.end(before.session, self.holder, failed=failed)
            self.holder = ""


def lease_for(ask: Ask) -> float:
    """Seconds to hold the lease for a request: longer than its patience."""
    return max(LEASE, ask.timeout + 60.0)


def _tried(state: State) -> dict[str, object]:
    step = dict(state.get("step") or {})
    return {**step, "tried": [*step.get("tried", ()), "summarize"]}

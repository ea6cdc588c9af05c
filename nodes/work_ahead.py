"""The historian beside the steps: it tells the oldest tail before it must be told (G1, G14, G15, C14).

A run works on a copy of the messages, in a daemon thread or, where a loop runs the steps, in a task of it.
It never touches a frame: it appends rows to the archive, which a later pass takes in (`adopt`). What it has
not published when its process is killed is told again by the next run, for the log has it all.
"""

import asyncio
import contextvars
import threading
import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from headwater.memory import StorageError
from headwater.memory.archive import UnknownTag
from headwater.nodes.adopt import finished, put, stretch_to_tell
from headwater.nodes.asking import arun, run
from headwater.nodes.endpoints import chunk_of
from headwater.nodes.engine import Engine, live
from headwater.nodes.events import emit
from headwater.nodes.historian import Ask, Historian, Telling, Told, chunk_end
from headwater.nodes.recall import compartments
from headwater.nodes.spans import asking_alone
from headwater.nodes.spending import governance_spent
from headwater.nodes.state import State
from headwater.nodes.summarize import LEASE, historian, lease_for
from headwater.window.compartments import WorkState, heal_boundary
from headwater.window.frame import Frame
from headwater.window.triggers import Tail, Trigger, clusters, due, sign_of, trigger_budget
from headwater.window.view import View


class CalledOff(RuntimeError):
    """The run has lost its lease, or its memory was closed: nothing of it may be written any more."""


_OVER = (CalledOff, StorageError, UnknownTag)
"""What ends a run without a word of its own: it was called off, or the session has been deleted."""


def work_ahead(
    engine: Engine, state: State, config: RunnableConfig, loop: asyncio.AbstractEventLoop | None = None
) -> None:
    """Start a background run where one is due, and report what earlier ones came to; never waits for one.

    Args:
        engine: Its summarizer and policy say whether to work ahead at all.
        state: As the next request will be rendered from it; copied, not changed.
        config: The step's.
        loop: The running loop, to work in a task of it; None works in a thread.
    """
    if not engine.works_ahead:
        return
    frame = engine.frame(state, config)
    try:
        for report in engine.memory.runs.reports(frame.session):
            if report.pop("event") == "historian_told":
                emit("historian_told", session=frame.session, **report)
            else:
                emit("historian_failed", session=frame.session, **report)
        job = _job(engine, frame, live(state))
    except StorageError as error:
        # A store that is busy or broken costs the head start, never the step.
        emit("historian_failed", session=frame.session, reason=str(error), failures=0)
        return
    if job is not None:
        emit("historian_started", session=frame.session, **job.about)
        job.config = asking_alone("historian", config)
        job.start(loop)


class Job:
    """One run: a copied stretch, told chunk by chunk under the session's lease, each published by itself."""

    def __init__(
        self,
        engine: Engine,
        frame: Frame,
        stretch: Sequence[tuple[int, BaseMessage]],
        work: WorkState | None,
        holder: str,
        trigger: Trigger,
    ) -> None:
        self.engine = engine
        self.frame = frame
        self.holder = holder
        self.config: RunnableConfig = asking_alone("historian", None)
        self.models: Sequence[BaseChatModel] = engine.historians
        self.about: dict[str, Any] = {"trigger": trigger, "first": stretch[0][0], "last": stretch[-1][0]}
        self._runs = engine.memory.runs
        self._left = list(stretch)
        self._work = work
        self._chunk: list[tuple[int, BaseMessage]] = []
        self._teller: Historian | None = None
        self._posted = 0
        self._spent_before = governance_spent(engine, frame)
        self._sum: dict[str, Any] = {"rows": [], "calls": 0, "spent": 0, "rejected": []}

    def start(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Begin, in a task of the loop or in a daemon thread; neither sees the step's context."""
        if loop is None:
            # A daemon: the program ends without waiting for a model.
            threading.Thread(target=self.run, name="headwater-historian", daemon=True).start()
            return
        task = loop.create_task(self.arun(), name="headwater-historian", context=contextvars.Context())
        _TASKS.add(task)
        task.add_done_callback(_TASKS.discard)

    def run(self) -> None:
        """Tell all there is, in this thread."""
        try:
            while (telling := self._next()) is not None:
                self._take(run(telling, self.models, self.config, self._renew))
        except _OVER:
            pass
        finally:
            self._end()

    async def arun(self) -> None:
        """`run` for an event loop. A loop that ends before it has the rest told in a thread."""
        handed = False
        try:
            while (telling := await asyncio.to_thread(self._next)) is not None:
                self._take(await arun(telling, self.models, self.config, self._renew))
        except asyncio.CancelledError:
            with suppress(RuntimeError):  # no thread starts while the interpreter ends
                self.start()
                handed = True
            raise
        except _OVER:
            pass
        finally:
            if not handed:
                self._end()

    def _next(self) -> Telling | None:
        """The telling of the next chunk; None where what is left is not worth a call, or somebody waits."""
        stretch, done = self._left, bool(self._sum["rows"])
        if not stretch or self._sum.get("failed"):
            return None
        budget = trigger_budget(self.engine.lines.window, self.engine.policy.offload)
        if done and (self._runs.hurried(self.frame.session) or chunk_end(stretch, budget) == len(stretch)):
            return None
        self._chunk = stretch[: chunk_end(stretch, chunk_of(self.engine, self.models))]
        spent = self._spent_before + self._sum["spent"]
        self._teller = historian(self.engine, self.frame, self._work, self.models, spent)
        self._posted = 0
        return self._teller.tell(self._chunk)

    def _take(self, told: Told) -> None:
        """Publish what a model has told of a chunk, up to the first stretch that none could."""
        self._sum["calls"] += told.calls
        self._sum["rejected"] += told.rejected
        parts = []
        for part in told.compartments:
            if part.source != "model":
                self._sum["failed"] = True
                break
            parts.append(part)
        tags = [tag for tag, _ in self._chunk]
        with self._runs.writing(self.frame.session, self.holder) as allowed:
            if not allowed:
                raise CalledOff(f"the run of session {self.frame.session!r} has been called off")
            for part in heal_boundary(parts, tags[-1]):
                read = [tag for tag in tags if part.first <= tag <= part.last]
                facts = [f for f in told.facts if part.first <= f["tags"][0] and f["tags"][-1] <= part.last]
                self._sum["rows"].append(put(self.engine, self.frame.session, part, read, facts).id)
                self._work = part.work
                self._left = [(tag, m) for tag, m in self._left if tag > part.last]
        self._post()

    def _renew(self, ask: Ask) -> None:
        """Hold the lease for the next request, and account for those before it."""
        if not self._runs.renew(self.frame.session, self.holder, lease_for(ask), self._unposted()):
            raise CalledOff(f"the lease of session {self.frame.session!r} is another's")

    def _post(self) -> None:
        if not self._runs.renew(self.frame.session, self.holder, LEASE, self._unposted()):
            raise CalledOff(f"the lease of session {self.frame.session!r} is another's")

    def _unposted(self) -> int:
        """Tokens spent since they were last put on the account."""
        spent = self._teller.spent if self._teller else 0
        new, self._posted = spent - self._posted, spent
        self._sum["spent"] += new
        return new

    def _end(self) -> None:
        """Give the lease back with the outcome. Where nobody could be asked, that is no outcome."""
        total = self._sum
        failed = bool(total.pop("failed", False))
        about = {**self.about, **total, "rejected": total["rejected"][-6:]}
        report: dict[str, Any] = {"event": "historian_told", **about}
        if failed:
            reason = (
                total["rejected"][-1] if total["rejected"] else "nothing left to spend, or too large a piece"
            )
            report |= {"event": "historian_failed", "reason": reason}
        try:
            if total["rows"] or failed:
                self._runs.end(self.frame.session, self.holder, failed=failed, report=report)
        except StorageError:
            # The lease runs out by itself; what was published stays published.
            return
        finally:
            self._runs.release(self.frame.session, self.holder, self._unposted())


_TASKS: set["asyncio.Task[None]"] = set()
"""A loop holds its tasks weakly only."""


def _job(engine: Engine, frame: Frame, messages: list[BaseMessage]) -> Job | None:
    """The run that is due; None where none is, or may be. Asks the disk only where a tail is long enough."""
    runs, session = engine.memory.runs, frame.session
    if runs.live(session) or runs.rests(session):
        return None
    with engine.view(frame, messages) as view:
        if not _due(engine, frame, view, engine.ahead.get(session, 0)):
            return None
        ready = finished(engine, frame, view.tags)
        after = ready[-1].part.last if ready else 0
        engine.ahead[session] = after
        trigger = _due(engine, frame, view, after)
    if not trigger:
        return None
    stretch = [(tag, m) for tag, m in stretch_to_tell(engine, frame, messages) if tag > after]
    if not stretch or not _affordable(engine, frame):
        return None
    holder = uuid.uuid4().hex
    if not runs.take(session, holder, LEASE):
        return None
    told = [row.part for row in ready] or compartments(engine, frame)
    return Job(engine, frame, stretch, told[-1].work if told else None, holder, trigger)


def _due(engine: Engine, frame: Frame, view: View, after: int) -> Trigger:
    """Whether what stands behind `after`, before the protected zone, should be told now; costs no more as
    the session grows.
    """
    tags = view.tags
    first = bisect_right(tags, after)
    end = bisect_left(tags, view.protected(engine.policy, engine.lines.window, engine.room(view)))
    if end <= first:
        return ""
    tokens = view.start(tags[end]) - view.start(tags[first]) if end < len(tags) else 0
    tail = Tail(tokens, end - first)
    budget = trigger_budget(engine.lines.window, engine.policy.offload)
    if budget <= tokens < 3 * budget:
        tail = tail._replace(clusters=clusters(sign_of(view.message(tag)) for tag in tags[first:end]))
    estimate = engine.estimate(frame, view)
    waiting = sum(p.gain for p in frame.pending.values())
    return due(
        tail,
        lines=engine.lines,
        threshold=engine.policy.offload,
        estimate=estimate,
        projected=estimate - int(waiting * frame.scale),
    )


def _affordable(engine: Engine, frame: Frame) -> bool:
    budget = engine.policy.governance
    if budget is None:
        return True
    left = budget - governance_spent(engine, frame)
    return left > trigger_budget(engine.lines.window, engine.policy.offload)

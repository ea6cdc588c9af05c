"""The dreamer looks after memory while nobody waits: task after task, with a reason for each change (G16).

A run is killed at no harm: each task's plan is written before its first change, a change is made once, and
the next process goes on where this one stopped. One runs at a time, whoever starts it. A run can be undone.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.memory.dream_apply import Hands
from headwater.memory.dream_change import TASKS, DreamError, Entry, Outcome, Report
from headwater.memory.dream_hours import Hours
from headwater.memory.dream_journal import Run, journal_of
from headwater.memory.dream_model import Asker
from headwater.memory.dream_project import KEY_FILES
from headwater.memory.dream_tasks import check_task, plan_of
from headwater.memory.dream_world import World, seen_after
from headwater.memory.fact import Fact

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from headwater.memory.memory import Memory

LEASE = 120.0
"""Seconds after which a dreamer that was killed is out of the way."""

_ALL_FACTS = 10**9
_NEWEST = 1_000


class LeaseLost(RuntimeError):
    """Another process dreams by now: this one was away for longer than its lease."""


class Dreamer:
    """Looks after the memory of one tenant's project.

    Args:
        memory: Whose facts and sessions.
        project: The project's folder; without one, the tasks that look at files do nothing.
        model: Asked where judgement is needed; None leaves each task's deterministic part.
        tasks: A switch for each task, by name; those that are not named are on, but `user_memories`, which
            learns about a person, is off unless switched on here or by `Memory(user_profile=True)`.
        hours: When it may run by itself, "02:00-06:00", in the zone's time; the end is not included.
        zone: Of the hours and of dates; None is this computer's.
        budget: Tokens that one run may spend on the model.
        sessions: Those whose messages may be read; by default the newest of this project, and the ones that
            its facts came from, since an archive may hold other tenants' sessions.
        clock: Seconds since 1970.
        lease: Seconds for which a step holds off other processes.
        progress: Called before and after each change, and at each task, with a word on it.

    Raises:
        DreamError: No such task, or hours that are no window.
    """

    def __init__(
        self,
        memory: Memory,
        project: str | Path | None = None,
        *,
        model: BaseChatModel | None = None,
        tasks: Mapping[str, bool] | None = None,
        hours: str = "02:00-06:00",
        zone: tzinfo | None = None,
        budget: int = 100_000,
        sessions: Sequence[str] | None = None,
        clock: Callable[[], float] = time.time,
        lease: float = LEASE,
        progress: Callable[[str], None] = lambda word: None,
    ) -> None:
        switches = {name: name != "user_memories" or memory.user_profile for name in TASKS}
        for name in tasks or {}:
            check_task(name)
        switches.update(tasks or {})
        self.tasks: tuple[str, ...] = tuple(name for name in TASKS if switches[name])
        self.hours: Hours = Hours.parse(hours)
        self._memory = memory
        self._project = None if project is None else Path(project).expanduser().absolute()
        if self._project is not None and not self._project.is_dir():
            raise DreamError(f"project={str(project)!r} is no folder: name the one that holds the project")
        self._model = model
        self._zone = zone
        self._budget = budget
        self._sessions = sessions
        self._clock = clock
        self._lease = lease
        self._progress = progress
        self._holder = ""
        self._journal = journal_of(memory)
        self._key = f"\0dream\0{self._journal.space}"

    def due(self) -> bool:
        """Whether the hours are open and no run has been through in them."""
        opened = self.hours.opened(self._clock(), self._zone)
        return opened is not None and not self._been_through(opened)

    def dream(self, task: str | None = None, *, now: bool = False, dry_run: bool = False) -> Report:
        """Run the tasks that are on, or one of them whatever its switch says; a run that was cut short is
        ended first.

        Args:
            task: One of `TASKS`.
            now: Whatever the hours say.
            dry_run: Change nothing; say what would be changed. Needs no lease, and may ask the model.

        Raises:
            DreamError: There is no such task.
            StorageError: The store or the journal failed; the next call goes on.
        """
        tasks = self.tasks if task is None else (check_task(task),)
        if dry_run:
            return self._dry(tasks)
        opened = self.hours.opened(self._clock(), self._zone)
        if not now and opened is None:
            return Report("", "not due", notes=["it is outside the hours; now=True (--now) does not wait"])
        with self._leased() as held:
            if not held:
                return Report("", "busy", notes=["another process dreams, or died less than a lease ago"])
            self._end_undoing()
            run = self._journal.open_run()
            report = None if run is None else self._go(run, now)
            if (
                run is not None
                and report is not None
                and (report.outcome != "done" or set(tasks) <= set(run.tasks))
            ):
                return report
            if not now and opened is not None and task is None and self._been_through(opened):
                return report or Report("", "not due", notes=["it has been through in these hours"])
            moment = self._clock()
            return self._go(self._journal.begin(f"d{uuid.uuid4().hex[:8]}", moment, tasks), now)

    def undo(self, run: str) -> Report:
        """Take back all that a run has changed, the last first; what was changed since stays, and is told.

        Raises:
            DreamError: There is no such run.
            StorageError: The store or the journal failed; calling again goes on.
        """
        self._journal.run(run)
        with self._leased() as held:
            if not held:
                return Report(run, "busy", notes=["another process dreams, or died less than a lease ago"])
            self._end_undoing()
            self._undo(run)
            return self._report(run, "undone")

    def reports(self) -> list[Report]:
        """What every run did, newest first."""
        outcomes: dict[str, Outcome] = {"done": "done", "undone": "undone"}
        return [self._report(r.id, outcomes.get(r.state, "paused")) for r in self._journal.runs()]

    def key_files(self) -> list[str]:
        """The paths that `pin_key_files` has pinned, best first."""
        return list(self._journal.kept(KEY_FILES) or [])

    def close(self) -> None:
        """Close the journal; the memory is its owner's to close."""
        self._journal.close()

    def _go(self, run: Run, now: bool) -> Report:
        """Run what is left of a run."""
        asker = self._asker(run)
        hands = Hands(self._memory.facts, self._journal, self._project)
        try:
            for entry in self._journal.entries(run.id, "planned"):
                self._make(run, entry, hands)
            for task in run.tasks:
                if task in self._journal.planned(run.id):
                    continue
                if not now and self.hours.opened(self._clock(), self._zone) is None:
                    return self._report(run.id, "paused", asker.notes)
                self._hold(self._lease)
                self._progress(f"plan {task}")
                plan = plan_of(task, self._world(self._facts(), run.started, asker), self._journal.refused())
                self._hold(self._lease)
                self._journal.plan(run.id, task, plan)
                for entry in self._journal.entries(run.id, "planned"):
                    self._make(run, entry, hands)
        except LeaseLost as lost:
            return self._report(run.id, "paused", [*asker.notes, str(lost)])
        self._progress("end")
        self._journal.finish(run.id, "done", self._clock())
        return self._report(run.id, "done", asker.notes)

    def _make(self, run: Run, entry: Entry, hands: Hands) -> None:
        self._hold(self._lease)
        self._progress(f"before {entry.change.task} {entry.change.target}")
        made = hands.apply(entry, run.started)
        self._progress(f"made {entry.change.task} {entry.change.target}")
        self._journal.mark(run.id, made)

    def _undo(self, run: str) -> None:
        self._journal.finish(run, "undoing", self._clock())
        hands = Hands(self._memory.facts, self._journal, self._project)
        for entry in reversed(self._journal.entries(run, "planned", "applied")):
            self._hold(self._lease)
            self._progress(f"undo {entry.change.target}")
            taken = entry._replace(state="undone") if entry.state == "planned" else hands.undo(entry)
            self._journal.mark(run, taken)
        self._journal.finish(run, "undone", self._clock())

    def _end_undoing(self) -> None:
        for run in self._journal.runs():
            if run.state == "undoing":
                self._undo(run.id)

    def _dry(self, tasks: Sequence[str]) -> Report:
        """Plan every task on what the ones before it would leave."""
        asker = Asker(self._model, budget=self._budget)
        facts, moment = self._facts(), self._clock()
        entries: list[Entry] = []
        for task in tasks:
            self._progress(f"plan {task}")
            plan = plan_of(task, self._world(facts, moment, asker), self._journal.refused())
            facts = seen_after(facts, plan)
            entries += [Entry(len(entries) + i, change, "planned") for i, change in enumerate(plan)]
        return Report("", "dry", entries, tasks, asker.spent, moment, asker.notes)

    def _world(self, facts: dict[str, Fact], moment: float, asker: Asker) -> World:
        archive = self._memory.archive
        named = self._sessions
        if named is None:
            own = self._memory.sessions.newest(_NEWEST)
            named = sorted({*own, *(f.source.session for f in facts.values() if f.source is not None)})
        there = set(archive.sessions())
        return World(
            facts=facts,
            project=self._project,
            archive=archive,
            sessions=[name for name in named if name in there],
            now=moment,
            ask=asker.ask,
            kept=self._journal.kept,
            use=self._memory.facts.uses.of,
            options={"zone": self._zone},
        )

    def _facts(self) -> dict[str, Fact]:
        return {item.id: item for item in self._memory.facts.list(limit=_ALL_FACTS)}

    def _asker(self, run: Run) -> Asker:
        return Asker(
            self._model,
            budget=self._budget,
            spent=run.tokens,
            recall=lambda question: self._journal.answer(run.id, question),
            keep=lambda question, answer, tokens: self._journal.keep_answer(run.id, question, answer, tokens),
            before=lambda seconds: self._hold(seconds + self._lease),
        )

    def _been_through(self, opened: float) -> bool:
        return any(
            run.state != "running" and run.started >= opened and set(self.tasks) <= set(run.tasks)
            for run in self._journal.runs()
        )

    @contextmanager
    def _leased(self) -> Iterator[bool]:
        """Hold the lease in the body, if it is free."""
        runs = self._memory.runs
        holder = f"{os.getpid()}.{uuid.uuid4().hex}"
        if not runs.take(self._key, holder, self._lease):
            yield False
            return
        self._holder = holder
        try:
            # What a killed holder left behind is told by the journal.
            runs.reports(self._key)
            yield True
        finally:
            runs.release(self._key, holder)

    def _hold(self, seconds: float) -> None:
        if not self._memory.runs.renew(self._key, self._holder, seconds):
            raise LeaseLost("another process took over while this one was away; it goes on with the run")

    def _report(self, run: str, outcome: Outcome, notes: Sequence[str] = ()) -> Report:
        found = self._journal.run(run)
        entries = self._journal.entries(run)
        return Report(run, outcome, entries, found.tasks, found.tokens, found.started, tuple(notes))

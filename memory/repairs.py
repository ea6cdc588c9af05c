"""What is done about an index that cannot be used as it is, and how each index stands meanwhile.

The one by words is built anew at once, since it needs no model; the others beside the work. What breaks again
soon after it was built is left alone for a while.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum, auto

from headwater.memory.database import StorageError
from headwater.memory.index import Index, IndexBroken
from headwater.memory.index_source import IndexSource
from headwater.memory.rebuild import Rebuild

_log = logging.getLogger(__name__)
_FEW = 100
"""Rows of which a first index is built at once."""
_TURN = 1.0
"""Seconds that a build of a few rows waits for another of that kind."""
_PAUSE = 2.0
"""Seconds until an index that another process builds is looked at again."""
_RETRY = 60.0
"""Seconds until an index that could not be built is tried again."""
_SILENCE = 3_600.0
"""Seconds from a warning of an index until the next one."""


class State(Enum):
    """Where an index stands."""

    UNOPENED = auto()
    """Nobody has looked at it yet."""
    IN_USE = auto()
    BUILDING = auto()
    """Here, beside the work."""
    ELSEWHERE = auto()
    """Another process builds it."""
    OUT = auto()
    """It could not be built."""


@dataclass
class Standing:
    """An index, and how it stands.

    Attributes:
        look_at: When one that is built elsewhere, or is out of use, is looked at again (`time.monotonic`).
        build: The newest build beside the work.
        missed: How often, since it was built, rows may have changed without a mark for this folder.
        mended: It was built anew since it was last opened or looked at again.
    """

    index: Index
    state: State = State.UNOPENED
    look_at: float = 0.0
    build: Rebuild | None = None
    missed: int = 0
    mended: bool = False

    @property
    def building(self) -> bool:
        """Whether a build of it is at work here."""
        return self.build is not None and self.build.alive

    def wait(self, state: State, seconds: float) -> None:
        """Out of use, and looked at again after so long."""
        self.state, self.look_at = state, time.monotonic() + seconds


class Repairs:
    """Repairs of the indexes of one space. Every method is called with the lock held.

    Args:
        source: What they are made from.
        words: The index that is built at once.
        lock: Background work takes it for its last step.
        lease: One process at a time builds; enters with False where another is at it.
        said: When an index was last warned of, shared by all that use it: one warning says it for all.
        retell: Called when an index came into use beside the work: it may have missed marks that came after
            its last step.
    """

    def __init__(
        self,
        source: IndexSource,
        words: Index,
        *,
        lock: threading.RLock,
        lease: Callable[[], AbstractContextManager[bool]],
        said: dict[Index, float],
        retell: Callable[[], None],
    ) -> None:
        self._source = source
        self._words = words
        self._lock = lock
        self._lease = lease
        self._said = said
        self._retell = retell

    def check(self, standings: Sequence[Standing], again: bool = False) -> None:
        """Put indexes to use that can be used, and mend the others; `again` for such as were left out."""
        rows = self._source.rows()
        for standing in standings:
            standing.state = State.IN_USE
            first = not self._source.epochs.built(standing.index)
            missed = standing.missed > 0
            if reason := self._source.reason_to_build(standing.index, rows, missed):
                self.mend(standing, reason, quiet=again or first or missed, again=again)
            else:
                standing.missed = 0

    def mend(self, standing: Standing, reason: str, *, quiet: bool = False, again: bool = False) -> bool:
        """Build an index anew; whether it can be used at once.

        Args:
            standing: The index.
            reason: Why.
            quiet: Nothing was lost that anybody had: no warning.
            again: It was given up before, and that was said.
        """
        if standing.mended:
            # It fails soon after it was built: building it at every search would help nobody.
            self.give_up(standing, reason, told=again)
            return False
        standing.mended = True
        if standing.index is self._words:
            built = self._build_words(standing, told=again)
        else:
            # A first build of a few rows is no repair, and takes no longer than telling it of them.
            few = len(self._source.rows()) <= (_FEW if quiet and not again else 0)
            built = few and self._build_few(standing)
        if built and not quiet:
            self._warn(standing.index, f"was built anew ({reason}); nothing was lost")
        elif not built and standing.index is not self._words:
            if not quiet:
                text = f"is built anew beside the work ({reason}): words serve until then"
                self._warn(standing.index, text)
            self._begin(standing, told=again or not quiet)
        return built

    def build(self, standing: Standing) -> None:
        """Build an index at once.

        Raises:
            IndexBroken: It cannot be built; it is tried again later.
        """
        try:
            self._source.build(standing.index)
        except IndexBroken:
            standing.wait(State.OUT, _RETRY)
            raise
        standing.state, standing.missed = State.IN_USE, 0

    def give_up(self, standing: Standing, reason: str, told: bool = False) -> None:
        """Leave an index out for a while."""
        # A new epoch: rows that it misses from now on need no marks, it will be built whole.
        self._source.epochs.renew(standing.index)
        standing.wait(State.OUT, _RETRY)
        self._warn(standing.index, f"is out of use for now ({reason}): search goes on without it", told=told)

    def _build_words(self, standing: Standing, told: bool) -> bool:
        try:
            self.build(standing)
        except IndexBroken as error:
            self.give_up(standing, str(error), told=told)
            return False
        return True

    def _build_few(self, standing: Standing) -> bool:
        """Build an index at once, unless another process is at it or it cannot be done: then it is done, or
        tried again, in the background.
        """
        deadline = time.monotonic() + _TURN
        try:
            while True:
                with self._lease() as ours:
                    if ours and not self._source.is_whole(standing.index, standing.missed > 0):
                        self.build(standing)
                if ours or time.monotonic() > deadline:
                    return ours
                time.sleep(_TURN / 20)
        except (IndexBroken, StorageError, sqlite3.Error):
            return False

    def _begin(self, standing: Standing, told: bool) -> None:
        index, source, missed = standing.index, self._source, standing.missed

        def done(error: IndexBroken | None, busy: bool) -> None:
            if standing.state in (State.UNOPENED, State.IN_USE):
                # It was let go, or came into use in another way; the next look at it finds out the rest.
                return
            if busy:
                standing.wait(State.ELSEWHERE, _PAUSE)
            elif error is not None:
                self.give_up(standing, str(error), told=told)
            elif standing.missed > missed:
                # What was missed while it was built, it may not have read: the next look builds it again.
                standing.state, standing.mended = State.UNOPENED, False
            else:
                standing.state, standing.missed = State.IN_USE, 0
                self._retell()
                _log.info("%s is in use again", self._name(index))

        standing.state = State.BUILDING
        build = Rebuild(
            whole=lambda: source.is_whole(index, missed > 0),
            reset=lambda: index.reset(source.space),
            rows=source.rows,
            put=lambda entries: index.upsert(source.space, entries),
            finish=lambda: source.finish(index),
            done=done,
            lock=self._lock,
            lease=self._lease,
        )
        # Begun before anybody can see it: who closes the memory joins what there is to see.
        build.start()
        standing.build = build

    def _warn(self, index: Index, text: str, told: bool = False) -> None:
        told = told or time.monotonic() < self._said.get(index, 0.0) + _SILENCE
        if not told:
            self._said[index] = time.monotonic()
        _log.log(logging.INFO if told else logging.WARNING, "%s %s", self._name(index), text)

    def _name(self, index: Index) -> str:
        return f"{type(index).__name__} of {self._source.space[2]}"

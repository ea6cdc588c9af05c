"""Dreamers in processes of their own: killed (-9) before a call that reaches the disk, and started together.

Run as a program, so that it may fork: `python -m tests.memory.dream_trials KILLS RACES` prints what came of
it.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.memory.dreaming import NIGHT, Clock, dreamer, fill, memory_in, project_in, state

_fork = multiprocessing.get_context("fork")
_LEASE = 121.0


def dream(root: Path, later: float = 0.0) -> dict[str, Any]:
    """One dream in this process; its outcome, what it left, and the runs in the journal.

    Args:
        root: Where memory and project are.
        later: Seconds that the clock of leases is ahead: what a killed process held has run out.
    """
    clock = Clock(NIGHT)
    with memory_in(root / "m", clock) as memory:
        memory.runs.clock = Clock(NIGHT + later)
        dreams = dreamer(memory, root / "p", clock)
        outcome = dreams.dream().outcome
        left = state(memory, root / "p", dreams)
        runs = [
            [report.outcome, sorted(entry.state for entry in report.entries)] for report in dreams.reports()
        ]
        dreams.close()
    left["docs"] = {name: text.decode() for name, text in left["docs"].items()}
    return {"outcome": outcome, "left": left, "runs": runs}


def in_child(work: Callable[[], Any]) -> Any:
    """What `work` returns in a process of its own; None where that was killed."""
    ours, theirs = _fork.Pipe(duplex=False)

    def run() -> None:
        theirs.send(work())

    child = _fork.Process(target=run)
    child.start()
    theirs.close()
    try:
        return ours.recv()
    except EOFError:
        return None
    finally:
        child.join()


def killed_before(call: int, work: Callable[[], Any]) -> Any:
    """Do the work, and kill this process before its call of this number to SQLite or to a rename; the number
    of calls where there are fewer.
    """
    seen = 0

    def look(frame: Any, event: str, what: Any) -> None:
        nonlocal seen
        if event == "c_call" and _on_disk(what):
            if seen == call:
                os.kill(os.getpid(), signal.SIGKILL)
            seen += 1

    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
    return seen


def _on_disk(what: Any) -> bool:
    owner, name = getattr(what, "__self__", None), getattr(what, "__name__", "")
    if isinstance(owner, (sqlite3.Connection, sqlite3.Cursor)):
        return name.startswith("execute")
    return getattr(owner, "__name__", "") == "posix" and name in ("replace", "rename", "unlink")


def together(root: Path) -> list[Any]:
    """Two processes that begin to dream at the same moment."""
    barrier = _fork.Barrier(2)
    ours, theirs = _fork.Pipe(duplex=False)

    def run() -> None:
        barrier.wait()
        theirs.send(dream(root))

    children = [_fork.Process(target=run) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    return [ours.recv() for _ in children]


def trials(kills: int, races: int) -> dict[str, Any]:
    """Kills spread evenly over a whole run, each followed by a second run; then races."""
    with tempfile.TemporaryDirectory() as place:
        start = Path(place) / "start"
        project_in(start / "p")
        with memory_in(start / "m", Clock(NIGHT)) as memory:
            fill(memory)

        def fresh(name: str) -> Path:
            return Path(shutil.copytree(start, Path(place) / name))

        whole = in_child(lambda: dream(fresh("whole")))
        counted = fresh("counted")
        calls = in_child(lambda: killed_before(-1, lambda: dream(counted)))
        wrong, survived = [], 0
        for number in range(kills):
            at = number * calls // kills
            root = fresh(f"kill{number}")
            survived += in_child(partial(killed_before, at, partial(dream, root))) is not None
            again = in_child(partial(dream, root, _LEASE))
            if again["left"] != whole["left"] or again["runs"] != whole["runs"]:
                wrong.append([at, again["outcome"], again["runs"]])
            shutil.rmtree(root)
        outcomes = []
        for number in range(races):
            root = fresh(f"race{number}")
            both = together(root)
            last = in_child(partial(dream, root))
            outcomes.append(sorted(one["outcome"] for one in both))
            if last["left"] != whole["left"] or last["runs"] != whole["runs"]:
                wrong.append(["race", outcomes[-1], last["runs"]])
    return {
        "calls": calls,
        "survived": survived,
        "wrong": wrong,
        "outcomes": outcomes,
        "runs": len(whole["runs"]),
        "outcome": whole["outcome"],
    }


if __name__ == "__main__":
    print(json.dumps(trials(int(sys.argv[1]), int(sys.argv[2]))))

"""Results as they come, kept in a file if one is named: a long run that broke off goes on where it was."""

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import track

from benchmarks.peer_replay import Cell


class Task(NamedTuple):
    """One system on one session in one window."""

    system: str
    path: Path
    window: int

    @property
    def key(self) -> str:
        """How a file names it."""
        return f"{self.system} | {self.path.stem} | {self.window}"


def run(
    tasks: Sequence[Task], play: Callable[[Task], Cell], console: Console, jobs: int, keep: Path | None
) -> dict[Task, Cell]:
    """Play every task that the file does not know yet; all results by task."""
    known = _read(keep)
    done = {task: known[task.key] for task in tasks if task.key in known}
    left = [task for task in tasks if task not in done]
    with ProcessPoolExecutor(min(jobs, os.cpu_count() or 1)) as pool:
        waiting = {pool.submit(play, task): task for task in left}
        for job in track(as_completed(waiting), "replaying", len(waiting), console=console):
            task, cell = waiting[job], job.result()
            done[task] = cell
            if keep is not None:
                with keep.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"key": task.key, **asdict(cell)}) + "\n")
    return done


def _read(keep: Path | None) -> dict[str, Cell]:
    if keep is None or not keep.exists():
        return {}
    rows = [json.loads(line) for line in keep.read_text(encoding="utf-8").splitlines() if line.strip()]
    return {row.pop("key"): Cell(**row) for row in rows}

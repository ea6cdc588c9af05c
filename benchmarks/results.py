"""Results as they come, kept in a file if one is named: a long run that broke off goes on where it was."""

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from rich.console import Console
from rich.progress import track


class Task(NamedTuple):
    """One system on one session in one window."""

    system: str
    path: Path
    window: int

    @property
    def key(self) -> str:
        """How a file names it."""
        return f"{self.system} | {self.path.stem} | {self.window}"


class Keyed(Protocol):
    """A task that a file can name; equal tasks have equal names."""

    @property
    def key(self) -> str:
        """How a file names it."""

    def __hash__(self) -> int: ...


Asked = TypeVar("Asked", bound=Keyed)
Made = TypeVar("Made")


def run(
    tasks: Sequence[Asked],
    play: Callable[[Asked], Made],
    console: Console,
    jobs: int,
    keep: Path | None,
    made: Callable[..., Made],
) -> dict[Asked, Made]:
    """Play every task that the file does not know yet; all results by task.

    `made` makes a result of its fields: a dataclass, or a named tuple.
    """
    known = _read(keep, made)
    done = {task: known[task.key] for task in tasks if task.key in known}
    left = [task for task in tasks if task not in done]
    with ProcessPoolExecutor(min(jobs, os.cpu_count() or 1)) as pool:
        waiting = {pool.submit(play, task): task for task in left}
        for job in track(as_completed(waiting), "replaying", len(waiting), console=console):
            task, result = waiting[job], job.result()
            done[task] = result
            if keep is not None:
                fields = _fields(result)
                with keep.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"key": task.key, **fields}) + "\n")
    return done


def _fields(result: Any) -> dict[str, Any]:
    found: dict[str, Any] = result._asdict() if hasattr(result, "_asdict") else asdict(result)
    return found


def _read(keep: Path | None, made: Callable[..., Made]) -> dict[str, Made]:
    if keep is None or not keep.exists():
        return {}
    rows = [json.loads(line) for line in keep.read_text(encoding="utf-8").splitlines() if line.strip()]
    return {row.pop("key"): made(**row) for row in rows}

"""The seven tasks by name, and what one of them would change (G16)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from headwater.memory.dream_change import TASKS, Change, DreamError
from headwater.memory.dream_facts import archive_stale, consolidate, improve
from headwater.memory.dream_project import maintain_docs, pin_key_files
from headwater.memory.dream_user import user_memories
from headwater.memory.dream_verify import verify
from headwater.memory.dream_world import World

_PLANS: Mapping[str, Callable[[World], list[Change]]] = {
    "consolidate": consolidate,
    "verify": verify,
    "archive-stale": archive_stale,
    "improve": improve,
    "maintain-docs": maintain_docs,
    "user_memories": user_memories,
    "pin_key_files": pin_key_files,
}


def plan_of(task: str, world: World, refused: Collection[tuple[str, str, str]]) -> list[Change]:
    """What the task would change, without what a person has once taken back."""
    return [change for change in _PLANS[task](world) if change.matter not in refused]


def check_task(name: str) -> str:
    """The name of a task.

    Raises:
        DreamError: There is no such task.
    """
    if name not in TASKS:
        raise DreamError(f"no task {name!r}: there are {', '.join(TASKS)}")
    return name

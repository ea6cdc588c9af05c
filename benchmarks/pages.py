"""What the pages of the benchmarks have in common: the machine, versions and rows of a table."""

import os
import platform
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from benchmarks.peer_replay import Cell

PACKAGES = ("langgraph", "langchain", "langchain-core", "langchain-openai", "deepagents", "langmem")


def row(*cells: str) -> str:
    """A table's row."""
    return "| " + " | ".join(cells) + " |"


def names_of(cells: Iterable[Cell]) -> list[str]:
    """Names of the sessions, each once, in order."""
    return list(dict.fromkeys(cell.session for cell in cells))


def machine() -> str:
    """Where and when it was measured, in a sentence."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return (
        f"Measured on {datetime.now(UTC):%d %B %Y} on {os.cpu_count()} cores with "
        f"{pages * size / 2**30:.0f} GB, Python {platform.python_version()}."
    )


def versions(names: Sequence[str] = PACKAGES) -> str:
    """The packages with their versions; those that are not installed say so."""
    return ", ".join(f"{name} {_version(name)}" for name in names)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(not installed)"

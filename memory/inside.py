"""A file that somebody else has named, inside a folder or nowhere."""

from __future__ import annotations

from pathlib import Path


def file_inside(folder: Path, name: str) -> Path | None:
    """Where a name leads from a folder, links followed; None where that is outside, or no path at all."""
    root = folder.resolve()
    try:
        found = (root / name).resolve()
    except (OSError, RuntimeError, ValueError):
        return None
    return found if found.is_relative_to(root) else None

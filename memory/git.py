"""Asking a repository's git, which may be anybody's: read only, bounded, and nothing of its own is run.

A repository's configuration can name programs: a pager, a signature check, a filter, a file system monitor.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SECONDS = 3.0
_SAFE = ("-c", "core.fsmonitor=false", "-c", "log.showSignature=false", "-c", "core.pager=cat")


def ask_git(folder: Path | None, *words: str, seconds: float = SECONDS) -> tuple[int, str] | None:
    """The exit code and the output of a git command in a folder; None where there is no answer in time, no
    such folder, or no git.
    """
    if folder is None or not folder.is_dir():
        return None
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", *_SAFE, "--no-pager", *words],
            cwd=folder,
            env={**kept, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8"},
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.returncode, done.stdout.decode("utf-8", "replace")

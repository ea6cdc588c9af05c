"""What the project's git commits say, to be searched and never changed (G28).

Bounded: HEAD only, no merges, the last 365 days, 2,000 commits.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from headwater.memory import lexical
from headwater.memory.git import ask_git

DAYS, MOST = 365, 2_000
_CHARS = 4_000
_FORMAT = "%h%x1f%cs%x1f%B%x1e"


class Commit(NamedTuple):
    """A commit: its short hash, its day (ISO) and its message."""

    hash: str
    day: str
    message: str


class Commits:
    """The commits of the repository around a folder; none where there is no repository, or no git.

    Args:
        folder: A folder of the repository; None for no commits.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._head = ""
        self._commits: list[tuple[Commit, Counter[str]]] = []

    def search(self, query: str, limit: int = 10) -> list[Commit]:
        """At most `limit` commits whose messages hold the query's words, best first, ties newest first."""
        terms = lexical.query_terms(query, stems=True)
        with self._lock:
            self._read()
            commits = self._commits
        if not terms or limit < 1:
            return []
        scores = [0.0] * len(commits)
        for term in terms:
            times = [_times(term, words) for _, words in commits]
            holding = sum(n > 0 for n in times)
            rare = math.log(1 + (len(commits) - holding + 0.5) / (holding + 0.5))
            for at, n in enumerate(times):
                scores[at] += rare * 2.2 * n / (n + 1.2)
        best = sorted((at for at, score in enumerate(scores) if score > 0), key=lambda at: (-scores[at], at))
        return [commits[at][0] for at in best[:limit]]

    def _read(self) -> None:
        head = self._said("rev-parse", "--verify", "-q", "HEAD").strip()
        if head == self._head:
            return
        wanted = ("log", "HEAD", "--no-merges", f"--since={DAYS}.days", f"-n{MOST}", f"--format={_FORMAT}")
        out = self._said(*wanted, "--no-color", "--no-show-signature") if head else ""
        self._commits = []
        for record in out.split("\x1e"):
            short, _, rest = record.strip("\n").partition("\x1f")
            day, _, message = rest.partition("\x1f")
            if short:
                commit = Commit(short, day, message.strip()[:_CHARS])
                words = [short, *lexical.tokens(commit.message)]
                self._commits.append((commit, Counter(map(lexical.stem, words))))
        self._head = head

    def _said(self, *words: str) -> str:
        code, said = ask_git(self._folder, *words) or (1, "")
        return "" if code else said


def _times(term: lexical.Term, words: Counter[str]) -> int:
    if term.prefix:
        return sum(n for word, n in words.items() if word.startswith(term.text))
    return words[term.text]

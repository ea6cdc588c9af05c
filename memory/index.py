"""What an index over memory must do, and how two of them are put together.

An index is a copy that can be thrown away: the truth is in the store, and whatever an index answers is
looked up there before it is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from headwater.memory.lexical import tokens


class Entry(NamedTuple):
    """One row to be found again."""

    id: str
    text: str


class Hit(NamedTuple):
    """One answer of an index. A score is a share: 1 is all that was asked for, 0 or less is nothing of it."""

    id: str
    score: float


class IndexBroken(RuntimeError):
    """The index cannot be used as it is: missing, damaged, closed, or made for other embeddings. Rebuild
    it.
    """


class Index(Protocol):
    """An index over several spaces. A space is (tenant, project, kind): no call is without one.

    Every method raises `IndexBroken`, and nothing else, when the index cannot do its work.
    """

    weight: float
    """How much its scores count beside those of others, when they are put together."""

    def stamp(self, space: tuple[str, ...]) -> str | None:
        """What the space was marked with when it was last built whole; None when it was not."""

    def reset(self, space: tuple[str, ...]) -> None:
        """Empty the space and take its stamp away, whatever state it is in."""

    def seal(self, space: tuple[str, ...], stamp: str) -> None:
        """Mark the space as built whole."""

    def signature(self) -> str:
        """What rows depend on besides their text: format, embedding model and its dimension."""

    def size(self, space: tuple[str, ...]) -> int:
        """Number of rows, by the count of `pieces`."""

    def pieces(self, text: str) -> int:
        """Number of rows that one entry with this text takes."""

    def upsert(self, space: tuple[str, ...], entries: Sequence[Entry]) -> None:
        """Add entries, or replace those with the same id."""

    def delete(self, space: tuple[str, ...], ids: Sequence[str]) -> None:
        """Remove entries; unknown ids are ignored."""

    def search(self, space: tuple[str, ...], query: str, k: int) -> list[Hit]:
        """At most `k` entries, best first."""

    def close(self) -> None:
        """Let go of files and connections; the next use opens them again."""


CANDIDATES = 100
"""Hits to ask each index for, at the least, when their answers are put together."""


def fuse(rankings: Sequence[tuple[float, Sequence[Hit]]], asked: int = CANDIDATES) -> list[Hit]:
    """Weighted rankings joined by their scores as they are; best first, at most 1.0.

    Joining by rank, or scaling each ranking to its own best, lets an index that found nothing good outvote a
    sure one. A ranking that has as many hits as were `asked` for goes on unseen: what it does not show counts
    as its last.

    >>> fuse([(3.0, [Hit("a", 0.5), Hit("b", 0.25)]), (1.0, [Hit("b", 0.5)])])
    [Hit(id='a', score=0.375), Hit(id='b', score=0.3125)]
    """
    used = [(weight, ranking) for weight, ranking in rankings if ranking]
    total = sum(weight for weight, _ in used)
    keys = dict.fromkeys(hit.id for _, ranking in used for hit in ranking)
    scores = dict.fromkeys(keys, 0.0)
    for weight, ranking in used:
        unseen = ranking[-1].score if len(ranking) >= asked else 0.0
        own = {hit.id: hit.score for hit in ranking}
        for key in keys:
            scores[key] += weight / total * max(0.0, own.get(key, unseen))
    return [Hit(key, score) for key, score in sorted(scores.items(), key=lambda item: (-item[1], item[0]))]


def by_identifiers(entries: Sequence[Entry], query: str) -> list[Hit]:
    """The entries that hold the query's identifiers (words with a digit or a separator in them), most of
    them first.
    """
    wanted = {t for t in tokens(query) if t.isascii() and len(t) > 1 and not t.isalpha()}
    counted = ((len(wanted.intersection(tokens(e.text))), e.id) for e in entries) if wanted else ()
    return [
        Hit(key, n / len(wanted)) for n, key in sorted(counted, key=lambda pair: (-pair[0], pair[1])) if n
    ]

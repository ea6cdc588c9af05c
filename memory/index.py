"""What an index over memory must do, and how two of them are put together.

An index is a copy that can be thrown away: the truth is in the store, and whatever an index answers is
looked up there before it is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Entry(NamedTuple):
    """One row to be found again."""

    id: str
    text: str


class Hit(NamedTuple):
    """One answer of an index; scores of different indexes cannot be compared."""

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


def fuse(rankings: Sequence[tuple[float, Sequence[Hit]]]) -> list[Hit]:
    """Weighted rankings joined by score, each scaled from its last hit to its first; at most 1.0.

    Joining by rank alone lets a weak index outvote a sure one: the scores say how far the first stands out.

    >>> fuse([(0.6, [Hit("a", 9.0), Hit("b", 8.0)]), (0.4, [Hit("a", 0.7)])])[0]
    Hit(id='a', score=1.0)
    """
    total = sum(weight for weight, ranking in rankings if ranking) or 1.0
    scores: dict[str, float] = {}
    for weight, ranking in rankings:
        for key, scaled in _scaled(ranking):
            scores[key] = scores.get(key, 0.0) + weight / total * scaled
    return [Hit(key, score) for key, score in sorted(scores.items(), key=lambda item: (-item[1], item[0]))]


def _scaled(ranking: Sequence[Hit]) -> list[tuple[str, float]]:
    if not ranking:
        return []
    high, low = ranking[0].score, min(hit.score for hit in ranking)
    # The last of them was found too: it counts a little.
    span = (high - low) or 1.0
    return [(hit.id, 0.01 + 0.99 * ((hit.score - low) / span if high > low else 1.0)) for hit in ranking]

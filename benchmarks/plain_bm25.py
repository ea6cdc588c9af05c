"""BM25 as a textbook has it, to compare with: no stems, no stop words, no identifiers, no ideograph pairs."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from headwater.memory.index import Entry, Hit

_K1, _B = 1.5, 0.75
_WORDS = re.compile(r"[\u4e00-\u9fff]|(?:(?![\u4e00-\u9fff])\w)+")


class PlainBM25:
    """An index in memory over some entries."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._ids = [entry.id for entry in entries]
        counted = [Counter(_WORDS.findall(entry.text.lower())) for entry in entries]
        self._lengths = [sum(counts.values()) for counts in counted]
        self._usual = sum(self._lengths) / len(self._lengths)
        self._places: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for number, counts in enumerate(counted):
            for word, times in counts.items():
                self._places[word].append((number, times))

    def search(self, query: str, k: int) -> list[Hit]:
        """At most `k` entries, best first."""
        scores: dict[int, float] = defaultdict(float)
        for word, asked in Counter(_WORDS.findall(query.lower())).items():
            places = self._places.get(word, [])
            rare = math.log(1 + (len(self._ids) - len(places) + 0.5) / (len(places) + 0.5))
            for number, times in places:
                dampened = _K1 * (1 - _B + _B * self._lengths[number] / self._usual)
                scores[number] += asked * rare * times * (_K1 + 1) / (times + dampened)
        best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:k]
        return [Hit(self._ids[number], score) for number, score in best]

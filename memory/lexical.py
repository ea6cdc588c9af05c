"""Words for matching without a model: identifiers whole and in parts, Chinese and its kin by bigram."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

TOKENIZER = "unicode61 remove_diacritics 0 tokenchars '_./:@#-'"
"""The FTS5 tokenizer that leaves the tokens made here as they are."""

_COMMON = re.compile(
    r"a|an|and|are|as|at|be|by|did|do|does|for|from|had|has|have|how|i|in|is|it|its|of|on|or|that|the|their|they|"
    r"this|to|was|we|were|what|when|where|which|who|why|will|with|you|your"
)

_ASKING = re.compile(
    r"\b(?:what|when|where|which|who|whom|whose|why|how|did|does|do|is|are|was|were|has|have|had|many|much|"
    r"long|kind|types?|of|the|a|an|would|could|should|can|be|likely)\b|\?",
    re.IGNORECASE,
)

_ENDINGS = (
    ("ies", "y"), ("ied", "y"), ("ing", ""), ("edly", ""), ("ed", ""), ("es", ""), ("s", ""), ("ly", ""),
)  # fmt: skip

SNIPPET_CHARS = 220
_LONGEST = 64
_CJK = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_RUNS = re.compile(rf"[{_CJK}]+|(?:(?![{_CJK}])\w)+(?:[./:@#\-]+(?:(?![{_CJK}])\w)+)*")
_ASCII_RUNS = re.compile(r"\w+(?:[./:@#\-]+\w+)*")
_WORDS = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def tokens(text: str) -> list[str]:
    """The tokens of a text, in order, repeats included.

    >>> tokens("set DB.maxRetries to 3")
    ['set', 'db.maxretries', 'db', 'maxretries', 'max', 'retries', 'to', '3']
    >>> tokens("数据库端口")
    ['数据', '据库', '库端', '端口', '口']
    """
    found: list[str] = []
    plain = unicodedata.normalize("NFKC", text)
    pattern = _ASCII_RUNS if plain.isascii() else _RUNS
    for run in pattern.findall(plain):
        if ord(run[0]) >= 0x0E00 and re.match(f"[{_CJK}]", run):
            found.extend(run[i : i + 2] for i in range(len(run)))
        else:
            found.extend(_identifier(run))
    return found


def stem(word: str) -> str:
    """An English word without its commonest endings; identifiers and other scripts as they are.

    >>> [stem(word) for word in ("hiking", "hikes", "hiked", "cities", "running", "max_retries")]
    ['hik', 'hik', 'hik', 'city', 'run', 'max_retries']
    """
    if len(word) < 4 or not (word.isascii() and word.isalpha()):
        return word
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)] + instead
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiosl":
        return word[:-1]
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def gist(query: str) -> str:
    """A question without the words that only ask: its vector lies nearer to the statement it is after.

    Only English words are taken: Chinese questions were found no better without theirs.

    >>> gist("When did Melanie paint a sunrise?"), gist("什么时候上线？"), gist("what is")
    ('Melanie paint sunrise', '什么时候上线？', 'what is')
    """
    return " ".join(_ASKING.sub(" ", query).split()) or query


class Term(NamedTuple):
    """One word that a query looks for; `prefix`: whatever begins with it will do."""

    text: str
    prefix: bool = False


def query_terms(query: str, most: int = 64, *, stems: bool = False) -> list[Term]:
    """What to look for, in the query's order, each once.

    A lone ideograph matches as a prefix, since texts are indexed by pairs. Words as common as "the" count
    only where there are no others: in a small collection they are rare enough to lead. `stems` is for an
    index of stems.
    """
    given = dict.fromkeys(tokens(query))
    terms = [term for term in given if not _COMMON.fullmatch(term)] or [*given]
    if stems:
        terms = [*dict.fromkeys(map(stem, terms))]
    run_ends = {term for term in terms if len(term) == 1 and ord(term) >= 0x0E00}
    # The last ideograph of a longer run is already in the pair before it.
    alone = run_ends - {term[-1] for term in terms if len(term) == 2}
    return [Term(t, t in alone) for t in terms if t not in run_ends or t in alone][:most]


def match_query(query: str | Sequence[Term], most: int = 64) -> str:
    """An FTS5 query that any of the terms satisfies; "" when there is nothing to match."""
    terms = query_terms(query, most) if isinstance(query, str) else query
    return " OR ".join(f'"{term.text}"*' if term.prefix else f'"{term.text}"' for term in terms)


def snippet(text: str, query: str, most: int = SNIPPET_CHARS) -> str:
    """At most `most` characters of the text around the best match, on one line."""
    room = most - 2
    start = max(0, _position(text, query) - room // 4)
    if len(text) <= room:
        start = 0
    cut = " ".join(text[start : start + room].split())
    shown = ("…" if start else "") + cut + ("…" if start + room < len(text) else "")
    return shown.encode("utf-8", "replace").decode("utf-8")


def _position(text: str, query: str) -> int:
    # Length-preserving lower case, so that a position in one is a position in the other.
    lower = text.lower() if len(text.lower()) == len(text) else text
    probes: Sequence[str] = [query.strip().lower(), *sorted(set(tokens(query)), key=lambda t: (-len(t), t))]
    for probe in probes:
        if probe and (at := lower.find(probe)) >= 0:
            return at
    return 0


def _identifier(run: str) -> Iterator[str]:
    words = _WORDS.findall(run)
    if len(words) > 1 and len(run) <= _LONGEST:
        yield run.casefold()
    for word in words:
        yield word.casefold()[:_LONGEST]
        if word.isascii() and not word.islower() and not word.isupper():
            parts = _CAMEL.findall(word)
            if len(parts) > 1:
                yield from (part.lower()[:_LONGEST] for part in parts)

"""Whether two texts say the same, as far as that can be told without a model; in doubt they do not."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

from headwater.memory.lexical import stem, tokens
from headwater.window.cues import identifiers

PROTECTED = re.compile(
    r"\b(?:must|never|always|cannot|can't|mustn't|shall|required?|forbidden|because|since|due to|lesson|"
    r"learned|root cause|after (?:the|an?) (?:failure|outage|incident|crash))\b"
    r"|必须|禁止|不得|不能|不要|切勿|务必|永远|始终|总是|一律|因为|由于|原因|教训|事故|踩坑",
    re.IGNORECASE,
)
"""Rules, reasons and lessons: the most that a machine may do with them is to point at them."""

# Words whose place says nothing; "from", "to" and "not" are not among them.
_FILLERS = frozenset({"a", "an", "the", "is", "are", "was", "were", "be", "please", "that", "also"})
_CJK_FILLERS = re.compile(r"[的了请]")
# Signs that make another thing of a word: C and C++, 5 and -5, env and .env, x and !x.
_SIGNS = re.compile(r"[<>≤≥±%$€¥+#~*^&|/\\]|!(?=[=\w])|(?<!\w)[-.](?=\w)")
_OPENERS = re.compile(
    r"^(?:(?:please\s+)?(?:note|remember)(?:\s+that|:)\s+|fyi[:,]\s*|for the record[:,]\s*"
    r"|it is worth noting that\s+|(?:请)?(?:注意|记住)[：:，,]\s*|备忘[：:]\s*|值得注意的是[，,]?\s*)",
    re.IGNORECASE,
)
_NEGATION = re.compile(
    r"\b(?:not|never|no|none|without|cannot|nor|except|avoid|unless)\b|n't\b|\b(?:dis|un)(?:able|used|set)\w*"
    r"|[不没无别勿非未]|禁|除了|避免|停用",
    re.IGNORECASE,
)
_HAN = re.compile(r"[\u3400-\u9fff]+")
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_RUN = re.compile(r"[^\W_]+(?:[./:@#_\-]+[^\W_]+)*")


def bare(text: str) -> str:
    """A text without the words that open a note."""
    return _OPENERS.sub("", text.strip()).strip()


def sense(text: str) -> tuple[str, ...]:
    """The words of a text in order, without letter case, width, punctuation and fillers.

    >>> sense("The port is 5432.") == sense("port: 5432")
    True
    >>> sense("use tabs, not spaces") == sense("use spaces, not tabs")
    False
    """
    plain = _CJK_FILLERS.sub("", unicodedata.normalize("NFKC", bare(text)).casefold())
    words = [run for run in _RUN.findall(_HAN.sub(r" \g<0> ", plain)) if run not in _FILLERS]
    return (*words, "|", *_SIGNS.findall(plain)) if words else ()


def compatible(one: str, other: str) -> bool:
    """Whether two texts name the same numbers and identifiers and negate alike: what differs in one of them
    is never the same, whoever says so.
    """
    return _marks(one) == _marks(other) and bool(_NEGATION.search(one)) == bool(_NEGATION.search(other))


def likeness(one: str, other: str) -> float:
    """Shared words over all words, 0 to 1; Chinese by pairs."""
    a, b = _words(one), _words(other)
    return len(a & b) / len(a | b) if a or b else 0.0


def keeps(before: str, after: str) -> bool:
    """Whether a shorter text still holds every number and name of a longer one, and negates as often."""
    lost = Counter(_NUMBER.findall(before)) - Counter(_NUMBER.findall(after))
    names = all(name in after for name in identifiers(before))
    return not lost and names and len(_NEGATION.findall(before)) == len(_NEGATION.findall(after))


def _marks(text: str) -> tuple[Counter[str], frozenset[str]]:
    plain = unicodedata.normalize("NFKC", text)
    names = frozenset(name.strip("`'\"“”「」").casefold() for name in identifiers(plain))
    return Counter(_NUMBER.findall(plain)), names


def _words(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in tokens(bare(text)) if word not in _FILLERS)

"""What two texts that are not the same by `purport` have in common, and what one of them must not lose."""

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

_FILLERS = frozenset({"a", "an", "the", "is", "are", "was", "were", "be", "please", "that", "also"})
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
_NUMBER = re.compile(r"\d+(?:\.\d+)*")


def bare(text: str) -> str:
    """A text without the words that open a note."""
    return _OPENERS.sub("", text.strip()).strip()


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

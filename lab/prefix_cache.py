"""A provider's prefix cache: which leading part of a request was seen lately, and what that saves."""

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

# One encoder for all: json.dumps would build one anew for every piece.
_ENCODE = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode


class Piece(NamedTuple):
    """One part of a request in its serialised order: a tool, a system block, a message or a block of one.

    `digest` names its exact content; `tokens` is its size.
    """

    digest: bytes
    tokens: int


class Hit(NamedTuple):
    """Tokens of one request: all of it, the part read from the cache, the part newly written to it."""

    input: int
    cached: int
    written: int


def canonical(part: Any) -> bytes:
    """The bytes by which two parts are the same: key order and cache markers do not count."""
    return _ENCODE(unmarked(part)).encode("utf-8", "surrogatepass")


def unmarked(part: Any) -> Any:
    """`part` without `cache_control`, which is no part of the prefix, nor one level down in `content`."""
    if not isinstance(part, dict):
        return part
    inner = part.get("content")
    if isinstance(inner, list) and any(isinstance(b, dict) and "cache_control" in b for b in inner):
        part = {**part, "content": [unmarked(block) for block in inner]}
    if "cache_control" in part:
        part = {key: value for key, value in part.items() if key != "cache_control"}
    return part


class PieceMeter:
    """Sizes parts, each distinct one counted once in the meter's life.

    A history that is sent again for every step costs a hash of its bytes, not a tokenisation.
    """

    def __init__(self) -> None:
        self._tokens: dict[bytes, int] = {}

    def piece(self, kind: str, part: Any, count: Callable[[str, Any], int]) -> Piece:
        """`part` as a piece; `count(kind, part)` is asked only for content not seen before."""
        digest = hashlib.blake2b(kind.encode() + b"\0" + canonical(part), digest_size=16).digest()
        tokens = self._tokens.get(digest)
        if tokens is None:
            tokens = self._tokens[digest] = count(kind, part)
        return Piece(digest, tokens)


class PrefixCache:
    """Live prefixes per model: a hash chain over pieces, each link with its expiry, refreshed on use.

    Args:
        ttl: Seconds a prefix lives after its last use.
        clock: Seconds, monotonic.
        block: Granularity in tokens; what is read or written is rounded down to it. 1 is exact.

    Raises:
        ValueError: `block` below 1 or a negative `ttl`.

    Example:
        >>> cache = PrefixCache(ttl=300, clock=lambda: 0.0)
        >>> cache.visit("m", [Piece(b"a", 10), Piece(b"b", 5)])
        Hit(input=15, cached=0, written=15)
        >>> cache.visit("m", [Piece(b"a", 10), Piece(b"b", 5), Piece(b"c", 2)])
        Hit(input=17, cached=15, written=2)
    """

    def __init__(self, *, ttl: float, clock: Callable[[], float], block: int = 1) -> None:
        if block < 1 or ttl < 0:
            raise ValueError(f"need block >= 1 token and ttl >= 0 seconds, got {block!r} and {ttl!r}")
        self._ttl = ttl
        self._clock = clock
        self._block = block
        self._expiry: dict[bytes, float] = {}
        self._sweep_at = 0.0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Links held, live or not yet swept."""
        return len(self._expiry)

    def now(self) -> float:
        """The clock's seconds."""
        return self._clock()

    def visit(self, model: str, pieces: Sequence[Piece], at: float | None = None) -> Hit:
        """Account one accepted request: read the longest live prefix, write the rest, refresh all of it.

        `at` is when it came in, in seconds of the clock; None is now.
        """
        links = _chain(model, pieces)
        with self._lock:
            now = self._clock() if at is None else at
            self._sweep(now)
            warm = 0
            # A link refreshes every link before it, so the first dead one ends the live prefix.
            while warm < len(links) and self._expiry.get(links[warm], float("-inf")) > now:
                warm += 1
            self._expiry.update(dict.fromkeys(links, now + self._ttl))
        total = sum(piece.tokens for piece in pieces)
        cached = self._floor(sum(piece.tokens for piece in pieces[:warm]))
        return Hit(total, cached, self._floor(total) - cached)

    def _floor(self, tokens: int) -> int:
        return tokens - tokens % self._block

    def _sweep(self, now: float) -> None:
        """Forget the dead once a lifetime, so that memory follows what is live and not what ever was."""
        if now < self._sweep_at:
            return
        self._expiry = {link: expiry for link, expiry in self._expiry.items() if expiry > now}
        self._sweep_at = now + self._ttl


def _chain(model: str, pieces: Sequence[Piece]) -> list[bytes]:
    links: list[bytes] = []
    last = model.encode("utf-8", "surrogatepass")
    for piece in pieces:
        last = hashlib.blake2b(last + piece.digest, digest_size=16).digest()
        links.append(last)
    return links

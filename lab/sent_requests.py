"""What each request held and what it cost, part by part: the figures that a report adds up.

A request's tokens fall into five kinds that add up to the whole: read from the cache, new, sent again because
the cache had gone cold, sent again because an edit before them moved them, and what the cache's block size
leaves out.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headwater.lab.prefix_cache import Piece
from headwater.lab.trace import BLOCKS, block_of_text
from headwater.window.prices import Prices

_NOT_SAID = frozenset({"type", "role", "id", "tool_call_id", "tool_use_id", "cache_control", "signature"})


class Part(NamedTuple):
    """One part of a request: which block of the window it belongs to, its text, and its tokens."""

    block: str
    text: str
    tokens: int


class Sent(NamedTuple):
    """One accepted request: its parts by digest, in order, and what the cache made of them.

    Attributes:
        at: When, in seconds of the cache's clock.
        cached, written, total: Tokens.
    """

    parts: tuple[bytes, ...]
    at: float
    cached: int
    written: int
    total: int


class Spent(NamedTuple):
    """A request's tokens by what became of them; the fields add up to its input."""

    cached: int
    new: int
    cold: int
    edit: int
    rest: int

    @property
    def written(self) -> int:
        """Tokens written to the cache."""
        return self.new + self.cold + self.edit

    def cost(self, prices: Prices) -> float:
        """In uncached input tokens; what the cache's block size leaves out is plain input."""
        return prices.read * self.cached + prices.write * self.written + self.rest


@dataclass
class SentRequests:
    """Every accepted request of a run, each distinct part's text once."""

    parts: dict[bytes, Part] = field(default_factory=dict)
    requests: list[Sent] = field(default_factory=list)

    def note(
        self,
        pieces: Sequence[Piece],
        parts: Sequence[tuple[str, Any]],
        at: float,
        cached: int,
        written: int,
    ) -> None:
        """Take in one accepted request."""
        for piece, (kind, part) in zip(pieces, parts, strict=True):
            if piece.digest not in self.parts:
                text = text_of_part(part)
                self.parts[piece.digest] = Part(block_of(kind, part, text), text, piece.tokens)
        total = sum(piece.tokens for piece in pieces)
        self.requests.append(Sent(tuple(p.digest for p in pieces), at, cached, written, total))

    def blocks(self, number: int) -> dict[str, int]:
        """Tokens of one request by block, bottom first."""
        tokens = dict.fromkeys(BLOCKS, 0)
        for digest in self.requests[number].parts:
            part = self.parts[digest]
            tokens[part.block] += part.tokens
        return tokens

    def text(self, number: int) -> str:
        """All that one request said, to be searched."""
        return "\n".join(self.parts[digest].text for digest in self.requests[number].parts)

    def spent(self) -> Iterator[Spent]:
        """The tokens of each request by what became of them."""
        seen: set[bytes] = set()
        before: tuple[bytes, ...] = ()
        for sent in self.requests:
            yield _spent(sent, before, seen, self.parts)
            seen.update(sent.parts)
            before = sent.parts


def _spent(sent: Sent, before: tuple[bytes, ...], seen: set[bytes], parts: Mapping[bytes, Part]) -> Spent:
    """Split one request's written tokens by reason.

    What both requests begin with and was not read had gone cold. Behind it, all up to the last part that was
    ever sent before is sent again because of an edit, the edit's own text included; what follows is new.
    """
    same = common(before, sent.parts)
    old = max((i + 1 for i, digest in enumerate(sent.parts) if digest in seen), default=0)
    sizes = [parts[digest].tokens for digest in sent.parts]
    kept, moved = sum(sizes[:same]), sum(sizes[: max(same, old)])
    cold = max(0, min(kept - sent.cached, sent.written))
    edit = max(0, min(moved - max(kept, sent.cached), sent.written - cold))
    new = sent.written - cold - edit
    return Spent(sent.cached, new, cold, edit, sent.total - sent.cached - sent.written)


def common(left: Sequence[Any], right: Sequence[Any]) -> int:
    """How many items two sequences begin with in common."""
    length = min(len(left), len(right))
    return next((i for i in range(length) if left[i] != right[i]), length)


def block_of(kind: str, part: Any, text: str) -> str:
    """Which block of the window a part of a request belongs to."""
    role = part.get("role") if isinstance(part, dict) else None
    if kind == "tool":
        return "tools"
    if kind == "system" or role in ("system", "developer"):
        return "contract"
    is_result = role == "tool" or (isinstance(part, dict) and part.get("type") == "tool_result")
    return block_of_text(text, is_result=is_result)


def text_of_part(part: Any) -> str:
    """What a part says: its texts and arguments as they stand, without the wire's own words."""
    return "\n".join(_said(part))


def _said(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _said(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key == "arguments" and isinstance(item, str):
                yield from _arguments(item)
            elif key not in _NOT_SAID:
                yield from _said(item)


def _arguments(raw: str) -> Iterator[str]:
    """Arguments with their strings as the model meant them, not escaped."""
    try:
        yield from _said(json.loads(raw))
    except ValueError:
        yield raw

"""How a window went, step by step, read from the events a session sends."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from headwater.lab.script import Reply, Request, Script
from headwater.window.context import OPEN
from headwater.window.policy import Level, Lines
from headwater.window.stubs import is_only_stub
from headwater.window.tokens import count_text

BLOCKS = ("tools", "contract", "history", "tail", "stubs", "observations")
SENT = "sent"
REMEDIES = ("offload", "summarize", "reclaim", "halt")
_MARK = re.compile(r"^§\d+§ ")


class TraceError(ValueError):
    """Events that do not tell how a window went; the message says what is missing."""


class Sample(NamedTuple):
    """One step.

    Attributes:
        step: Its number, from 1.
        level: The highest level the estimate reached before the request went out.
        peak: Tokens before anything left; what would have been sent.
        blocks: Tokens sent, by block, bottom first.
        moves: The remedies carried out before it was sent, in order.
    """

    step: int
    level: Level
    peak: int
    blocks: Mapping[str, int]
    moves: tuple[str, ...] = ()

    @property
    def sent(self) -> int:
        """Tokens sent; 0 where the step was halted."""
        return sum(self.blocks.values())


class HasTrace(Protocol):
    """Anything that can be drawn: a `Trace`, or a report that carries the same two values."""

    @property
    def samples(self) -> Sequence[Sample]:
        """One for each step, in order."""

    @property
    def lines(self) -> Lines:
        """The lines of the window."""


class Trace(NamedTuple):
    """How a window went, step by step, and the lines it was kept under (tokens)."""

    samples: Sequence[Sample]
    lines: Lines


def trace(
    events: Iterable[Mapping[str, Any]],
    blocks: Sequence[Mapping[str, int]] = (),
    *,
    session: str | None = None,
) -> Trace:
    """Read the story of one window from the graph's custom stream events.

    Args:
        events: `headwater.watermark`, `.request`, `.offload`, … as streamed; others are passed over.
        blocks: For each request the tokens of its blocks, as `noting` collects them. They are scaled to
            what the provider reports. Without them a request is one block.
        session: Which session; by default the first that is met (sub-agents have sessions of their own).

    Raises:
        TraceError: There is no watermark event, or `blocks` are fewer than the requests.
    """
    samples: list[Sample] = []
    lines: Lines | None = None
    asked = peak = 0
    level = Level.NORMAL
    moves: list[str] = []
    for event in events:
        kind = str(event.get("type", "")).removeprefix("headwater.")
        session = session or event.get("session")
        if event.get("session") != session:
            continue
        if kind == "watermark":
            lines = Lines(**event["lines"])
            peak, level = max(peak, event["estimate"]), max(level, Level[event["level"]])
        elif remedy := remedy_of(event):
            moves.append(remedy)
        if kind in ("request", "halt"):
            sent: Mapping[str, int] = {}
            if kind == "request":
                sent = _sent(event, blocks, asked)
                asked += 1
            samples.append(Sample(len(samples) + 1, level, max(peak, sum(sent.values())), sent, tuple(moves)))
            peak, level, moves = 0, Level.NORMAL, []
    if lines is None:
        raise TraceError("no headwater.watermark event; stream the graph with stream_mode='custom'")
    return Trace(samples, lines)


def noting(script: Script, into: list[dict[str, int]]) -> Callable[[Request], Reply]:
    """The same script, which also notes the blocks of every request it answers."""

    def noted(request: Request) -> Reply:
        reply = script(request)
        into.append(blocks_of(request))
        return reply

    return noted


def blocks_of(request: Request) -> dict[str, int]:
    """Tokens of a request by block, as it came over the wire; only stubs are told apart from results."""
    tokens = dict.fromkeys(BLOCKS, 0)
    tokens["tools"] = count_text(json.dumps(request.raw.get("tools") or [], ensure_ascii=False))
    tokens["contract"] = count_text(request.system)
    for row in request.messages:
        tokens[block_of_text(row["text"], is_result=row["role"] == "tool")] += count_text(row["text"])
        if row["tool_calls"]:
            tokens["tail"] += count_text(json.dumps(row["tool_calls"], ensure_ascii=False))
    return tokens


def block_of_text(text: str, *, is_result: bool) -> str:
    """Which block of the window a message's text belongs to, as it came over the wire."""
    if is_result:
        return "stubs" if is_only_stub(_MARK.sub("", text)) else "observations"
    return "history" if text.startswith(OPEN) else "tail"


def remedy_of(event: Mapping[str, Any]) -> str | None:
    """The remedy that an event tells of, if it moved anything."""
    name = str(event.get("type", "")).removeprefix("headwater.")
    return name if name in REMEDIES and (name != "offload" or event.get("tags")) else None


def _sent(event: Mapping[str, Any], blocks: Sequence[Mapping[str, int]], number: int) -> dict[str, int]:
    """What one request held, scaled so that the blocks add up to what the provider counted."""
    total = (event.get("usage") or {}).get("input_tokens") or event["tokens"]
    if not blocks:
        return {SENT: total}
    if number >= len(blocks):
        raise TraceError(
            f"blocks are known for {len(blocks)!r} requests, but there are more; note all or none"
        )
    counted = sum(blocks[number].values()) or 1
    return {name: round(tokens * total / counted) for name, tokens in blocks[number].items()}

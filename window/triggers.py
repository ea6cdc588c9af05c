"""When a background summary is due (G15, as read in the requirements). Pure."""

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from headwater.window.face import text_of
from headwater.window.policy import Lines

MIN_BUDGET, MAX_BUDGET = 5_000, 50_000
POINTS = 0.02
MIN_TOKENS, MIN_MESSAGES = 6_000, 12
CLUSTERS = 3
# Below this a user's message ("ok", "go on") does not end a piece of work.
MEANINGFUL_CHARS = 20

Trigger = Literal["", "pressure", "commits", "size", "line"]
Sign = Literal["", "commit", "turn"]

_HASH = re.compile(r"(?<![\w-])(?=[0-9a-f]*\d)[0-9a-f]{7,12}(?![\w-])")
_VERB = re.compile(r"\b(?:commit|merg|rebas|cherry-?pick)|提交|合并|变基|拣选", re.I)


class Tail(NamedTuple):
    """What nobody has told yet, before the protected zone: tokens as rendered, messages, commit clusters."""

    tokens: int
    messages: int
    clusters: int = 0


def trigger_budget(window: int, threshold: float) -> int:
    """Tokens of tail that make a summary worth while: 5% of what may be used, 5K to 50K."""
    return max(MIN_BUDGET, min(MAX_BUDGET, int(window * threshold * 0.05)))


def due(tail: Tail, *, lines: Lines, threshold: float, estimate: int, projected: int) -> Trigger:
    """Why a summary is due now; "" when none is.

    Args:
        tail: What there is to tell.
        lines: Of the window; `lines.offload` is the line that the pressure is measured against.
        threshold: The policy's `offload`, a fraction.
        estimate: Tokens of the next request.
        projected: The same, once every edit that waits has been applied.
    """
    if tail.messages < 1:
        return ""
    if estimate >= lines.compact:
        return "line"
    meant = tail.tokens >= MIN_TOKENS or tail.messages >= MIN_MESSAGES
    if meant and estimate >= lines.offload - POINTS * lines.usable and projected > 0.75 * lines.offload:
        return "pressure"
    budget = trigger_budget(lines.window, threshold)
    if tail.tokens >= 3 * budget:
        return "size"
    if tail.clusters >= CLUSTERS and tail.tokens >= budget:
        return "commits"
    return ""


def sign_of(message: BaseMessage) -> Sign:
    """Whether a message names a commit that was made, or is a user's turn that begins other work."""
    if isinstance(message, AIMessage):
        text = text_of(message)
        return "commit" if _HASH.search(text) and _VERB.search(text) else ""
    if isinstance(message, HumanMessage):
        # A Chinese sentence says in eight characters what takes twenty in English.
        weight = sum(1 if ord(c) < 0x2E80 else 3 for c in text_of(message)[:MEANINGFUL_CHARS].strip())
        return "turn" if weight >= MEANINGFUL_CHARS else ""
    return ""


def clusters(signs: Iterable[Sign]) -> int:
    """Commit clusters: commits with no meaningful user turn between them are one."""
    count = 0
    inside = False
    for sign in signs:
        if sign == "commit" and not inside:
            count, inside = count + 1, True
        elif sign == "turn":
            inside = False
    return count

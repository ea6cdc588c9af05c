"""The task note: what must stay in sight, written down when it arises (E14-E16, C2, C21).

The goal is the session's first user message. Constraints, exclusions, decisions and preferences are
sentences in which a user states one, or notes the agent takes with `ctx_note`. A pin is never edited or
summarised; while its message stands in the tail it is in sight there, afterwards in m[0] or m[1].
"""

from collections.abc import Iterable, Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from headwater.window.cues import pins_in
from headwater.window.face import text_of
from headwater.window.frame import Pin
from headwater.window.prose import clip
from headwater.window.tokens import count_text

KINDS = ("goal", "constraint", "exclusion", "decision", "preference", "note")
GOAL_TOKENS = 2_000
MAX_NOTE_CHARS = 2_000


def pins_of(message: BaseMessage, tag: int, *, first: bool) -> list[Pin]:
    """The pins that a message gives rise to.

    Args:
        message: A numbered message.
        tag: Its tag.
        first: Whether it is the session's first user message, the goal.
    """
    if isinstance(message, HumanMessage):
        text = text_of(message)
        goal = shortened(text, tag) if first and text.strip() else ""
        # What the goal shows verbatim needs no line of its own; what was cut from it does.
        said = [Pin(kind, sentence, tag) for kind, sentence in pins_in(text) if sentence not in goal]
        return [Pin("goal", goal, tag), *said] if goal else said
    if isinstance(message, AIMessage):
        return [
            Pin(_kind(call["args"]), str(call["args"].get("text", ""))[:MAX_NOTE_CHARS], tag, "agent")
            for call in message.tool_calls
            if call["name"] == "ctx_note" and str(call["args"].get("text", "")).strip()
        ]
    return []


def add_pins(pins: Sequence[Pin], new: Iterable[Pin], limit: int) -> tuple[Pin, ...]:
    """The note with new pins added: repeats left out, and no more than `limit` tokens in all.

    What the user said first stays; a pin that no longer fits is not pinned (its message and the archive
    still hold it), so a flood of statements cannot push the older ones out.
    """
    kept = list(pins)
    known = {_normal(pin.text) for pin in kept}
    used = sum(count_text(pin.text) for pin in kept)
    for pin in new:
        key = _normal(pin.text)
        weight = count_text(pin.text)
        own_goal = pin.kind == "goal" and pin.source == "user"
        if key in known or (not own_goal and used + weight > limit):
            continue
        known.add(key)
        used += weight
        kept.append(pin)
    return tuple(kept)


def shortened(text: str, tag: int, limit: int = GOAL_TOKENS) -> str:
    """A request verbatim; a pasted document is cut at a line's end, with the way to the rest.

    Args:
        text: What the user said.
        tag: Its message.
        limit: Tokens; never more than GOAL_TOKENS.
    """
    limit = min(limit, GOAL_TOKENS)
    if count_text(text) <= limit:
        return text
    head = clip(text, limit, count_text)
    return f'{head}\n… ({len(text):,} chars in all; the rest: ctx_expand("{tag}"))'


def _kind(args: dict[str, object]) -> str:
    kind = str(args.get("kind", "note"))
    return kind if kind in KINDS else "note"


def _normal(text: str) -> str:
    return " ".join(text.casefold().split())

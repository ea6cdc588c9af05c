"""Reclaim: the emergency path at EXHAUSTED (G30-G32), lossless like every edit.

The first time in a step it drops tool output by class, oldest first, until the window is well below its
line; the second time it takes the largest part that is left, whatever it is, until the request fits.
"""

from collections.abc import Iterator
from math import ceil

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from headwater.nodes.engine import Engine, live, saved
from headwater.nodes.events import emit
from headwater.nodes.offload import apply_edits
from headwater.nodes.state import Node, NodeState, Update
from headwater.nodes.tool_names import NAVIGATING, WORKING, words_of
from headwater.window.face import gain_of
from headwater.window.frame import Edit, Frame
from headwater.window.view import EXEMPT_CALLS, View

SPARED = 0.2
TARGET = 0.30


def reclaim(engine: Engine) -> Node:
    """A node that makes room at once."""

    def node(state: NodeState, config: RunnableConfig) -> Update:
        frame = engine.frame(state, config)
        messages = live(state)
        step = dict(state.get("step") or {})
        deep = "reclaim" in step.get("tried", ())
        with engine.view(frame, messages) as view:
            excess = engine.estimate(frame, view) - engine.lines.exhausted + 1
            wanted = bare(view, frame, excess) if deep else tiered(engine, view, frame)
        frame, edits = apply_edits(engine, frame, messages, wanted)
        step["tried"] = [*step.get("tried", ()), "reclaim"]
        emit("reclaim", session=frame.session, tags=sorted(edits), deep=deep)
        if not edits:
            reason = (
                "no stub is smaller than what is left" if deep else "no tool result before the newest arc"
            )
            emit("nothing_freed", session=frame.session, remedy="reclaim", reason=reason)
        return saved(frame, edits=edits, step=step)

    return node


def tier(name: str) -> int:
    """3 for anything, 2 for edits and searches, 1 for navigation; the highest goes first (G30)."""
    words = words_of(name)
    if words & WORKING:
        return 2
    return 1 if words & NAVIGATING else 3


def tiered(engine: Engine, view: View, frame: Frame) -> dict[int, Edit]:
    """Pending edits first, then results by class, oldest first, down to the target; pure."""
    total, found = view.tokens, list(_results(view, frame))
    floor = total - sum(gain for _, gain, _ in found)
    ceiling = engine.lines.offload
    target = floor + TARGET * max(0, ceiling - floor)
    waiting = view.items(frame)
    chosen = {item.tag: item.edit for item in waiting}
    freed = sum(item.gain for item in waiting)
    results = [r for r in found if r[0] not in chosen and r[0] < view.latest_arc()]
    for level in (3, 2, 1):
        group = [(tag, gain) for tag, gain, t in results if t == level]
        if level < 3:
            group = group[: len(group) - ceil(SPARED * len(group))]
        for tag, gain in group:
            if total - freed <= target:
                return chosen
            chosen[tag] = Edit.SKELETON
            freed += gain
    return chosen


def bare(view: View, frame: Frame, excess: int) -> dict[int, Edit]:
    """The largest parts that are left until `excess` tokens are freed; the goal stays.

    What the model has seen goes before what it has not: the newest arc is the answer it waits for. Of what is
    large enough to matter a tool result goes first, then a file pasted by the user.
    """
    newest = view.latest_arc()
    goal = next((pin.tag for pin in frame.pins if pin.kind == "goal"), 0)
    parts = [
        (tag < newest, _rank(view.message(tag), gain, excess), gain, tag)
        for tag in view.tags
        if tag not in frame.edits and tag != goal and _can_leave(view.message(tag))
        if (gain := gain_of(view.message(tag), tag, Edit.OFFLOAD)) > 0
    ]
    chosen: dict[int, Edit] = {}
    for *_, gain, tag in sorted(parts, reverse=True):
        if excess <= 0:
            break
        chosen[tag] = Edit.OFFLOAD
        excess -= int(gain * frame.scale)
    return chosen


def _rank(message: BaseMessage, gain: int, excess: int) -> int:
    """2 for a tool result, 1 for a user's message, if it is one of a few that could make room; else 0."""
    if gain * 8 < excess:
        return 0
    return 2 if isinstance(message, ToolMessage) else 1 if isinstance(message, HumanMessage) else 0


def _results(view: View, frame: Frame) -> Iterator[tuple[int, int, int]]:
    """Tool results that could go: tag, tokens freed, class; oldest first."""
    for tag in view.tags:
        message = view.message(tag)
        if isinstance(message, ToolMessage) and tag not in frame.edits and message.name not in EXEMPT_CALLS:
            gain = gain_of(message, tag, Edit.SKELETON)
            if gain > 0:
                yield tag, gain, tier(message.name or "")


def _can_leave(message: BaseMessage) -> bool:
    """Text only: what an image shows cannot be read back from a stub."""
    if not isinstance(message, (ToolMessage, HumanMessage)):
        return message.type == "ai"
    return isinstance(message.content, str) or all(
        isinstance(b, str) or b.get("type") == "text" for b in message.content
    )

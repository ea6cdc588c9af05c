"""Watermark: estimate → level and pass → route. Before every model call, not once a round (M2-M5)."""

from typing import Any, Literal

from langchain_core.runnables import RunnableConfig

from headwater.nodes.adopt import finished
from headwater.nodes.engine import Engine, live, saved
from headwater.nodes.events import emit
from headwater.nodes.state import Node, NodeState, Update
from headwater.window.policy import Level
from headwater.window.schedule import Plan, plan

# `summarise="cold"`: from this many tokens on a cold start is taken to tell what stands before the
# zone. Where a background run has told it already there is nothing to wait for, and nothing to be measured.
COLD_TAIL = 60_000
Route = Literal["agent", "offload", "summarize", "reclaim", "halt"]

# M8: offload strictly before summarise. Each remedy once a step; the second `reclaim` cuts to the bone.
REMEDIES: dict[Level, tuple[Route, ...]] = {
    Level.NORMAL: ("offload",),
    Level.OFFLOAD: ("offload",),
    Level.COMPACT: ("offload", "summarize"),
    Level.EXHAUSTED: ("offload", "reclaim", "summarize", "reclaim"),
}


def watermark(engine: Engine) -> Node:
    """A node that measures the window and decides where the step goes next (`step["route"]`)."""

    def node(state: NodeState, config: RunnableConfig) -> Update:
        frame = engine.frame(state, config)
        step = dict(state.get("step") or {})
        with engine.view(frame, live(state)) as view:
            found, zone = view.candidates(frame, engine.policy, engine.lines.window, engine.room(view))
            if found or zone != frame.zone:
                left = tuple(tag for tag in frame.reduce if tag not in found)
                frame = frame.with_(pending={**frame.pending, **found}, zone=zone, reduce=left)
            estimate = engine.estimate(frame, view)
            items = view.items(frame)
            tail = view.tags
        level = engine.lines.level(estimate)
        decided = plan(
            frame,
            items,
            level=level,
            lines=engine.lines,
            prices=engine.prices,
            now=engine.clock(),
            identity=engine.identity,
        )
        step |= {"estimate": estimate, "level": level.name, "pass": str(step.get("pass") or decided.kind)}
        step |= {"reason": decided.reason, "edits": {tag: str(edit) for tag, edit in decided.edits.items()}}
        step["kind"] = str(decided.kind)
        tell = engine.policy.summarise
        if tell == "cold" and frame.asked is not None and engine.prices.is_cold(frame.asked, engine.clock()):
            step["economy"] = (
                bool(finished(engine, frame, tail)) if engine.works_ahead else estimate >= COLD_TAIL
            )
        step["route"] = route_of(level, decided, step, tell=tell != "never")
        emit(
            "watermark",
            session=frame.session,
            estimate=estimate,
            level=level.name,
            route=step["route"],
            lines=engine.lines._asdict(),
        )
        return saved(frame, step=step)

    return node


def route_of(level: Level, decided: Plan, step: dict[str, Any], *, tell: bool = True) -> Route:
    """The first remedy of the level that has not been tried in this step; pure.

    A remedy with nothing to do is passed over, and so is the summary without `tell`. Only who chose
    `summarise="cold"` has a summary below the line (`step["economy"]`). When all are spent the request goes
    out if it fits, and is stopped if it does not (M7).
    """
    tried = list(step.get("tried", ()))
    if (
        tell
        and step.get("economy")
        and "summarize" not in tried
        and ("offload" in tried or not decided.moves)
    ):
        return "summarize"
    for remedy in REMEDIES[level]:
        if remedy in tried:
            tried.remove(remedy)
        elif (remedy != "offload" or decided.moves) and (remedy != "summarize" or tell):
            return remedy
    return "halt" if level is Level.EXHAUSTED else "agent"


def route(state: NodeState) -> str:
    """The conditional edge behind the node."""
    return str((state.get("step") or {}).get("route", "agent"))

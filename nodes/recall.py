"""Recall: what the session's memory puts beside the tail, at a fold and only then (G24-G27, G39)."""

from langchain_core.runnables import RunnableConfig

from headwater.nodes.engine import Engine, revised, saved
from headwater.nodes.events import emit
from headwater.nodes.state import Node, NodeState, Update
from headwater.window.compartments import Compartment, render_history
from headwater.window.context import Parts, baseline_text, delta_text
from headwater.window.frame import Frame
from headwater.window.tokens import count_text

_MOST_FACTS = 100_000


def recall(engine: Engine) -> Node:
    """A node that folds: baseline rebuilt from memory, delta emptied."""

    def node(state: NodeState, config: RunnableConfig) -> Update:
        frame = engine.frame(state, config)
        frame = fold(engine, frame)
        emit("fold", session=frame.session, folds=frame.folds)
        return saved(frame)

    return node


def fold(engine: Engine, frame: Frame) -> Frame:
    """Rebuild m[0] from the task note, told history and facts; m[1] becomes empty (G12)."""
    told = compartments(engine, frame)
    parts = Parts(
        pins=[pin for pin in frame.pins if pin.tag <= frame.boundary],
        history=render_history(told, history_budget(engine)) if told else "",
        facts=known_facts(engine),
    )
    baseline = engine.store_text(baseline_text(parts, frame.language), frame)
    return frame.with_(
        baseline=baseline,
        delta="",
        folded=frame.boundary,
        folds=frame.folds + 1,
        revision=revised(frame, "fold", frame.boundary, baseline),
    )


def publish(engine: Engine, frame: Frame) -> Frame:
    """Re-render m[1] with what has come since the fold; m[0] keeps its bytes (G11, G25)."""
    told = [c for c in compartments(engine, frame) if c.first > frame.folded]
    parts = Parts(
        pins=[pin for pin in frame.pins if frame.folded < pin.tag <= frame.boundary],
        history=render_history(told, history_budget(engine)) if told else "",
    )
    delta = engine.store_text(delta_text(parts, frame.language), frame)
    return frame.with_(delta=delta, revision=revised(frame, "delta", frame.boundary, delta))


def outgrown(engine: Engine, frame: Frame) -> bool:
    """Whether m[1] has grown so large that it should be folded into m[0]."""
    delta = count_text(engine.text(frame.delta))
    baseline = count_text(engine.text(frame.baseline))
    return delta > history_budget(engine) // 5 or (baseline >= 500 and delta > 0.15 * baseline)


def compartments(engine: Engine, frame: Frame) -> list[Compartment]:
    """The compartments that the frame names, oldest first.

    A run that was rolled back, or another branch of the thread, may have told the same stretch in its way:
    those rows are in the archive too, and no business of this frame.
    """
    if not frame.told:
        return []
    rows = dict(engine.memory.archive.compartments(frame.session))
    return [Compartment.from_dict(rows[row]) for row in frame.told if row in rows]


def history_budget(engine: Engine) -> int:
    """Tokens that told history may fill."""
    return int(engine.policy.history * engine.lines.window)


def known_facts(engine: Engine) -> list[tuple[str, str]]:
    """Facts for the baseline, within their budget: permanent first, then importance, then id (G27).

    Grouped by category in a fixed order, so that equal facts give equal bytes.
    """
    budget = min(engine.policy.facts, engine.lines.window // 16)
    facts = engine.memory.facts.list(limit=_MOST_FACTS, live=True)
    ranked = sorted(facts, key=lambda f: (f.status != "permanent", -f.importance, f.id))
    chosen = []
    for fact in ranked:
        weight = count_text(fact.content) + 4
        if weight <= budget:
            budget -= weight
            chosen.append(fact)
    chosen.sort(key=lambda f: (str(f.category), f.id))
    return [(str(fact.category), fact.content) for fact in chosen]

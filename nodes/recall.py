"""Recall: what the session's memory puts beside the tail, at a fold and only then (G24-G27, G39)."""

from collections.abc import Sequence

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from headwater.memory import Fact
from headwater.nodes.documents import beside
from headwater.nodes.engine import Engine, live, revised, saved
from headwater.nodes.events import emit
from headwater.nodes.state import Node, NodeState, Update
from headwater.window.compartments import Compartment, render_history
from headwater.window.context import Parts, baseline_text, delta_text
from headwater.window.face import text_of
from headwater.window.frame import Frame
from headwater.window.pins import shortened
from headwater.window.tokens import count_text

RELEVANCE = 25
"""Points of importance, of 100, that a fact gains which is all about the task."""
TASK_CHARS = 2_000

_MOST_FACTS = 100_000
_RELEVANT = 100
_LINE = 4
_SMALLEST = _LINE + 1


def recall(engine: Engine) -> Node:
    """A node that folds: baseline rebuilt from memory, delta emptied."""

    def node(state: NodeState, config: RunnableConfig) -> Update:
        frame = engine.frame(state, config)
        frame = fold(engine, frame, spoken(live(state)))
        emit("fold", session=frame.session, folds=frame.folds)
        return saved(frame)

    return node


def fold(engine: Engine, frame: Frame, task: str = "") -> Frame:
    """Rebuild m[0] from documents, profile, task note, told history and facts; m[1] is empty then (G12).

    Args:
        engine: Its memory is read.
        frame: Its task note is what facts should bear on.
        task: What the user asked last, where it is at hand.
    """
    told = compartments(engine, frame)
    more = beside(engine, frame.language)
    parts = Parts(
        docs=more.docs,
        profile=more.profile,
        pins=[pin for pin in frame.pins if pin.tag <= frame.boundary],
        history=render_history(told, history_budget(engine)) if told else "",
        facts=[fact for fact in known_facts(engine, open_task(frame, task)) if fact[1] not in more.told],
        task=last_request(engine, frame, 0),
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
        task=last_request(engine, frame, frame.folded),
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
    return [row.part for row in engine.told.read(engine.memory.archive, frame.session, frame.told)]


def history_budget(engine: Engine) -> int:
    """Tokens that told history may fill."""
    return int(engine.policy.history * engine.lines.window)


def spoken(messages: Sequence[BaseMessage]) -> str:
    """The newest user message."""
    return next((text_of(m) for m in reversed(messages) if isinstance(m, HumanMessage)), "")


def last_request(engine: Engine, frame: Frame, after: int, upto: int | None = None) -> str:
    """The newest user message, where it is told (C2: the current goal is never dropped).

    A long round outlives its request: what a summary says of it would be all that is left of it.

    Args:
        engine: Its archive has the message.
        frame: Says which it is. The session's first one is the goal, and in the task note.
        after: The tag behind which it must stand.
        upto: The tag up to which is told; default: the boundary.

    Returns:
        Its words with its tag, cut where they are more than a sixteenth of the window; "" where it is not
        told, or is told at or before `after`.
    """
    tag, upto = frame.task, frame.boundary if upto is None else upto
    if not after < tag <= upto or any(pin.kind == "goal" and pin.tag == tag for pin in frame.pins):
        return ""
    text = next((text_of(m) for _, m in engine.memory.archive.read(frame.session, tag, tag)), "")
    return f"§{tag}§ {shortened(text, tag, engine.lines.window // 16)}" if text.strip() else ""


def open_task(frame: Frame, task: str = "") -> str:
    """What the session is about: the newest request first, then the task note from its newest line."""
    return "\n".join(dict.fromkeys([task, *(pin.text for pin in reversed(frame.pins))]))[:TASK_CHARS].strip()


def known_facts(engine: Engine, task: str = "") -> list[tuple[str, str]]:
    """Facts for the baseline, within their budget (G27): permanent first, then importance, then id.

    Where they do not all fit, one that bears on the task counts as up to 25 points more important. What is
    too large is left out and the next ones are tried. Grouped by category in a fixed order, so that equal
    facts give equal bytes.
    """
    budget = min(engine.policy.facts, engine.lines.window // 16)
    facts = engine.memory.facts.list(limit=_MOST_FACTS, live=True)
    bearing = _bearing(engine, task) if _overflow(facts, budget) else {}
    ranked = sorted(
        facts,
        key=lambda f: (f.status != "permanent", -f.importance - RELEVANCE * bearing.get(f.id, 0.0), f.id),
    )
    chosen: list[Fact] = []
    for fact in ranked:
        if budget < _SMALLEST:
            break
        weight = count_text(fact.content) + _LINE
        if weight <= budget:
            budget -= weight
            chosen.append(fact)
    chosen.sort(key=lambda f: (str(f.category), f.id))
    engine.memory.facts.uses.count("recalled", [fact.id for fact in chosen])
    return [(str(fact.category), fact.content) for fact in chosen]


def _bearing(engine: Engine, task: str) -> dict[str, float]:
    """How far facts bear on the task, 0 to 1; rounded, so that a last digit decides nothing."""
    found = engine.memory.facts.search(task, _RELEVANT) if task else []
    return {fact.id: round(score, 2) for fact, score in found}


def _overflow(facts: Sequence[Fact], budget: int) -> bool:
    """Whether the facts need more than the budget; counts no further than that."""
    if len(facts) * _SMALLEST > budget:
        return True
    return sum(count_text(fact.content) + _LINE for fact in facts) > budget

"""Remember: facts that were produced this round go to the long-term store (E19, G21, C19)."""

from langchain_core.runnables import RunnableConfig

from headwater.memory import Category, FactRefused, StorageError, Trust
from headwater.nodes.engine import Engine, saved
from headwater.nodes.events import emit
from headwater.nodes.intake import take_in
from headwater.nodes.spending import emit_spending
from headwater.nodes.state import Node, NodeState, Update
from headwater.window.cues import pins_in
from headwater.window.frame import Frame

# What a user states for the task is a rule of the project; a preference is the user's own and needs a yes.
_PIN_CATEGORY = {
    "constraint": Category.CONSTRAINTS,
    "exclusion": Category.CONSTRAINTS,
    "decision": Category.PROJECT_RULES,
}


def remember(engine: Engine) -> Node:
    """A node that writes the historian's facts and the user's stated rules; a refusal is an event."""

    def node(state: NodeState, config: RunnableConfig) -> Update:
        frame, taken = take_in(engine, state, config)
        emit_spending(engine, frame, state)
        written = refused = 0
        wanted: list[tuple[str, str, Trust, tuple[int, ...]]] = [
            (str(f["content"]), str(f["category"]), "agent", tuple(f["tags"]))
            for f in state.get("facts") or []
        ]
        wanted += _stated(engine, frame)
        for content, category, trust, tags in wanted:
            try:
                engine.memory.facts.write(
                    content, Category(category), trust=trust, source=(frame.session, tags)
                )
                written += 1
            except (FactRefused, ValueError) as error:
                refused += 1
                emit("fact_refused", session=frame.session, reason=str(error))
            except StorageError as error:
                # The answer stands; what could not be written stays in the state for the next round.
                emit("remember_failed", session=frame.session, error=str(error))
                return saved(frame, **taken)
        if wanted:
            emit("remember", session=frame.session, written=written, refused=refused)
        newest = max((pin.tag for pin in frame.pins), default=frame.remembered)
        return saved(frame.with_(remembered=max(frame.remembered, newest)), facts=[], **taken)

    return node


def _stated(engine: Engine, frame: Frame) -> list[tuple[str, str, Trust, tuple[int, ...]]]:
    """What the user laid down since the node last looked; the goal holds such sentences too.

    A sub-agent's brief is a model's text for one task: nothing in it is a user's rule.
    """
    if engine.delegated:
        return []
    found: list[tuple[str, str, Trust, tuple[int, ...]]] = []
    for pin in frame.pins:
        if pin.source != "user" or pin.tag <= frame.remembered:
            continue
        stated = pins_in(pin.text) if pin.kind == "goal" else [(pin.kind, pin.text)]
        found += [
            (text, str(_PIN_CATEGORY[k]), "user", (pin.tag,)) for k, text in stated if k in _PIN_CATEGORY
        ]
    return found

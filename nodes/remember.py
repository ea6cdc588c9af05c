"""Remember: facts that were produced this round go to the long-term store (E19, G21, C19)."""

from collections.abc import Callable

from langchain_core.runnables import RunnableConfig

from headwater.memory import Category, FactRefused
from headwater.nodes.engine import Engine, saved
from headwater.nodes.events import emit
from headwater.nodes.intake import take_in
from headwater.nodes.state import State, Update

# What a user states for the task is a rule of the project; a preference is the user's own and needs a yes.
_PIN_CATEGORY = {"constraint": Category.CONSTRAINTS, "exclusion": Category.CONSTRAINTS, "decision": Category.PROJECT_RULES}


def remember(engine: Engine) -> Callable[[State, RunnableConfig], Update]:
    """A node that writes the historian's facts and the user's stated rules; refusals are events, not errors."""

    def node(state: State, config: RunnableConfig) -> Update:
        frame, taken = take_in(engine, state, config)
        written = refused = 0
        wanted = [
            (str(f["content"]), str(f["category"]), "agent", tuple(f["tags"]))
            for f in state.get("facts") or []
        ]
        wanted += [
            (pin.text, str(_PIN_CATEGORY[pin.kind]), "user", (pin.tag,))
            for pin in frame.pins
            if pin.kind in _PIN_CATEGORY and pin.source == "user" and pin.tag > frame.remembered
        ]
        for content, category, trust, tags in wanted:
            try:
                engine.memory.facts.write(
                    content, Category(category), trust=trust, source=(frame.session, tags)
                )
                written += 1
            except (FactRefused, ValueError) as error:
                refused += 1
                emit("fact_refused", session=frame.session, reason=str(error))
        if wanted:
            emit("remember", session=frame.session, written=written, refused=refused)
        newest = max((pin.tag for pin in frame.pins), default=frame.remembered)
        return saved(frame.with_(remembered=max(frame.remembered, newest)), facts=[], **taken)

    return node

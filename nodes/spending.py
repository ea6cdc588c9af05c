"""What a session has used so far: the main model and governance apart, in one event at a round's end."""

from headwater.memory import StorageError
from headwater.nodes.engine import Engine
from headwater.nodes.events import emit
from headwater.nodes.state import State
from headwater.window.frame import Frame


def governance_spent(engine: Engine, frame: Frame) -> int:
    """Tokens that the summarizers have used on a session, in line and in the background."""
    if not engine.works_ahead:
        return frame.spent
    try:
        return frame.spent + engine.memory.runs.standing(frame.session).spent
    except StorageError:
        # An account that cannot be read costs the figure, never the round.
        return frame.spent


def emit_spending(engine: Engine, frame: Frame, state: State) -> None:
    """Stream `headwater.spending`; steps and tokens are those of the state's own `purse`."""
    used = state.get("purse") or {}
    emit(
        "spending",
        session=frame.session,
        steps=int(used.get("steps", 0)),
        tokens=int(used.get("tokens", 0)),
        cost=float(used.get("cost", 0.0)),
        governance=governance_spent(engine, frame),
    )

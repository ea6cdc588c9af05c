"""Offload: apply the edits that the plan moves, lossless ones only (M5, M9, C6, G13).

Reads `step["edits"]`; writes each text to an artifact before its stub may stand for it, freezes the edits.
"""

from collections.abc import Mapping

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig

from headwater.memory import ArtifactError
from headwater.nodes.adopt import adopt, channels
from headwater.nodes.binding import loosened
from headwater.nodes.engine import Engine, live, revised, saved
from headwater.nodes.events import emit
from headwater.nodes.recall import fold
from headwater.nodes.state import Node, NodeState, Update
from headwater.window.face import text_of
from headwater.window.frame import Edit, Frame, Pass
from headwater.window.marks import tag_of


def offload(engine: Engine) -> Node:
    """A node that carries out an EXECUTE or FOLD pass."""

    def node(state: NodeState, config: RunnableConfig) -> Update:
        frame = engine.frame(state, config)
        step = dict(state.get("step") or {})
        wanted = {int(tag): Edit(edit) for tag, edit in (step.get("edits") or {}).items()}
        frame, edits = apply_edits(engine, frame, live(state), wanted)
        told: Update = {}
        if step.get("kind") == Pass.FOLD:
            if step.get("reason") != "cold" or engine.policy.summarise == "cold":
                # What has been told meanwhile goes in (G26). A pause alone is no reason to lose detail.
                adopted = adopt(engine, frame, live(state))
                told, frame = channels(state, adopted), adopted.frame
            frame = fold(engine, frame).with_(identity=engine.identity)
        step["tried"] = [*step.get("tried", ()), "offload"]
        emit(
            "offload",
            session=frame.session,
            tags=sorted(edits),
            reason=step.get("reason", ""),
            kind=step.get("kind", ""),
        )
        return saved(frame, **{**told, "edits": {**edits, **told.get("edits", {})}}, step=step)

    return node


def apply_edits(
    engine: Engine, frame: Frame, messages: list[BaseMessage], wanted: Mapping[int, Edit]
) -> tuple[Frame, dict[int, str]]:
    """Freeze edits, artifacts first: where a text cannot be written its message stays as it is (case 66)."""
    by_tag = {tag_of(m): m for m in messages}
    fresh = {tag: edit for tag, edit in wanted.items() if tag in by_tag and tag not in frame.edits}
    wanted = loosened(engine.provider, frame, messages, fresh)
    done: dict[int, str] = {}
    for tag, edit in wanted.items():
        message = by_tag[tag]
        if edit is Edit.OFFLOAD and not isinstance(message, AIMessage):
            try:
                engine.memory.artifacts.put(text_of(message), session=frame.session, tag=tag)
            except (ArtifactError, OSError) as error:
                emit("offload_failed", session=frame.session, tag=tag, error=str(error))
                continue
        done[tag] = str(edit)
    pending = {tag: p for tag, p in frame.pending.items() if tag not in done and tag in by_tag}
    if done:
        frame = frame.with_(
            edits={**frame.edits, **done},
            revision=revised(frame, sorted(done.items())),
            busts=frame.busts + 1,
        )
    return frame.with_(pending=pending), done

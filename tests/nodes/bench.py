"""An engine to call nodes with, one at a time and without a graph: no model is ever asked here."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from headwater.memory import Memory
from headwater.memory.words import LexicalIndex
from headwater.nodes.engine import Engine
from headwater.nodes.intake import intake
from headwater.nodes.state import State, append_messages, merge_tags
from headwater.window.frame import Frame
from headwater.window.policy import WindowPolicy
from headwater.window.prices import Prices

CONFIG: RunnableConfig = {"configurable": {"thread_id": "s"}}
WINDOW = 8_192


class Clock:
    """Seconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def engine(root: Path, policy: WindowPolicy | None = None, **kw: Any) -> Engine:
    """An engine whose model is never asked."""
    return Engine(
        FakeListChatModel(responses=["never"]),
        Memory(root, index=LexicalIndex(root / "by_words.sqlite"), repository=False),
        policy=policy or WindowPolicy(window=WINDOW),
        clock=kw.pop("clock", Clock()),
        prices=kw.pop("prices", Prices()),
        **kw,
    )


def text(number: int, words: int = 300) -> str:
    """About 1.5 tokens a word, different for each number."""
    return "\n".join(f"row {number}.{i} of the table has a value" for i in range(words // 8))


def arc(number: int, words: int = 300, name: str = "look") -> list[BaseMessage]:
    """A call and its result."""
    call = {"name": name, "args": {"number": number}, "id": f"c{number}", "type": "tool_call"}
    return [
        AIMessage("", tool_calls=[call], id=f"a{number}"),
        ToolMessage(text(number, words), tool_call_id=f"c{number}", name=name, id=f"r{number}"),
    ]


def session(arcs: int, words: int = 300, name: str = "look") -> list[BaseMessage]:
    """A task and its arcs."""
    log: list[BaseMessage] = [HumanMessage("Look at all of it.", id="h")]
    for number in range(arcs):
        log += arc(number, words, name)
    return log


def state_of(made: Engine, messages: Sequence[BaseMessage], **frame: Any) -> State:
    """The state behind `intake`, with changes to its frame; what was sent is all but the newest arc."""
    state: Any = {"messages": list(messages)}
    update = intake(made)(state, CONFIG)
    return after(state, update, **frame)


def after(state: State, update: dict[str, Any], **frame: Any) -> State:
    """A state with a node's update in it, as the channels would do it."""
    new: dict[str, Any] = {**state, **update}
    new["messages"] = append_messages(list(state["messages"]), [update.get("messages") or []])
    for name in ("edits", "hints"):
        old: Any = state.get(name) or {}
        new[name] = merge_tags(old, [update.get(name) or {}])
    if frame:
        new["frame"] = frame_of(new).with_(**frame).to_state()
    return new  # type: ignore[return-value]


def frame_of(state: Any) -> Frame:
    """The frame in a state."""
    return Frame.from_state(state.get("frame"), state.get("edits"), state.get("hints"))

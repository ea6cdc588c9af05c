"""What can be delegated to, and how the calls of a message become orders: identical briefs are one."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool

from headwater.nodes.budget import UNBOUNDED, Budget
from headwater.nodes.lean_tool import lean_tool
from headwater.nodes.purse import purse_of
from headwater.nodes.tools import DELEGATE
from headwater.window.cues import pins_in
from headwater.window.frame import Frame
from headwater.window.policy import WindowPolicy

if TYPE_CHECKING:
    from headwater.nodes.engine import Engine
    from headwater.nodes.remote import Remote
    from headwater.nodes.state import State

SHARE_OF_ROOM = 0.5
PIN_CHARS = 4_000
_BINDING = ("constraint", "exclusion", "decision", "preference")


@dataclass(frozen=True)
class SubAgent:
    """A sub-agent to delegate to.

    Attributes:
        name, description: How the parent's model chooses it.
        prompt: Its system prompt.
        tools: Its tools; none of the parent's.
        model: "provider:name" or a chat model; None takes the parent's.
        output: The schema of its answer: a pydantic model, dataclass or TypedDict; None for text.
        budget: Its limits; it draws from its parent's purse as well.
        policy: Its window policy; None takes the parent's.
        subagents: What it may delegate to itself; a string names an agent of the tree, itself included.
        runnable: A LangGraph graph of your own to run instead; it gets and returns `messages`.
        remote: Where a LangGraph server runs it instead.
    """

    name: str
    description: str
    prompt: str = ""
    tools: Sequence[BaseTool] = ()
    model: str | BaseChatModel | None = None
    output: Any = None
    budget: Budget = field(default_factory=Budget)
    policy: WindowPolicy | None = None
    subagents: Sequence["SubAgent | str"] = ()
    runnable: Runnable[Any, Any] | None = None
    remote: "Remote | None" = None


class Delegation(TypedDict):
    """What one `Send` carries to the subagent node; plain data, so that a resumed run has the same.

    `twins` are calls of the same message with the same brief: they get the same conclusion. `chain`, `depth`
    and `briefs` are the purse of who delegates; `share` is the tokens the result may take in its window.
    """

    call: dict[str, Any]
    twins: list[str]
    session: str
    parent: str
    share: int
    pins: list[str]
    chain: list[str]
    depth: int
    briefs: list[str]


def delegate_tool(agents: Sequence[SubAgent]) -> BaseTool:
    """The tool a model calls to delegate; the graph answers it, not the tool itself."""
    listing = "\n".join(f"- {agent.name}: {agent.description}" for agent in agents)

    def delegate(agent: str, brief: str, artifacts: list[str] | None = None, wait: bool = True) -> str:
        raise NotImplementedError("delegations are answered by the graph's subagent node")

    return lean_tool(
        delegate,
        name=DELEGATE,
        description=(
            "Hand a self-contained subtask to a sub-agent with a window of its own. It sees only the brief "
            "and the artifacts you name, so say all it needs; it returns only its conclusion. Several calls "
            "in one message run in parallel. wait=false lets it work in the background: you get a handle for "
            "check, collect and cancel, and a note when it is done.\n"
            f"agent, one of:\n{listing}"
        ),
    )


def orders(
    engine: "Engine", state: "State", frame: Frame, newest: AIMessage, config: RunnableConfig | None
) -> list[Delegation]:
    """The delegations of the newest message, in order; calls with the same brief are one."""
    calls = [call for call in newest.tool_calls if call["name"] == DELEGATE]
    if not calls:
        return []
    groups: dict[str, list[Any]] = {}
    for call in calls:
        groups.setdefault(digest_of(call["args"]), []).append(call)
    purse = purse_of(engine, frame.session, state.get("messages") or [], config, state.get("purse"))
    if not purse.pays:
        engine.memory.ledger.open(purse.chain[-1], UNBOUNDED.limits)
    # Between the first line and the second a window stands for long; the second is the one that is defended.
    room = engine.lines.compact - engine.charged(frame, frame.size)
    share = int(SHARE_OF_ROOM * max(0, room) / len(calls))
    # Named by the message's tag to be: call ids repeat across turns, even within one.
    tag = engine.memory.archive.last(frame.session) + 1
    return [
        Delegation(
            call=dict(first),
            twins=[str(twin["id"] or "") for twin in twins],
            session=f"{frame.session}/{tag}.{number}",
            parent=frame.session,
            share=share,
            pins=_binding(frame),
            chain=list(purse.chain),
            depth=purse.depth,
            briefs=list(purse.briefs),
        )
        for number, (first, *twins) in enumerate(groups.values(), 1)
    ]


def digest_of(args: Mapping[str, Any]) -> str:
    """What makes a brief the same: agent, text, what is handed over, and whether it is waited for."""
    parts = (args.get("agent"), str(args.get("brief", "")).strip(), list(args.get("artifacts") or ()))
    return hashlib.sha256(repr((*parts, waits(args))).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def waits(args: Mapping[str, Any]) -> bool:
    return args.get("wait", True) not in (False, "false", "False", 0)


def _binding(frame: Frame) -> list[str]:
    """The pins that bind a sub-agent too, as far as they are short enough to be handed on."""
    left = PIN_CHARS
    found: list[str] = []
    for pin in frame.pins:
        # The goal holds such sentences too; the goal itself is the parent's, not the sub-agent's.
        stated = pins_in(pin.text) if pin.kind == "goal" else [(pin.kind, pin.text)]
        for kind, text in stated:
            if kind in _BINDING and len(text) <= left:
                left -= len(text)
                found.append(text)
    return found

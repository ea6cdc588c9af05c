"""Subagent: one delegated task in a window of its own; only its conclusion comes back (M26).

Whatever happens to a child (an error, a hang, a spent budget), its call gets exactly one result, with
what was done so far, and its siblings go on.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.config import get_stream_writer

from headwater.nodes import loop
from headwater.nodes.children import conclude
from headwater.nodes.conclusion import MAX_CONCLUSION, Conclusion, Status, within
from headwater.nodes.delegation import Delegation, SubAgent, delegate_tool, digest_of, waits
from headwater.nodes.engine import Engine
from headwater.nodes.events import emit
from headwater.nodes.placed import Placed
from headwater.nodes.run import Run
from headwater.nodes.state import Update
from headwater.nodes.tools import DELEGATE

__all__ = ["MAX_CONCLUSION", "Conclusion", "Delegation", "Status", "SubAgent", "delegate_tool", "subagent"]

Children = Mapping[str, tuple[SubAgent, Runnable[Any, Any]]]


def subagent(engine: Engine, children: Children) -> Runnable[Delegation, Update]:
    """A node that runs one delegation in the child graph of its name; sync and async.

    Synchronous callers' children are tasks too, in a loop of their own, so that a hanging one can be ended.
    """

    def node(order: Delegation, config: RunnableConfig) -> Update:
        return loop.run(lambda: anode(order, config))

    async def anode(order: Delegation, config: RunnableConfig) -> Update:
        found = _found(order, children)
        if isinstance(found, Conclusion):
            return await asyncio.to_thread(_returned, engine, order, found)
        spec, child = found
        args = order["call"]["args"]
        emit(
            "delegate",
            session=order["session"],
            parent=order["parent"],
            agent=spec.name,
            brief=str(args["brief"])[:200],
            background=not waits(args),
        )
        run = Run(spec, child, order, _writer())
        if not waits(args):
            conclusion = engine.background.begin(engine, run, config)
        else:
            conclusion = await conclude(engine, run, config)
        return await asyncio.to_thread(_returned, engine, order, conclusion)

    return Placed(node, anode, name="subagent")


def _found(order: Delegation, children: Children) -> tuple[SubAgent, Runnable[Any, Any]] | Conclusion:
    """What to run, or why not."""
    args = order["call"]["args"]
    name, brief = str(args.get("agent", "")), str(args.get("brief", ""))
    if name not in children:
        known = ", ".join(children) or "none"
        return Conclusion("refused", f"There is no sub-agent {name!r}; there are: {known}.")
    if not brief.strip():
        return Conclusion("refused", "The brief is empty; say what the sub-agent should do.")
    if order["depth"] < 1:
        return Conclusion(
            "refused", "Not delegated. depth: 0 levels left. Do it yourself, or conclude.", reason="depth"
        )
    if digest_of(args) in order["briefs"]:
        return Conclusion(
            "refused",
            "Not delegated: this very brief is being worked on by you or by an agent above you. Do it "
            "yourself, or delegate a smaller part of it.",
            reason="the same brief again",
        )
    return children[name]


def _returned(engine: Engine, order: Delegation, conclusion: Conclusion) -> Update:
    """The one result of each call, within the delegation's share of the parent's room."""
    shown = within(conclusion, order["share"], engine.memory, order["parent"])
    emit(
        "conclusion",
        session=order["session"],
        parent=order["parent"],
        status=shown.status,
        usage=dict(shown.usage),
        reason=shown.reason,
    )
    results = [_result(shown, str(order["call"]["id"] or ""), shown.text())]
    same = f"[{shown.status}] The same brief as another call of this message; it ran once, see its result."
    results += [_result(shown, twin, same) for twin in order["twins"]]
    return {"messages": results}


def _result(shown: Conclusion, call_id: str, text: str) -> ToolMessage:
    return ToolMessage(
        text,
        tool_call_id=call_id,
        name=DELEGATE,
        status="success" if shown.status in ("done", "partial") else "error",
        artifact=shown.to_dict(),
    )


def _writer() -> Any:
    """Where events of a child go; outside a graph, nowhere."""
    try:
        return get_stream_writer()
    except RuntimeError:
        return lambda event: None

"""Subagent: one delegated task in a window of its own; only its conclusion comes back (M26).

Whatever happens to a child (an error, a hang, a spent budget), its call gets exactly one result, with
what was done so far, and its siblings go on.
"""

import asyncio
import contextvars
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.errors import GraphRecursionError

from headwater.memory import Memory
from headwater.nodes.budget import Budget
from headwater.nodes.engine import Engine, used_tokens
from headwater.nodes.events import emit
from headwater.nodes.state import Update
from headwater.nodes.tools import DELEGATE
from headwater.window.clean import condense
from headwater.window.face import safe, text_of
from headwater.window.policy import WindowPolicy
from headwater.window.tokens import count_text

Status = Literal["done", "partial", "failed", "refused", "cancelled"]
MIN_CONCLUSION, MAX_CONCLUSION = 400, 4_000
_NODES_A_STEP = 8


@dataclass(frozen=True)
class SubAgent:
    """A sub-agent to delegate to.

    Attributes:
        name, description: How the parent's model chooses it.
        prompt: Its system prompt.
        tools: Its tools; none of the parent's.
        model: "provider:name" or a chat model; None takes the parent's.
        output: Reserved for a schema of the answer.
        budget: Its limits.
        policy: Its window policy; None takes the parent's.
    """

    name: str
    description: str
    prompt: str = ""
    tools: Sequence[BaseTool] = ()
    model: str | BaseChatModel | None = None
    output: type | None = None
    budget: Budget = field(default_factory=Budget)
    policy: WindowPolicy | None = None


@dataclass(frozen=True)
class Conclusion:
    """What a sub-agent returns, of bounded size.

    Attributes:
        status: How it ended.
        answer: Its last non-empty text, or a clear notice.
        session: Its session in the archive; `evidence` are tags there, open to the parent's `ctx_expand`.
        evidence: Tags of its tool results, newest first.
        artifacts: Names of artifacts that hold more.
        usage: Steps and tokens it used.
        reason: Why it is not "done".
    """

    status: Status
    answer: str
    session: str = ""
    evidence: tuple[int, ...] = ()
    artifacts: tuple[str, ...] = ()
    usage: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""

    def text(self) -> str:
        """The conclusion as the parent's model reads it."""
        lines = [f"[{self.status}{f': {self.reason}' if self.reason else ''}]", self.answer]
        if self.evidence:
            tags = ",".join(str(t) for t in self.evidence[:12])
            lines.append(f'Evidence: ctx_expand(tags="{tags}", session="{self.session}")')
        lines += [f'The full answer: file_read("{name}")' for name in self.artifacts]
        return safe("\n".join(lines))


class Delegation(TypedDict):
    """What one `Send` carries to this node: the call, its session and its share of the parent's room."""

    call: dict[str, Any]
    session: str
    share: int


def delegate_tool(agents: Sequence[SubAgent]) -> BaseTool:
    """The tool a model calls to delegate; the graph answers it, not the tool itself."""
    listing = "\n".join(f"- {agent.name}: {agent.description}" for agent in agents)

    def delegate(agent: str, brief: str) -> str:
        raise NotImplementedError("delegations are answered by the graph's subagent node")

    return StructuredTool.from_function(
        delegate,
        name=DELEGATE,
        description=(
            "Hand a self-contained subtask to a sub-agent with a window of its own. It sees only the brief, "
            "so say all it needs; it returns only its conclusion. Several calls in one message run in "
            "parallel.\n"
            f"agent, one of:\n{listing}"
        ),
    )


def subagent(
    engine: Engine, children: Mapping[str, tuple[SubAgent, Runnable[Any, Any]]]
) -> Runnable[Delegation, Update]:
    """A node that runs one delegation in the child graph of its name; sync and async."""

    def node(order: Delegation, config: RunnableConfig) -> Update:
        found = _found(order, children)
        if isinstance(found, Conclusion):
            return _returned(engine, order, found)
        spec, child = found
        _started(order, spec)
        pool = ThreadPoolExecutor(1, thread_name_prefix="headwater-subagent")
        context = contextvars.copy_context()
        try:
            future = pool.submit(context.run, child.invoke, _brief(order), _child_config(order, spec, config))
            outcome: Any = future.result(timeout=spec.budget.seconds)
        except (TimeoutError, FutureTimeout):
            outcome = TimeoutError(f"no answer within {spec.budget.seconds:g} s")
        except Exception as error:  # noqa: BLE001 - a child may fail in any way; its siblings go on
            outcome = error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        return _returned(engine, order, _concluded(engine.memory, order, outcome))

    async def anode(order: Delegation, config: RunnableConfig) -> Update:
        found = _found(order, children)
        if isinstance(found, Conclusion):
            return _returned(engine, order, found)
        spec, child = found
        _started(order, spec)
        outcome: Any
        try:
            async with asyncio.timeout(spec.budget.seconds):
                outcome = await child.ainvoke(_brief(order), _child_config(order, spec, config))
        except TimeoutError:
            outcome = TimeoutError(f"no answer within {spec.budget.seconds:g} s")
        except Exception as error:  # noqa: BLE001 - as above
            outcome = error
        return _returned(engine, order, _concluded(engine.memory, order, outcome))

    return RunnableLambda(node, anode, name="subagent")


def _found(
    order: Delegation, children: Mapping[str, tuple[SubAgent, Runnable[Any, Any]]]
) -> tuple[SubAgent, Runnable[Any, Any]] | Conclusion:
    args = order["call"]["args"]
    name, brief = str(args.get("agent", "")), str(args.get("brief", ""))
    if name not in children:
        return Conclusion(
            "refused", f"There is no sub-agent {name!r}; there are: {', '.join(children) or 'none'}."
        )
    if not brief.strip():
        return Conclusion("refused", "The brief is empty; say what the sub-agent should do.")
    return children[name]


def _started(order: Delegation, spec: SubAgent) -> None:
    emit(
        "delegate", session=order["session"], agent=spec.name, brief=str(order["call"]["args"]["brief"])[:200]
    )


def _brief(order: Delegation) -> dict[str, Any]:
    return {"messages": [HumanMessage(str(order["call"]["args"]["brief"]))]}


def _child_config(order: Delegation, spec: SubAgent, config: RunnableConfig) -> RunnableConfig:
    """The child's own thread; nothing of the parent's checkpoint, but its callbacks and tags."""
    own = {
        k: v
        for k, v in (config.get("configurable") or {}).items()
        if not k.startswith(("__pregel", "checkpoint"))
    }
    return {
        "configurable": {**own, "thread_id": order["session"]},
        "recursion_limit": spec.budget.steps * _NODES_A_STEP + 16,
        "callbacks": config.get("callbacks"),
        "tags": config.get("tags") or [],
    }


def _concluded(memory: Memory, order: Delegation, outcome: Any) -> Conclusion:
    """The conclusion of a child that returned, failed, or was cut; what it did is in its archive."""
    session = order["session"]
    log = (
        memory.archive.read(session, 1, memory.archive.last(session)) if memory.archive.last(session) else []
    )
    evidence = tuple(tag for tag, m in reversed(log) if isinstance(m, ToolMessage))[:12]
    steps = sum(isinstance(m, AIMessage) for _, m in log)
    usage = {"steps": steps, "tokens": sum(used_tokens(m) for _, m in log if isinstance(m, AIMessage))}
    status: Status = "done"
    reason = ""
    messages = [m for _, m in log]
    if isinstance(outcome, Exception):
        cut = isinstance(outcome, (TimeoutError, GraphRecursionError))
        status = "partial" if cut else "failed"
        reason = (
            "its budget of steps is spent"
            if isinstance(outcome, GraphRecursionError)
            else f"{type(outcome).__name__}: {outcome}"
        )
    else:
        messages = list(outcome.get("messages") or []) if isinstance(outcome, Mapping) else messages
        purse = outcome.get("purse") or {} if isinstance(outcome, Mapping) else {}
        usage |= {k: purse[k] for k in ("steps", "tokens") if k in purse}
        last = messages[-1] if messages else None
        marker = last.response_metadata.get("headwater") if isinstance(last, AIMessage) else None
        if marker:
            status, reason = "partial", str(marker)
    answer = next(
        (text_of(m) for m in reversed(messages) if isinstance(m, AIMessage) and text_of(m).strip()), ""
    )
    if not answer:
        answer = "The sub-agent gave no answer." + (
            f" It made {len(evidence)} tool calls." if evidence else ""
        )
        status = "failed" if status == "done" else status
    return Conclusion(status, answer, session, evidence, (), usage, reason[:400])


def _returned(engine: Engine, order: Delegation, conclusion: Conclusion) -> Update:
    """The one result of the call, within the delegation's share of the parent's room."""
    share = max(MIN_CONCLUSION, min(MAX_CONCLUSION, order["share"]))
    artifacts: tuple[str, ...] = ()
    answer = conclusion.answer
    if count_text(answer) > share:
        artifacts = (engine.memory.artifacts.put(answer),)
        answer = condense(answer, share)
    shown = Conclusion(
        conclusion.status,
        answer,
        conclusion.session,
        conclusion.evidence,
        artifacts,
        conclusion.usage,
        conclusion.reason,
    )
    emit("conclusion", session=order["session"], status=shown.status, usage=dict(shown.usage))
    return {
        "messages": [
            ToolMessage(
                shown.text(),
                tool_call_id=order["call"]["id"] or "",
                name=DELEGATE,
                status="success" if shown.status in ("done", "partial") else "error",
                artifact={
                    "status": shown.status,
                    "session": shown.session,
                    "evidence": list(shown.evidence),
                    "artifacts": list(artifacts),
                    "usage": dict(shown.usage),
                },
            )
        ]
    }

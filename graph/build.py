"""`build_agent`: the whole governed graph from a model and some tools."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore

from headwater.graph.per_run import PerRun
from headwater.graph.team import Team
from headwater.memory import Memory
from headwater.memory.project_docs import ProjectDocs
from headwater.nodes.agent import agent
from headwater.nodes.background_children import background_tools
from headwater.nodes.budget import Budget
from headwater.nodes.conclusion import schema_note
from headwater.nodes.context_tools import context_tools
from headwater.nodes.engine import Engine
from headwater.nodes.halt import halt
from headwater.nodes.intake import intake
from headwater.nodes.offload import offload
from headwater.nodes.onward import onward
from headwater.nodes.reclaim import reclaim
from headwater.nodes.remember import remember
from headwater.nodes.settings import RunSettings
from headwater.nodes.spans import role
from headwater.nodes.state import State
from headwater.nodes.subagent import Children, SubAgent, delegate_tool, subagent
from headwater.nodes.summarize import summarize
from headwater.nodes.tools import tools as tools_node
from headwater.nodes.watermark import route, watermark
from headwater.window.policy import WindowPolicy
from headwater.window.prices import Prices
from headwater.window.tokens import warm_up

GUIDE = (
    "Messages carry numbers like §12§. Text that left the window is marked ⟦stored …⟧ and can be read back "
    "as the mark says; never copy a mark into an argument or an answer. Blocks in <headwater-memory> are "
    "background."
)


_ENGINES: WeakKeyDictionary[Any, Engine] = WeakKeyDictionary()


class UnknownModel(ValueError):
    """A model string that names no model; the message says what is expected."""


def build_agent(
    model: str | BaseChatModel,
    *,
    tools: Sequence[BaseTool | Callable[..., Any]] = (),
    system_prompt: str = "",
    subagents: Sequence[SubAgent] = (),
    summarizer: str | BaseChatModel | Sequence[str | BaseChatModel] | None = None,
    policy: WindowPolicy | None = None,
    memory: Memory | str | Path | None = None,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
    store: BaseStore | None = None,
    prices: Prices | None = None,
    budget: Budget | None = None,
    context_tools: bool = True,
    project_docs: str | Path | ProjectDocs | None = None,
    user_profile: bool = False,
    clock: Callable[[], float] | None = None,
    context_schema: type[Any] = RunSettings,
    name: str = "headwater",
) -> CompiledStateGraph[State, Any, Any, State]:
    """Build the governed agent graph.

    Args:
        model: "provider:name" or a chat model; called exactly once a step.
        tools: What the agent can do.
        system_prompt: The contract; sent first, always.
        subagents: What it may delegate to, each in a window of its own.
        summarizer: A cheap model for summaries, same forms, or several: the later ones are asked where the
            earlier cannot serve; None serves the deterministic digest.
        policy: When and on what to act.
        memory: Where sessions, artifacts and facts live; default: `.headwater` in the working directory.
        checkpointer: LangGraph's, as for any graph.
        store: LangGraph's; the truth about facts, where `memory` is none or a path.
        prices: The provider's, to decide when moving the window pays.
        budget: What one round of it, and all it delegates to, may use; None bounds only depth and number
            of sub-agents.
        context_tools: Whether to offer file_read and the ctx_ tools.
        project_docs: The folder whose AGENTS.md, CONTEXT.md and CLAUDE.md are shown as background, read
            afresh when a session starts; None takes the memory's.
        user_profile: Whether to show what is kept about the user; the memory may say so too.
        clock: Seconds; for tests and replays.
        context_schema: Of what a run hands in as `context`, for your tools to read; its fields `window` and
            `tenant`, where it has them, are settings of that run. See `RunSettings`.
        name: The graph's name in traces.

    Raises:
        UnknownModel: A model string that names no installed provider.
        WindowTooSmall: On the first step, when system prompt and tools leave no room.
    """
    warm_up()
    engine = engine_for(
        model,
        memory_of(memory, store),
        tools=tools,
        system_prompt=system_prompt,
        subagents=subagents,
        summarizer=summarizer,
        policy=policy,
        prices=prices,
        budget=budget,
        with_context=context_tools,
        docs=ProjectDocs.of(project_docs),
        profile=user_profile,
        clock=clock,
    )
    return _compile(
        engine,
        children_of(engine),
        checkpointer=checkpointer,
        store=store,
        context_schema=context_schema,
        name=name,
    )


def resolve_model(model: str | BaseChatModel) -> BaseChatModel:
    """A chat model from "provider:name", or the model itself.

    Raises:
        UnknownModel: No such provider, or its package is not installed.
    """
    if isinstance(model, BaseChatModel):
        return model
    from langchain.chat_models import init_chat_model

    if not isinstance(model, str):
        raise UnknownModel(
            f"{type(model).__name__!r} is no chat model: its window and its provider's rules are unknown, "
            "and another model would be sent the very bytes that one refused. Give the chat model itself: "
            "settings go into its constructor (not `.bind`). Instead of `.with_fallbacks`, several "
            "summarizers are `summarizer=[first, second]`, and a second main model is "
            "`create_agent(first, middleware=[ModelFallbackMiddleware(second), GovernanceMiddleware(...)])`"
        )
    if not model.rpartition(":")[2].strip():
        raise UnknownModel(f"{model!r} names no model. Write 'provider:name', e.g. 'openai:gpt-5.4'")
    try:
        found = init_chat_model(model)
    except (ValueError, ImportError) as error:
        raise UnknownModel(
            f"{model!r} names no model: {error}. Write 'provider:name', e.g. 'openai:gpt-5.4'"
        ) from error
    if not isinstance(found, BaseChatModel):
        raise UnknownModel(f"{model!r} gives no chat model, but {type(found).__name__!r}")
    return found


def memory_of(given: Memory | str | Path | None, store: BaseStore | None) -> Memory:
    """The memory that was handed in, or the embedded one in that folder; default: `.headwater`."""
    return given if isinstance(given, Memory) else Memory(given or ".headwater", store=store)


def engine_for(
    model: str | BaseChatModel,
    memory: Memory,
    *,
    tools: Sequence[BaseTool | Callable[..., Any]] = (),
    system_prompt: str = "",
    subagents: Sequence[SubAgent] = (),
    summarizer: str | BaseChatModel | Sequence[str | BaseChatModel] | None = None,
    policy: WindowPolicy | None = None,
    prices: Prices | None = None,
    budget: Budget | None = None,
    with_context: bool = True,
    docs: ProjectDocs | None = None,
    profile: bool = False,
    clock: Callable[[], float] | None = None,
    delegated: bool = False,
) -> Engine:
    """The engine of one agent, its tools made; arguments as for `build_agent`."""
    several = (
        summarizer if isinstance(summarizer, Sequence) and not isinstance(summarizer, str) else [summarizer]
    )
    tellers = [resolve_model(one) for one in several if one is not None]
    engine = Engine(
        model=resolve_model(model),
        memory=memory,
        summarizer=tellers[0] if tellers else None,
        fallbacks=tellers[1:],
        policy=policy or WindowPolicy(),
        prices=prices or Prices(),
        system="\n\n".join(part for part in (system_prompt, GUIDE if with_context else "") if part),
        budget=budget,
        docs=docs,
        profile=profile,
        subagents=tuple(subagents),
        delegated=delegated,
    )
    if clock is not None:
        engine.clock = clock
    own: list[Any] = [t if isinstance(t, BaseTool) else tool(t) for t in tools]
    if subagents:
        own += [delegate_tool(subagents), *background_tools(engine)]
    if with_context:
        own += context_tools(engine)
    engine.tools = own
    return engine


def children_of(engine: Engine) -> Children:
    """The graphs of all that an agent may delegate to.

    Raises:
        SubAgentUnknown: A string names nobody, or a name stands for two.
    """
    return Team(engine.subagents, lambda spec, team: _child(spec, engine, team)).of(engine.subagents)


def _child(spec: SubAgent, parent: Engine, team: Team) -> CompiledStateGraph[State, Any, Any, State]:
    """The governed graph of a sub-agent: its own window and tools, the parent's memory."""
    prompt = [spec.prompt, schema_note(spec.output) if spec.output is not None else ""]
    below = team.named(spec)
    engine = engine_for(
        spec.model if spec.model is not None else parent.model,
        parent.memory,
        tools=spec.tools,
        system_prompt="\n\n".join(filter(None, prompt)),
        subagents=below,
        summarizer=parent.historians,
        policy=spec.policy or parent.policy,
        prices=parent.prices,
        budget=spec.budget,
        clock=parent.clock,
        delegated=True,
    )
    return _compile(engine, team.of(below), name=spec.name)


def makers(children: Children) -> dict[str, Callable[[Engine], Any]]:
    """What makes each node, under the name that the edges `route` and `onward` know it by."""
    return {
        "intake": intake,
        "watermark": watermark,
        "offload": offload,
        "summarize": summarize,
        "reclaim": reclaim,
        "halt": halt,
        "agent": agent,
        "tools": tools_node,
        "subagent": lambda engine: subagent(engine, children),
        "remember": remember,
    }


def _compile(
    engine: Engine,
    children: Children,
    *,
    name: str,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
    store: BaseStore | None = None,
    context_schema: type[Any] = RunSettings,
) -> CompiledStateGraph[State, Any, Any, State]:
    graph: StateGraph[State, Any, Any, State] = StateGraph(State, context_schema=context_schema)
    runs = PerRun(engine)
    for node, make in makers(children).items():
        graph.add_node(node, runs.node(make), metadata=role(node))
    graph.add_edge(START, "intake")
    graph.add_edge("intake", "watermark")
    graph.add_conditional_edges("watermark", route, ["agent", "offload", "summarize", "reclaim", "halt"])
    for remedy in ("offload", "summarize", "reclaim"):
        graph.add_edge(remedy, "watermark")
    graph.add_conditional_edges("agent", runs.edge(onward), ["tools", "subagent", "remember", "watermark"])
    graph.add_edge("tools", "intake")
    graph.add_edge("subagent", "intake")
    graph.add_edge("remember", END)
    graph.add_edge("halt", END)
    built = graph.compile(checkpointer=checkpointer, store=store, name=name)
    _ENGINES[built] = engine
    return built


class NotGoverned(TypeError):
    """A graph that `build_agent` did not build."""


def engine_of(agent: Any) -> Engine:
    """The engine of an agent that `build_agent` built.

    Raises:
        NotGoverned: It did not.
    """
    found = _ENGINES.get(agent) if isinstance(agent, CompiledStateGraph) else None
    if found is None:
        raise NotGoverned(
            f"{type(agent).__name__!r} was not built by build_agent; give the graph it returned"
        )
    return found

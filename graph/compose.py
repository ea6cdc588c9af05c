"""The parts of a governed agent, for a graph that is composed by hand."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.store.base import BaseStore

from headwater.graph.build import children_of, engine_for, makers, memory_of
from headwater.graph.per_run import PerRun
from headwater.memory import Memory
from headwater.memory.project_docs import ProjectDocs
from headwater.nodes.budget import Budget
from headwater.nodes.engine import Engine
from headwater.nodes.subagent import Children, SubAgent
from headwater.window.policy import WindowPolicy
from headwater.window.prices import Prices
from headwater.window.tokens import warm_up


class Parts(NamedTuple):
    """What the nodes of one agent share, and the graphs of whom it may delegate to."""

    engine: Engine
    children: Children

    def nodes(self) -> dict[str, Any]:
        """Every node under the name that the edges `route` and `onward` know it by.

        A graph that delegates to nobody needs no `subagent`, one without tools no `tools`. Each reads the
        settings of the run from its `context`, as the graph of `build_agent` does.
        """
        runs = PerRun(self.engine)
        return {name: runs.node(make) for name, make in makers(self.children).items()}


def parts(
    model: str | BaseChatModel,
    *,
    tools: Sequence[BaseTool | Callable[..., Any]] = (),
    system_prompt: str = "",
    subagents: Sequence[SubAgent] = (),
    summarizer: str | BaseChatModel | Sequence[str | BaseChatModel] | None = None,
    policy: WindowPolicy | None = None,
    memory: Memory | str | Path | None = None,
    store: BaseStore | None = None,
    prices: Prices | None = None,
    budget: Budget | None = None,
    context_tools: bool = True,
    project_docs: str | Path | ProjectDocs | None = None,
    user_profile: bool = False,
    clock: Callable[[], float] | None = None,
) -> Parts:
    """What `build_agent` makes of the same arguments, before it puts its graph together.

    Raises:
        UnknownModel: A model string that names no installed provider.
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
    return Parts(engine, children_of(engine))

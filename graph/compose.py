"""The parts of a governed agent, for a graph that is composed by hand."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.store.base import BaseStore

from headwater.graph.build import _child, _engine
from headwater.graph.team import Team
from headwater.memory import Memory
from headwater.nodes.agent import agent
from headwater.nodes.budget import Budget
from headwater.nodes.engine import Engine
from headwater.nodes.halt import halt
from headwater.nodes.intake import intake
from headwater.nodes.offload import offload
from headwater.nodes.reclaim import reclaim
from headwater.nodes.remember import remember
from headwater.nodes.subagent import Children, SubAgent, subagent
from headwater.nodes.summarize import summarize
from headwater.nodes.tools import tools as tools_node
from headwater.nodes.watermark import watermark
from headwater.window.policy import WindowPolicy
from headwater.window.prices import Prices
from headwater.window.tokens import warm_up


class Parts(NamedTuple):
    """What the nodes of one agent share, and the graphs of whom it may delegate to."""

    engine: Engine
    children: Children

    def nodes(self) -> dict[str, Any]:
        """Every node under the name that the edges `route` and `onward` know it by.

        A graph that delegates to nobody needs no `subagent`, one without tools no `tools`.
        """
        return {
            "intake": intake(self.engine),
            "watermark": watermark(self.engine),
            "offload": offload(self.engine),
            "summarize": summarize(self.engine),
            "reclaim": reclaim(self.engine),
            "halt": halt(self.engine),
            "agent": agent(self.engine),
            "tools": tools_node(self.engine),
            "subagent": subagent(self.engine, self.children),
            "remember": remember(self.engine),
        }


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
    clock: Callable[[], float] | None = None,
) -> Parts:
    """What `build_agent` makes of the same arguments, before it puts its graph together.

    Raises:
        UnknownModel: A model string that names no installed provider.
    """
    warm_up()
    house = memory if isinstance(memory, Memory) else Memory(memory or ".headwater", store=store)
    engine = _engine(
        model, tools, system_prompt, subagents, summarizer, policy, house, prices, context_tools, clock
    )
    engine.budget = budget
    team = Team(subagents, lambda spec, team: _child(spec, engine, team))
    return Parts(engine, team.of(subagents))

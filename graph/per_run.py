"""One graph, settings per run: the nodes of the engine that the run's context asks for."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from threading import Lock
from typing import Any

from langchain_core.runnables import RunnableConfig

from headwater.memory import Memory
from headwater.nodes.context_tools import context_tools
from headwater.nodes.engine import Engine
from headwater.nodes.placed import Placed
from headwater.nodes.settings import RunSettings, settings_now
from headwater.nodes.state import NodeState, Update
from headwater.window.policy import WindowPolicy

_KEPT = 64
Build = Callable[[Engine], Any]


class PerRun:
    """The engines of one agent by the settings they were asked for; the one it was built with for none."""

    def __init__(self, base: Engine) -> None:
        self.base = base
        self._others: OrderedDict[RunSettings, tuple[Engine, dict[int, Any]]] = OrderedDict()
        self._lock = Lock()

    def node(self, build: Build) -> Any:
        """A node that is, in each run, the one that `build` makes of the run's engine."""
        built = build(self.base)
        if isinstance(built, Placed):

            def run(state: NodeState, config: RunnableConfig) -> Update:
                return self._now(build, built).func(state, config)  # type: ignore[no-any-return]

            async def arun(state: NodeState, config: RunnableConfig) -> Update:
                return await self._now(build, built).afunc(state, config)  # type: ignore[no-any-return]

            return Placed(run, arun, name=built.name)
        return self.edge(build, built)

    def edge(self, build: Build, built: Any = None) -> Any:
        """The same for a plain function of state and config."""
        known = built or build(self.base)

        def node(state: NodeState, config: RunnableConfig) -> Any:
            return self._now(build, known)(state, config)

        return node

    def _now(self, build: Build, built: Any) -> Any:
        """What `build` makes for the run that is under way."""
        asked = differing(self.base.memory, self.base.policy, settings_now())
        if asked is None:
            return built
        with self._lock:
            found = self._others.pop(asked, None) or (varied(self.base, asked), {})
            self._others[asked] = found
            while len(self._others) > _KEPT:
                self._others.popitem(last=False)
            engine, nodes = found
            if id(build) not in nodes:
                nodes[id(build)] = build(engine)
            return nodes[id(build)]


def differing(memory: Memory, policy: WindowPolicy, asked: RunSettings) -> RunSettings | None:
    """What is asked for beyond what an agent was built with; None where nothing is."""
    if asked.window == policy.window:
        asked = replace(asked, window=None)
    if asked.tenant == memory.tenant:
        asked = replace(asked, tenant=None)
    return None if asked == RunSettings() else asked


def under(memory: Memory, policy: WindowPolicy, asked: RunSettings | None) -> tuple[Memory, WindowPolicy]:
    """Memory and policy as a run asks for them."""
    if asked is None:
        return memory, policy
    return (
        memory if asked.tenant is None else memory.of_tenant(asked.tenant),
        policy if asked.window is None else policy.with_window(asked.window),
    )


def varied(base: Engine, asked: RunSettings) -> Engine:
    """The engine of an agent under other settings: the same model, prompt and tools, so the same prefix."""
    memory, policy = under(base.memory, base.policy, asked)
    # What it keeps of sessions is not taken along: it may be another tenant's.
    engine = replace(base, memory=memory, policy=policy)
    # What reads the memory reads the tenant's; all others are the very same tools.
    own = {tool.name: tool for tool in context_tools(engine)}
    engine.tools = [own[tool.name] if _reads_memory(tool) else tool for tool in base.tools]
    # Begun under one setting, a child can be collected under another.
    engine.__dict__["background"] = base.background
    return engine


def _reads_memory(tool: Any) -> bool:
    made = getattr(getattr(tool, "func", None), "__module__", "")
    return made == context_tools.__module__

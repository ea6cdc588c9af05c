"""The sub-agents of a tree by name, each compiled once.

A sub-agent may name itself or one above it: graphs refer to each other by name, so the tree needs no end.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.runnables import Runnable, RunnableLambda

from headwater.nodes.delegation import SubAgent


class SubAgentUnknown(ValueError):
    """A sub-agent is named that the tree does not have, or two different ones share a name."""


class Team:
    """All sub-agents of a tree.

    Args:
        roots: What the lead delegates to.
        make: Compiles the graph of one.

    Raises:
        SubAgentUnknown: A string names nobody, or a name stands for two.
    """

    def __init__(
        self, roots: Sequence[SubAgent], make: Callable[[SubAgent, "Team"], Runnable[Any, Any]]
    ) -> None:
        self._make = make
        self._lock = threading.RLock()
        self._specs: dict[str, SubAgent] = {}
        self._graphs: dict[str, Runnable[Any, Any]] = {}
        for spec in roots:
            self._enlist(spec)
        for spec in self._specs.values():
            self.named(spec)
        for name in self._specs:
            # A model that does not exist is told when the agent is built, not hours later.
            self.child(name)

    def named(self, spec: SubAgent) -> tuple[SubAgent, ...]:
        """What a sub-agent may delegate to, its strings looked up."""
        found = []
        for one in spec.subagents:
            if isinstance(one, str) and one not in self._specs:
                known = ", ".join(self._specs)
                raise SubAgentUnknown(f"{spec.name!r} may delegate to {one!r}, but there are only: {known}")
            found.append(self._specs[one] if isinstance(one, str) else one)
        return tuple(found)

    def of(self, specs: Sequence[SubAgent]) -> Mapping[str, tuple[SubAgent, Runnable[Any, Any]]]:
        """The children of one agent by name."""
        return _Children(self, [spec.name for spec in specs])

    def child(self, name: str) -> tuple[SubAgent, Runnable[Any, Any]]:
        """A sub-agent and its graph."""
        spec = self._specs[name]
        with self._lock:
            if name not in self._graphs:
                given: Runnable[Any, Any] | None = spec.runnable
                if spec.remote is not None:
                    # Connections belong to one run and its event loop.
                    given = RunnableLambda(lambda state: state)
                self._graphs[name] = given if given is not None else self._make(spec, self)
            return spec, self._graphs[name]

    def _enlist(self, spec: SubAgent) -> None:
        known = self._specs.setdefault(spec.name, spec)
        if known is not spec:
            raise SubAgentUnknown(f"two sub-agents are called {spec.name!r}; give each a name of its own")
        for below in spec.subagents:
            if isinstance(below, SubAgent) and self._specs.get(below.name) is not below:
                self._enlist(below)


class _Children(Mapping[str, tuple[SubAgent, Runnable[Any, Any]]]):
    def __init__(self, team: Team, names: Sequence[str]) -> None:
        self._team = team
        self._names = tuple(names)

    def __getitem__(self, name: str) -> tuple[SubAgent, Runnable[Any, Any]]:
        if name not in self._names:
            raise KeyError(name)
        return self._team.child(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

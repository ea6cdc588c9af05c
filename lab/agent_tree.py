"""The tree of agents, live: who works on what, how far, and how each ended; from the event stream alone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text
from rich.tree import Tree

from headwater.lab.fonts import columns

_SIGNS = {
    "": ("…", "yellow"),
    "done": ("✓", "green"),
    "partial": ("◐", "dark_orange"),
    "failed": ("✗", "red"),
    "refused": ("⊘", "red"),
    "cancelled": ("■", "magenta"),
}
_BRIEF_COLUMNS = 60


@dataclass
class Seen:
    """One agent as its events tell it; tokens are those of its requests, in and out."""

    name: str
    brief: str = ""
    status: str = ""
    reason: str = ""
    steps: int = 0
    tokens: int = 0
    children: list[str] = field(default_factory=list)

    def short_brief(self, most: int) -> str:
        """The brief on one line, cut to so many columns."""
        brief = " ".join(self.brief.split())
        if columns(brief) <= most:
            return brief
        fits = next(n for n in range(len(brief), -1, -1) if columns(brief[:n]) <= most)
        return f"{brief[:fits].rstrip()}…"


class AgentTree:
    """Takes in events of a run (`stream_mode="custom"`) and shows the agents as a tree.

    Example:
        >>> tree = AgentTree("lead")
        >>> tree.event({"type": "headwater.delegate", "session": "t/2.1", "parent": "t", "agent": "scout"})
        >>> tree.event({"type": "headwater.conclusion", "session": "t/2.1", "status": "done"})
        >>> [(seen.name, seen.status) for seen in tree.agents.values()]
        [('lead', ''), ('scout', 'done')]
    """

    def __init__(self, name: str = "agent") -> None:
        self.agents: dict[str, Seen] = {}
        self._name = name

    def event(self, event: Mapping[str, Any]) -> None:
        """Take in one event; those that say nothing of agents are passed over."""
        kind = str(event.get("type", "")).removeprefix("headwater.")
        session = str(event.get("session", ""))
        if kind == "delegate":
            self._parent(str(event.get("parent", "")))
            self.agents[session] = Seen(str(event.get("agent", "")), str(event.get("brief", "")))
            above = self.agents[str(event.get("parent", ""))]
            if session not in above.children:
                above.children.append(session)
        elif kind == "conclusion" and session in self.agents:
            seen = self.agents[session]
            seen.status, seen.reason = str(event.get("status", "")), str(event.get("reason") or "")
            usage = event.get("usage") or {}
            if not seen.steps:
                # A remote agent or a graph of the user's tells of its requests only now.
                seen.steps, seen.tokens = int(usage.get("steps", 0)), int(usage.get("tokens", 0))
        elif kind == "request" and session:
            seen = self._parent(session)
            seen.steps += 1
            usage = event.get("usage") or {}
            seen.tokens += int(usage.get("total_tokens") or event.get("tokens") or 0)

    @property
    def roots(self) -> list[str]:
        """The sessions that work for no other."""
        below = {child for seen in self.agents.values() for child in seen.children}
        return [session for session in self.agents if session not in below]

    def picture(self) -> Tree:
        """The tree as rich shows it."""
        roots = self.roots
        top = Tree(Text(self._name if not roots else ""), hide_root=bool(roots))
        for session in roots:
            self._grow(top, session)
        return top

    def _parent(self, session: str) -> Seen:
        return self.agents.setdefault(session, Seen(self._name))

    def _grow(self, above: Tree, session: str) -> None:
        seen = self.agents[session]
        sign, colour = _SIGNS.get(seen.status, _SIGNS[""])
        label = Text.assemble((f"{sign} ", colour), (seen.name, "bold"))
        label.append(f"  {seen.steps} steps, {seen.tokens:,} tokens", "dim")
        if seen.brief:
            label.append(f"  {seen.short_brief(_BRIEF_COLUMNS)}")
        if seen.reason:
            label.append(f"  [{seen.reason[:_BRIEF_COLUMNS]}]", colour)
        branch = above.add(label)
        for child in seen.children:
            self._grow(branch, child)


def watch_tree(
    events: Iterable[Mapping[str, Any]], console: Console | None = None, name: str = "agent"
) -> AgentTree:
    """Show a run's agents live while its events come in; where there is no terminal, once at the end.

    Args:
        events: `agent.stream(inputs, config, stream_mode="custom")`.
        console: Where to.
        name: What to call the lead.
    """
    console = console or Console()
    tree = AgentTree(name)
    if not console.is_terminal:
        for event in events:
            tree.event(event)
        console.print(tree.picture())
        return tree
    with Live(tree.picture(), console=console, refresh_per_second=8) as live:
        for event in events:
            tree.event(event)
            live.update(tree.picture())
    return tree

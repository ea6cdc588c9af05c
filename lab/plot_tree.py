"""The tree of agents as a picture: who worked for whom, how far, how each ended; from the event stream."""

from typing import TYPE_CHECKING, Any

from headwater.lab.agent_tree import AgentTree
from headwater.lab.fonts import families

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = {
    "": ("#dfe6ea", "#5b6770"),
    "done": ("#dcebe2", "#2d7a4b"),
    "partial": ("#f8e6c2", "#a8781c"),
    "failed": ("#f6d5d0", "#c0392b"),
    "refused": ("#f6d5d0", "#c0392b"),
    "cancelled": ("#e6dcf0", "#6c4fa3"),
}
_BOX = (2.7, 0.86)
_BRIEF_COLUMNS = 38


def plot_agents(tree: AgentTree, *, title: str = "") -> "Figure":
    """Draw the agents a run has shown, each below the one it worked for.

    Args:
        tree: What has taken in the run's events.
        title: One line above the picture.

    Returns:
        A figure of its own, as large as the tree.

    Raises:
        ValueError: No agent was seen.

    Example:
        >>> tree = AgentTree("lead")
        >>> tree.event({"type": "headwater.delegate", "session": "t/1", "parent": "t", "agent": "scout"})
        >>> [text.get_text().split()[0] for text in plot_agents(tree).axes[0].texts]
        ['lead', 'scout']
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch

    places = _places(tree)
    if not places:
        raise ValueError("no agent to draw; feed the tree the events of a run (stream_mode='custom')")
    columns, rows = (max(place[axis] for place in places.values()) + 1 for axis in (0, 1))
    figure = Figure(figsize=(2.95 * columns + 0.4, 1.35 * rows + 0.5), dpi=110, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-1.5, 2.95 * (columns - 1) + 1.5)
    axes.set_ylim(-1.35 * (rows - 1) - 0.65, 0.95)
    at = {session: (2.95 * x, -1.35 * y) for session, (x, y) in places.items()}
    for session, (x, y) in at.items():
        seen = tree.agents[session]
        fill, line = _COLOURS.get(seen.status, _COLOURS[""])
        for child in seen.children:
            below = at[child]
            axes.plot(
                (x, below[0]), (y - _BOX[1] / 2, below[1] + _BOX[1] / 2), color="#8a949e", lw=1, zorder=0
            )
        corner = x - _BOX[0] / 2, y - _BOX[1] / 2
        axes.add_patch(
            FancyBboxPatch(corner, *_BOX, boxstyle="round,pad=0,rounding_size=0.09", fc=fill, ec=line, lw=1.3)
        )
        brief = seen.short_brief(_BRIEF_COLUMNS)
        told = f"{seen.steps} steps, {seen.tokens:,} tokens"
        label = "\n".join(part for part in (f"{seen.name}  {seen.status}".strip(), brief, told) if part)
        # The words may be a file name or a price: nothing in them is mathematics.
        words: dict[str, Any] = {"va": "center", "color": "#27313b", "parse_math": False}
        axes.text(x, y, label, ha="center", fontsize=8, family=families(label), **words)
    if title:
        axes.text(-1.35, 0.78, title, ha="left", fontsize=10.5, family=families(title), **words)
    return figure


def _places(tree: AgentTree) -> dict[str, tuple[float, int]]:
    """Column and row of each agent: leaves side by side, a parent over the middle of its children."""
    places: dict[str, tuple[float, int]] = {}
    free = 0

    def put(session: str, row: int) -> float:
        nonlocal free
        children = [put(child, row + 1) for child in tree.agents[session].children]
        if not children:
            free += 1
        column = (children[0] + children[-1]) / 2 if children else float(free - 1)
        places[session] = (column, row)
        return column

    for session in tree.roots:
        put(session, 0)
    # Parents first, as they are read.
    return {session: places[session] for session in tree.agents if session in places}

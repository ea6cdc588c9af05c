"""docs/benchmarks.md and its chart, from the results of `python -m benchmarks peers`."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from langchain_core.language_models import FakeListChatModel

from benchmarks.pages import machine, names_of, row, versions
from benchmarks.peer_replay import Cell
from benchmarks.peer_systems import SYSTEMS
from headwater.graph.build import GUIDE
from headwater.memory import Memory
from headwater.nodes.context_tools import context_tools
from headwater.nodes.engine import Engine
from headwater.window.policy import WindowPolicy
from headwater.window.tokens import count_text, count_tools

# Rules that OpenAI itself does not have, but the chat templates of Qwen and vLLM do.
TEMPLATES = frozenset({"first_is_user", "one_system_first"})
COLUMNS = (
    "system",
    "÷ unmanaged",
    "of it summaries",
    "over the window",
    "invalid",
    "invalid to templates",
    "stopped at",
    "largest request",
    "in sight",
    "in reach",
    "lost",
)
DRAWN: Mapping[str, str] = MappingProxyType(
    {
        "ours": "#0b6e4f",
        "threshold": "#8a8d91",
        "none": "#c44536",
        "summarization, tuned": "#3d5a98",
        "clearing, tuned": "#d98e04",
        "langmem, tuned": "#7b4b94",
        "deepagents": "#62b6cb",
        "deepagents, tuned": "#1b4965",
    }
)
_HEAD = """# Against peers

Written by `python -m benchmarks peers`. Recorded sessions are played through each system's own agent at
one strict provider: the recorded assistant messages are the model, the recorded results are the tools,
the recorded times are the clock. Reading a cached token costs 0.1 of an uncached one, writing 1.25, the
cache lives five minutes. Every system is given the same system prompt and the same tools; what it brings
along (schemas, prompts, marks) is paid for.

- **÷ unmanaged**: cost as a share of sending the whole log on every step, summaries included. A
  summariser of its own reads at 0.2 of the main model's price, the main model at 1. It answers with one
  fixed short sentence, so peers' summaries are as cheap as can be, and their facts survive in what they
  keep verbatim. Output is not priced; but of our own summariser the output is counted with what it read.
- **over the window**, **invalid**: requests that were refused: too long, or against a rule of the
  provider's format. *Invalid to templates* are refused by the chat templates of Qwen and vLLM, and not
  by OpenAI.
- **stopped at**: steps at which the system gave up on a refusal. A real session ends at the first. The
  provider lets that step pass, so that the rest can be compared; a row with stops is what the system
  *would* have cost.
- **in sight**, **in reach**, **lost**: the facts that a session states (its user's rules and decisions,
  the names they rest on) as they are at the last request: verbatim in it; found by one call of a tool
  that the system has and the request points to (ours: `ctx_search`, `ctx_expand`; deepagents: its
  history file); or neither.

Peers are spared what only stricter endpoints refuse: several system messages are let through, a system
message in the middle is said by the user, and a tool that gave nothing answers "(no output)". Ours needs
none of that.

What this cannot show: the model is a recording, so it never reads back what has left, asks again, or
goes astray. That favours whoever removes most."""


def page(cells: Sequence[Cell], chosen: str = "") -> str:
    """The whole page; `chosen` says how the sessions were, where not all were played."""
    return "\n".join(_page(cells, chosen)) + "\n"


def _page(cells: Sequence[Cell], chosen: str) -> Iterator[str]:
    yield _HEAD
    yield f"\n{machine()} {versions()}.\n"
    if chosen:
        yield f"{chosen} They are named at the end.\n"
    absent = [name for name in SYSTEMS if not any(c.system == name for c in cells)]
    if absent:
        yield f"Not installed, and left out: {', '.join(absent)} (`pip install 'headwater[bench]'`).\n"
    for window in sorted({c.window for c in cells}):
        here = [c for c in cells if c.window == window]
        names = names_of(here)
        yield f"## A window of {window:,} tokens\n"
        spread = f"{_log(here):,} tokens of log, {_steps(here):,} steps"
        over = sum(c.log_tokens > window for c in {c.session: c for c in here}.values())
        yield f"{len(names)} session{'s' * (len(names) > 1)}, {spread}; {over} do not fit the window."
        yield "Costs are summed.\n"
        yield row(*COLUMNS)
        yield row(":--", *["--:"] * (len(COLUMNS) - 1))
        for name in SYSTEMS:
            mine = [c for c in here if c.system == name]
            if mine:
                yield row(*figures(name, mine))
        yield ""
        yield from verdicts(here)
        yield ""
    yield "![What a step costs so far, by system](images/peers.png)\n"
    yield "## What the systems are\n"
    yield from (f"- **{name}**: {system.what}." for name, system in SYSTEMS.items())
    yield "\n## Session by session\n"
    yield "÷ unmanaged; `!` stopped at least once, so the session would have ended there.\n"
    yield from _sessions(cells)


def figures(name: str, mine: Sequence[Cell]) -> Iterator[str]:
    """The cells of one system's row."""
    facts = sum(c.in_sight + c.in_reach + c.lost for c in mine)
    yield name
    yield f"{_ratio(mine):.3f}"
    yield f"{sum(c.told_cost for c in mine) / sum(c.unmanaged for c in mine):.3f}"
    yield f"{sum(c.refused for c in mine):,}"
    yield f"{_broken(mine) - _broken(mine, TEMPLATES):,}"
    yield f"{_broken(mine, TEMPLATES):,}"
    yield f"{sum(c.stopped for c in mine):,}"
    yield f"{max(c.largest for c in mine):,}"
    yield f"{sum(c.in_sight for c in mine) / facts:.1%}" if facts else "none stated"
    yield f"{sum(c.in_reach for c in mine):,}"
    yield f"{sum(c.lost for c in mine):,}"


def verdicts(here: Sequence[Cell]) -> Iterator[str]:
    """Where ours wins and loses, by name."""
    ours = [c for c in here if c.system == "ours"]
    if not ours:
        return
    sight = _share(ours)
    cheaper, keeping = [], []
    for name in SYSTEMS:
        mine = [c for c in here if c.system == name]
        if not mine or name.startswith("ours"):
            continue
        flaws = _flaws(mine)
        if _ratio(mine) < _ratio(ours):
            cheaper.append(f"{name} ({_ratio(mine):.3f} against {_ratio(ours):.3f}{flaws})")
        if _share(mine) > sight:
            keeping.append(f"{name} ({_share(mine):.1%} against {sight:.1%}{flaws})")
    yield (
        f"- **Where ours loses, cost**: {'; '.join(cheaper)}." if cheaper else "- None is cheaper than ours."
    )
    yield (
        f"- **Where ours loses, sight**: {'; '.join(keeping)}." if keeping else "- None keeps more in sight."
    )
    beaten = list(_beaten(here))
    yield "- **Sessions in which a system that never stopped and lost nothing is cheaper than ours**:"
    yield f"{len(beaten)} of {len(names_of(here))}{': ' + '; '.join(beaten) if beaten else ''}."
    yield from _fitting(here)


def _fitting(here: Sequence[Cell]) -> Iterator[str]:
    """What the sessions cost that need no governance in this window."""
    fit = [c for c in here if c.log_tokens <= c.window]
    if fit:
        shares = [f"{name} {_ratio(mine):.3f}" for name in SYSTEMS if (mine := _of(fit, name))]
        definitions, guide = brought()
        yield (
            f"- **The {len(names_of(fit))} sessions that fit**, ÷ unmanaged: {'; '.join(shares)}. Ours pays "
            f"there for {definitions} tokens of tool definitions and {guide} of a guide in every request, "
            "and for passes that had not paid for themselves when the session ended."
        )


def brought() -> tuple[int, int]:
    """Tokens of the tool definitions and of the guide that ours adds to every request."""
    with tempfile.TemporaryDirectory() as folder, Memory(folder, repository=False) as memory:
        engine = Engine(FakeListChatModel(responses=[""]), memory, policy=WindowPolicy())
        return count_tools(context_tools(engine)), count_text(GUIDE)


def _of(cells: Sequence[Cell], name: str) -> list[Cell]:
    return [c for c in cells if c.system == name]


def _flaws(mine: Sequence[Cell]) -> str:
    found = [
        f"{number:,} {word}"
        for number, word in (
            (sum(c.stopped for c in mine), "stops"),
            (sum(c.lost for c in mine), "facts lost"),
        )
        if number
    ]
    return f"; with {' and '.join(found)}" if found else ""


def _beaten(here: Sequence[Cell]) -> Iterator[str]:
    """Each session in which a sound peer is cheaper than the cheaper of ours, with the figures."""
    for name in names_of(here):
        sound = [c for c in here if c.session == name and not (c.stopped or c.lost)]
        best = min((c for c in sound if c.system.startswith("ours")), key=lambda c: c.total, default=None)
        first = min(sound, key=lambda c: c.total, default=None)
        if first is not None and (best is None or first.total < best.total):
            against = f" against {_ratio([best]):.3f}" if best is not None else ""
            yield f"{name} ({first.system}, {_ratio([first]):.3f}{against})"


def _sessions(cells: Sequence[Cell]) -> Iterator[str]:
    names = [name for name in SYSTEMS if any(c.system == name for c in cells)]
    yield row("session", "window", "tokens", "steps", *names)
    yield row(":--", *["--:"] * (3 + len(names)))
    for window in sorted({c.window for c in cells}):
        for session in names_of(c for c in cells if c.window == window):
            mine = {c.system: c for c in cells if c.session == session and c.window == window}
            any_one = next(iter(mine.values()))
            shown = [
                f"{_ratio([c]):.3f}{'!' if c.stopped else ''}" if (c := mine.get(n)) else "" for n in names
            ]
            yield row(session, f"{window:,}", f"{any_one.log_tokens:,}", f"{any_one.recorded:,}", *shown)


def draw(cells: Sequence[Cell], path: Path) -> None:
    """The chart: for each window its longest session, and what a step cost so far under each system."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    windows = sorted({c.window for c in cells})
    style: Any = {"font.family": "DejaVu Sans", "axes.spines.top": False, "axes.spines.right": False}
    with pyplot.rc_context(style):
        figure, axes = pyplot.subplots(
            1, len(windows), figsize=(6.4 * max(1.25, len(windows)), 4.6), squeeze=False
        )
        for axis, window in zip(axes[0], windows, strict=True):
            _panel(axis, [c for c in cells if c.window == window])
        handles, labels = axes[0][0].get_legend_handles_labels()
        legend = figure.legend(handles, labels, loc="lower center", ncols=4, frameon=False, fontsize=9)
        for line in legend.get_lines():
            line.set_linestyle("-")
        figure.tight_layout(rect=(0, 0.12, 1, 1))
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
        pyplot.close(figure)


def _panel(axis: Any, here: Sequence[Cell]) -> None:
    session = max(here, key=lambda c: c.recorded).session
    for name, colour in DRAWN.items():
        cell = next((c for c in here if c.system == name and c.session == session), None)
        if cell is None:
            continue
        sums, total = [], 0.0
        for number, cost in enumerate(cell.by_step, 1):
            total += cost
            sums.append(total / number / 1_000)
        mine = name == "ours"
        axis.plot(
            range(1, len(sums) + 1),
            sums,
            color=colour,
            linewidth=2.6 if mine else 1.4,
            linestyle="--" if cell.stopped else "-",
            zorder=3 if mine else 2,
            label=name,
        )
    axis.set_title(f"{here[0].window // 1000}k window · {session}", loc="left", fontsize=10)
    axis.set_xlabel("step (dashed: stopped by a refusal at least once)", fontsize=9)
    axis.set_ylabel("cost of a step so far, thousand uncached tokens", fontsize=9)
    axis.set_ylim(bottom=0)
    axis.grid(axis="y", color="#e3e5e8", linewidth=0.8)


def _ratio(cells: Sequence[Cell]) -> float:
    plain = sum(c.unmanaged for c in cells)
    return sum(c.total for c in cells) / plain if plain else 1.0


def _share(cells: Sequence[Cell]) -> float:
    facts = sum(c.in_sight + c.in_reach + c.lost for c in cells)
    return sum(c.in_sight for c in cells) / facts if facts else 1.0


def _broken(cells: Sequence[Cell], rules: frozenset[str] | None = None) -> int:
    if rules is None:
        return sum(c.invalid for c in cells)
    return sum(count for c in cells for rule, count in c.rules.items() if rule in rules)


def _log(cells: Sequence[Cell]) -> int:
    return sum({c.session: c.log_tokens for c in cells}.values())


def _steps(cells: Sequence[Cell]) -> int:
    return sum({c.session: c.recorded for c in cells}.values())

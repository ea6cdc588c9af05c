"""What each mechanism buys: the same replays with it switched off; writes docs/ablation.md.

    python -m benchmarks ablation --window 32000 200000 --sessions 6 1 --most 100000 230000

Without options: all sessions, a window of 32k, where every mechanism has work.
"""

import argparse
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.mechanisms import SWITCHES
from benchmarks.pages import machine, names_of, row
from benchmarks.peer_replay import Cell
from benchmarks.peer_systems import cell_of
from benchmarks.results import Task, run
from benchmarks.sessions import Asked, add_options, choose, chosen_by, nth, sized
from headwater.lab.replay import replay
from headwater.lab.sessions import load_session

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "ablation.md"
WINDOW = 32_000
NOISE = 0.005
"""A difference in cost below this share of unmanaged counts as none."""


_HEAD = """\
Written by `python -m benchmarks ablation`: the same recorded sessions played through the real graph at
the strict provider, each time with one mechanism switched off. Costs are shares of sending the whole log
on every step; reading a cached token costs 0.1 of an uncached one, writing 1.25, the cache lives five
minutes. *Bought*: what the cost rises by, in points of that share, when the mechanism is off; negative
is what it costs. *In sight*: facts that stand verbatim in the last request, of all that the session
states; *sight bought*: how many fewer without it. The recorded model never reads back what has left,
which favours whatever removes.
"""
_FOOT = """\
Hints are not in the table: they show what the caller pins during a run, and a replay pins nothing. Decay
shows only where history is told often, which the other mechanisms make rare; without context tools
nothing can be read back, so what is not in sight counts as lost."""


def play(task: Task) -> Cell:
    """One session with one mechanism off."""
    warnings.simplefilter("ignore")
    switch = SWITCHES[task.system]
    with switch.off():
        report = replay(
            load_session(task.path),
            switch.of(task.window),
            assumed=switch.assumed,
            context_tools=switch.context_tools,
            wire=switch.wire,
        )
    return cell_of(task.system, report, reach=switch.context_tools)


def main(options: Sequence[str] = ()) -> None:
    """Play, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks ablation")
    add_options(parser)
    parser.add_argument("--window", type=int, nargs="*", default=[WINDOW], help="tokens; default: 32,000")
    asked = parser.parse_args(list(options))
    console = Console()
    found = sized()
    if not found:
        console.print("the recorded sessions are not here (../shared/data/sessions); nothing was measured")
        return
    tasks = []
    for number, window in enumerate(asked.window):
        wish = Asked(nth(asked.sessions or [], number), nth(asked.most or [], number))
        tasks += [Task(s, one.path, window) for one in choose(found, window, wish) for s in SWITCHES]
    cells = list(run(tasks, play, console, asked.jobs, asked.keep, Cell).values())
    PAGE.write_text("\n".join(page(cells, chosen_by("ablation", asked))) + "\n", encoding="utf-8")
    console.print(f"wrote {PAGE.relative_to(ROOT)}", highlight=False)


def page(cells: Sequence[Cell], chosen: str = "") -> Iterator[str]:
    """The page, line by line; `chosen` says how the sessions were, where not all were played."""
    yield "# What each mechanism buys\n"
    yield _HEAD
    yield f"{machine()} {chosen}\n"
    for window in sorted({cell.window for cell in cells}):
        yield from _section([cell for cell in cells if cell.window == window])
    yield _FOOT


def _section(cells: Sequence[Cell]) -> Iterator[str]:
    names = names_of(cells)
    yield f"## A window of {cells[0].window:,} tokens\n"
    yield f"{len(names)} session{'s' * (len(names) > 1)}: {', '.join(names)}.\n"
    yield row(
        "off",
        "steps",
        "÷ unmanaged",
        "bought",
        "in sight",
        "sight bought",
        "in reach",
        "lost",
        "refused",
        "what it is",
    )
    yield row(":--", *["--:"] * 8, ":--")
    for name, switch in SWITCHES.items():
        mine = [c for c in cells if c.system == name]
        base = [c for c in cells if c.system == switch.against]
        if not mine or not base:
            continue
        apart = name not in ("all on", "all on, Anthropic")
        yield row(
            name,
            f"{sum(c.steps for c in mine):,}",
            f"{_ratio(mine):.3f}" if _whole(mine) else "halted",
            f"{100 * (_ratio(mine) - _ratio(base)):+.1f}" if apart and _whole(mine) else "",
            f"{_sight(mine)}/{_facts(mine)}",
            f"{_sight(base) - _sight(mine):+d}" if apart and _whole(mine) else "",
            str(sum(c.in_reach for c in mine)),
            str(sum(c.lost for c in mine)),
            str(sum(c.refused + c.invalid for c in mine)),
            switch.what,
        )
    yield ""
    yield from verdicts(cells)


def verdicts(cells: Sequence[Cell]) -> Iterator[str]:
    """What buys nothing on these sessions, said plainly."""
    idle, dear, vital = [], [], []
    for name, switch in SWITCHES.items():
        mine = [c for c in cells if c.system == name]
        base = [c for c in cells if c.system == switch.against]
        if name == switch.against or name.startswith("all on") or not mine or not base:
            continue
        if not _whole(mine):
            vital.append(f"{name} ({sum(c.stopped for c in mine)} of {len(mine)} sessions)")
            continue
        bought = _ratio(mine) - _ratio(base)
        sight = _sight(base) - _sight(mine)
        kept = sum(c.lost for c in mine) - sum(c.lost for c in base)
        why = f": on, since {switch.kept}." if switch.kept else "."
        if bought < -NOISE:
            dear.append(f"- {name} ({-100 * bought:.1f} points, for {sight:+d} facts in sight){why}")
        elif bought < NOISE and sight <= 0 and kept <= 0:
            idle.append(f"- {name} ({100 * bought:+.1f} points){why}")
    if vital:
        yield f"Without it sessions end in a halt before their last step: {'; '.join(vital)}.\n"
    if dear:
        yield "Cheaper without, on these sessions:\n"
        yield from (*dear, "")
    if idle:
        yield "Buys nothing measurable on these sessions:\n"
        yield from (*idle, "")


def _ratio(cells: Sequence[Cell]) -> float:
    plain = sum(c.unmanaged for c in cells)
    return sum(c.total for c in cells) / plain if plain else 1.0


def _whole(cells: Sequence[Cell]) -> bool:
    """Whether every session was played to its end; costs of others cannot be compared."""
    return all(c.steps == c.recorded for c in cells)


def _sight(cells: Sequence[Cell]) -> int:
    return sum(c.in_sight for c in cells)


def _facts(cells: Sequence[Cell]) -> int:
    return sum(c.in_sight + c.in_reach + c.lost for c in cells)

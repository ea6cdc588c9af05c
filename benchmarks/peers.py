"""Ours against peers on recorded sessions, at the same strict provider: writes docs/benchmarks.md.

    python -m benchmarks peers --sessions 10 --most 150000 --window 32000

Without options: all sessions, windows of 32k and 200k. Systems whose package is not installed (extra `bench`)
are left out, and the page says so.
"""

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.peer_replay import Cell
from benchmarks.peer_systems import SYSTEMS, installed
from benchmarks.results import Task, run
from benchmarks.sessions import Asked, add_options, choose, chosen_by, nth, sized
from headwater.lab.sessions import load_session

ROOT = Path(__file__).resolve().parents[1]
PAGE, CHART = ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "images" / "peers.png"
WINDOWS = (32_000, 200_000)


def play(task: Task) -> Cell:
    """One system on one session."""
    # What peers and their checkpoints warn of is not ours to mend.
    warnings.simplefilter("ignore")
    return SYSTEMS[task.system].play(load_session(task.path), task.window)


def main(options: Sequence[str] = ()) -> None:
    """Play, and write the page and the chart."""
    asked = _parser().parse_args(list(options))
    console = Console()
    found = sized()
    if not found:
        console.print("the recorded sessions are not here (../shared/data/sessions); nothing was measured")
        return
    counts = asked.sessions or []
    tasks = []
    for number, window in enumerate(asked.window or WINDOWS):
        wish = Asked(nth(counts, number), nth(asked.most or [], number))
        tasks += [Task(s, one.path, window) for one in choose(found, window, wish) for s in installed()]
    cells = list(run(tasks, play, console, asked.jobs, asked.keep, Cell).values())
    if not asked.dry:
        from benchmarks.peer_page import draw, page

        PAGE.write_text(page(cells, chosen_by("peers", asked)), encoding="utf-8")
        draw(cells, CHART)
        console.print(f"wrote {PAGE.relative_to(ROOT)}", highlight=False)
    else:
        console.print(f"{len(cells)} results")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks peers")
    add_options(parser)
    parser.add_argument(
        "--window", type=int, nargs="*", help="windows in tokens; default: 32,000 and 200,000"
    )
    parser.add_argument("--dry", action="store_true", help="write no page")
    return parser

"""What keeping a window costs on recorded sessions: ours, the offline optimum, a threshold, and nothing.

Every session of at least 50k tokens is played through the real graph at the strict provider, at its
recorded times, tags, stubs, slots and context tools included:

- 1M window: ours against never editing, and against the schedule of the same edits that knows the future;
- 200k window: ours against never editing, and against the usual threshold, which stubs old tool results at
  0.85 of the window and summarises when that is not enough, and has no tools of its own.

Costs are in uncached input tokens; the summariser is the deterministic digest, so that no model blurs them.
"""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.optimum import Never, Scheduled, observe, schedule
from benchmarks.pages import machine, row
from benchmarks.sessions import SESSIONS
from headwater.lab.replay import ReplayReport, replay, unmanaged
from headwater.lab.sessions import load_session
from headwater.window import Prices, WindowPolicy
from headwater.window.policy import Lines
from headwater.window.sizes_table import DEFAULT_WINDOW

REPORT = Path(__file__).resolve().parents[1] / "docs" / "economy.md"
LONG = 50_000
WIDE, NARROW = 1_000_000, 200_000


@dataclass(frozen=True)
class ThresholdPolicy(WindowPolicy):
    """The usual policy: nothing below 0.85 of the window, then old results become stubs, then a summary."""

    min_arguments: int = 10**9
    arrival: int = 10**9

    def lines(self, window: int | None = None, max_output: int | None = None) -> Lines:
        """One line; the offload line stands a token below it, where no pass frees enough to be taken.

        8,000 tokens are kept for the answer, of windows below 32k a quarter.
        """
        size = self.window or window or DEFAULT_WINDOW
        line = int(min(0.85 * size, size - min(8_000, size // 4)))
        return Lines(window=size, usable=size, offload=line - 1, compact=line, exhausted=int(0.95 * size))


class Played(NamedTuple):
    """One session: its name, tokens of its log, and reports by system."""

    name: str
    log_tokens: int
    reports: dict[str, ReplayReport]


SYSTEMS = ("1M ours", "1M optimum", "200k ours", "200k threshold")


def play(path: Path) -> Played | None:
    """All systems on one session; None if it is short."""
    session = load_session(path)
    _, log_tokens = unmanaged(session, Prices())
    if log_tokens < LONG:
        return None
    first = replay(session, WindowPolicy(window=WIDE))
    _, moments = schedule(observe(session, WIDE), Prices())
    optimum = replay(session, WindowPolicy(window=WIDE), assumed=Scheduled(moments=moments))
    ours = replay(session, WindowPolicy(window=NARROW))
    usual = replay(session, ThresholdPolicy(window=NARROW), assumed=Never(), context_tools=False)
    found = (first, optimum, ours, usual)
    return Played(session.name, log_tokens, dict(zip(SYSTEMS, found, strict=True)))


def main() -> None:
    """Play every session and write the report."""
    console = Console()
    paths = sorted(SESSIONS.glob("*/*.jsonl"), key=lambda p: -p.stat().st_size)
    if not paths:
        console.print(f"no recorded sessions in {SESSIONS.name!r} beside the project; nothing was measured")
        return
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(play, path) for path in paths]
        done = [job.result() for job in track(as_completed(jobs), "replaying", len(jobs), console=console)]
    played = sorted((p for p in done if p), key=lambda p: -p.log_tokens)
    table = Table(title=f"{len(played)} sessions of at least {LONG:,} tokens, summed", box=None)
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for cells in totals(played):
        table.add_row(*cells)
    console.print(table)
    console.print(*verdicts(played), sep="\n")
    REPORT.write_text(markdown(played), encoding="utf-8")


COLUMNS = (
    "system",
    "cost",
    "÷ unmanaged",
    "busts/100",
    "warm share",
    "summarised",
    "covered",
    "faults",
)


def totals(played: Sequence[Played]) -> Iterable[tuple[str, ...]]:
    """One row a system."""
    for system in SYSTEMS:
        reports = [p.reports[system] for p in played]
        cost, plain = sum(r.cost for r in reports), sum(r.unmanaged for r in reports)
        steps, log = sum(r.steps for r in reports), sum(r.log_tokens for r in reports)
        sent = sum(r.totals.input_tokens for r in reports)
        yield (
            system,
            f"{cost:,.0f}",
            f"{cost / plain:.3f}",
            f"{100 * sum(r.busts for r in reports) / steps:.1f}",
            f"{sum(r.totals.cached_tokens for r in reports) / sent:.1%}",
            f"{sum(r.told_tokens for r in reports) / log:.2%}",
            f"{sum(r.covered_tokens for r in reports) / log:.2%}",
            str(sum(r.unfaithful + r.damaged + len(r.violations) for r in reports)),
        )


def verdicts(played: Sequence[Played]) -> list[str]:
    """The ratios that matter, one a line."""
    cost = {s: sum(p.reports[s].cost for p in played) for s in SYSTEMS}
    return [
        f"1M: ours ÷ optimum {cost['1M ours'] / cost['1M optimum']:.3f}",
        f"200k: ours ÷ threshold {cost['200k ours'] / cost['200k threshold']:.3f}",
        "1M: summaries "
        + str(sum(p.reports["1M ours"].events.get("headwater.summarize", 0) for p in played)),
    ]


def markdown(played: Sequence[Played]) -> str:
    """The report: totals, verdicts, and every session."""
    lines = [
        "# What keeping a window costs",
        "",
        "Written by `python -m benchmarks economy`, which replays recorded sessions through the real graph",
        "at the strict provider: reading a cached token costs 0.1 of an uncached one, writing 1.25, the",
        "cache lives five minutes, gaps as recorded. What governance adds is in the figures.",
        "",
        f"{len(played)} sessions of at least {LONG:,} tokens, "
        f"{sum(p.log_tokens for p in played):,} tokens in all; costs are summed.",
        machine(),
        "",
        row(*COLUMNS),
        row(*["--:"] * len(COLUMNS)),
        *(row(*cells) for cells in totals(played)),
    ]
    lines += [
        "",
        "*Summarised*: tokens that stood in the window and were replaced by a summary, as a share of the",
        "log. *Covered*: tokens of the log that a summary stands for, most of which had left the window",
        "before, by a stub that names them. *Faults*: broken provider rules, damaged archive rows and moved",
        "prefixes.",
        "",
        *(f"- {line}" for line in verdicts(played)),
        "",
        "## Session by session",
        "",
        "Cost as a share of never editing.",
        "",
        row("session", "tokens", "steps", *SYSTEMS),
        row(":--", *["--:"] * (2 + len(SYSTEMS))),
    ]
    for p in played:
        ratios = (f"{p.reports[s].ratio:.3f}" for s in SYSTEMS)
        lines.append(row(p.name, f"{p.log_tokens:,}", f"{p.reports[SYSTEMS[0]].steps:,}", *ratios))
    return "\n".join(lines) + "\n"

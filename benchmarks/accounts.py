"""Whether the books balance on recorded sessions: writes docs/accounts.md.

    python -m benchmarks accounts --window 32000 --most 100000

Each session is replayed with a summariser beside it. Every figure of the report is then added up again from
what lies below it, and compared: parts with the whole, the report with what the two strict providers booked,
and what came from the cache with what had been sent before, counted without the cache.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from benchmarks.pages import machine, row, versions
from benchmarks.peer_replay import ANY_WINDOW
from benchmarks.results import run
from benchmarks.sessions import Asked, add_options, choose, chosen_by, nth, sized
from headwater.lab.chronicler import chronicler
from headwater.lab.provider import StrictProvider, Totals
from headwater.lab.replay import ReplayReport, replay
from headwater.lab.sent_requests import Sent, SentRequests, common
from headwater.lab.sessions import load_session
from headwater.window import Prices, WindowPolicy

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "accounts.md"
WINDOWS = (32_000, 200_000)
_CENT = 1e-6
"""Costs are sums of floats: how far two ways to add them up may differ, as a share."""

_HEAD = """# Do the books balance?

Written by `python -m benchmarks accounts`. Each recorded session is replayed under the defaults, with a model
that summarises in line. Every figure of the report is then added up again from what lies below it. At each
step:

- the blocks of the window add up to the input, and so do the parts of the request as they were sent;
- input = read from the cache + new + sent again cold + sent again after an edit + what the cache leaves out;
- written = new + cold + edit, and nothing is below zero;
- what was read from the cache is exactly the longest beginning that any request of the cache's lifetime
  before it shares with it, found by comparing the requests and not by the cache;
- cost = its parts at their prices.

Over the session, the steps add up to the report's sums; those are what the strict provider booked, and its
refusals are the report's; the summariser's calls and tokens are what its own provider booked, and are in no
sum of the main model's; and the bytes of checkpoint add up."""


class Audit(NamedTuple):
    """What one replay's audit compared, and where two figures differ (in words)."""

    session: str
    window: int
    steps: int
    compared: int
    input: int
    cached: int
    cost: float
    summary_calls: int
    summary_tokens: int
    wrong: tuple[str, ...]


class Pair(NamedTuple):
    """Two figures that must be the same; `what` says which."""

    what: str
    left: float
    right: float

    @property
    def differs(self) -> bool:
        """Whether they are not; whole numbers must be equal to the last token."""
        slack = 0.0 if isinstance(self.left, int) else _CENT * max(1.0, abs(self.right))
        return abs(self.left - self.right) > slack


class Asking(NamedTuple):
    """One session in one window."""

    path: Path
    window: int

    @property
    def key(self) -> str:
        """How a file names it."""
        return f"{self.path.stem} | {self.window}"


def audited(asking: Asking) -> Audit:
    """Replay a session with a summariser, and audit the report."""
    prices = Prices()
    with StrictProvider(chronicler, window=ANY_WINDOW) as teller:
        report = replay(
            load_session(asking.path),
            WindowPolicy(window=asking.window, background=False),
            prices,
            model=teller.openai("strict-summarizer", purpose="summarizer"),
        )
        booked = teller.totals()
    return audit(report, booked, prices)


def audit(report: ReplayReport, teller: Totals, prices: Prices) -> Audit:
    """Compare a report with what lies below it.

    Args:
        report: Of a replay.
        teller: What the summariser's provider booked.
        prices: By which the report was counted.
    """
    pairs = [*_steps(report, prices), *_sums(report), *_summaries(report, teller)]
    return Audit(
        session=report.name,
        window=report.window,
        steps=report.steps,
        compared=len(pairs),
        input=sum(step.input for step in report.timeline),
        cached=sum(step.spent.cached for step in report.timeline),
        cost=report.cost,
        summary_calls=teller.requests,
        summary_tokens=teller.input_tokens + teller.output_tokens,
        wrong=tuple(f"{p.what}: {p.left!r} and {p.right!r}" for p in pairs if p.differs),
    )


def _steps(report: ReplayReport, prices: Prices) -> Iterator[Pair]:
    account = report.account
    if account is None:
        return
    sent = account.sent
    shared = list(_shared(sent, prices.ttl))
    for number, step in enumerate(account.steps):
        at, spent, request = f"step {step.number}", step.spent, sent.requests[number]
        yield Pair(f"{at}: blocks and input", sum(step.blocks.values()), step.input)
        yield Pair(f"{at}: parts and input", sum(sent.parts[d].tokens for d in request.parts), step.input)
        yield Pair(f"{at}: kinds and input", spent.cached + spent.written + spent.rest, request.total)
        yield Pair(f"{at}: reasons and written", spent.new + spent.cold + spent.edit, request.written)
        yield Pair(f"{at}: below zero", min(0, *spent), 0)
        yield Pair(f"{at}: cached and shared before", request.cached, shared[number])
        parts = prices.read * spent.cached, prices.write * spent.written, 1.0 * spent.rest
        yield Pair(f"{at}: cost and its parts", step.cost, sum(parts))


def _shared(sent: SentRequests, ttl: float) -> Iterator[int]:
    """For each request the tokens of the longest beginning that a request within `ttl` before it shares."""
    for number, request in enumerate(sent.requests):
        best = 0
        for earlier in reversed(sent.requests[:number]):
            if request.at - earlier.at >= ttl:
                break
            best = max(best, common(earlier.parts, request.parts))
        yield sum(sent.parts[digest].tokens for digest in request.parts[:best])


def _sums(report: ReplayReport) -> Iterator[Pair]:
    account = report.account
    if account is None:
        return
    steps, totals = account.steps, report.totals
    # Behind the last recorded answer the graph may ask once more: booked, and no step of the recording.
    more = account.sent.requests[len(steps) :]
    yield Pair("requests", len(steps) + len(more), totals.requests - totals.refused)
    yield Pair("input", sum(s.input for s in steps) + _over(more, "total"), totals.input_tokens)
    yield Pair("cached", sum(s.spent.cached for s in steps) + _over(more, "cached"), totals.cached_tokens)
    yield Pair("written", sum(s.spent.written for s in steps) + _over(more, "written"), totals.written_tokens)
    yield Pair("cost", sum(s.cost for s in steps), report.cost)
    for name in ("input", "cached", "new", "cold", "edit", "rest", "cost"):
        own = sum(s.cost if name == "cost" else getattr(s.spent, name, s.input) for s in steps)
        yield Pair(f"total of {name}", float(own), account.total(name))
    yield Pair("refused", account.refused, totals.refused)
    saved = sum(s.checkpoint_bytes for s in steps)
    yield Pair("bytes of checkpoint", saved + account.late[2], account.checkpoint_bytes)


def _over(requests: Sequence[Sent], name: str) -> int:
    return sum(int(getattr(request, name)) for request in requests)


def _summaries(report: ReplayReport, teller: Totals) -> Iterator[Pair]:
    account = report.account
    if account is None:
        return
    yield Pair("calls of the summariser", account.summary_calls, teller.requests)
    yield Pair("tokens of the summariser", account.summary_tokens, teller.input_tokens + teller.output_tokens)


def page(audits: Sequence[Audit], chosen: str) -> Iterator[str]:
    """The page, line by line."""
    yield _HEAD
    yield f"\n{machine()} {versions(('langgraph', 'langchain-core', 'langchain-openai'))}.\n"
    if chosen:
        yield f"{chosen}\n"
    yield row("window", "sessions", "steps", "figures compared", "that differ")
    yield row(*[":--", *["--:"] * 4])
    for window, found in _by_window(audits).items():
        numbers = (len(found), sum(a.steps for a in found), sum(a.compared for a in found))
        yield row(f"{window:,}", *(f"{n:,}" for n in numbers), f"{sum(len(a.wrong) for a in found):,}")
    yield ""
    for one in audits:
        yield from (f"- **{one.session}**, window {one.window:,}: {text}" for text in one.wrong[:5])
    yield "## Session by session\n"
    yield row(
        "session", "window", "steps", "input", "cached", "cost", "summaries", "their tokens", "compared"
    )
    yield row(*[":--", *["--:"] * 8])
    for one in audits:
        figures = (one.window, one.steps, one.input, one.cached, round(one.cost), *one[7:9], one.compared)
        yield row(one.session, *(f"{n:,}" for n in figures))


def _by_window(audits: Sequence[Audit]) -> Mapping[int, list[Audit]]:
    return {w: [a for a in audits if a.window == w] for w in sorted({a.window for a in audits})}


def main(options: Sequence[str] = ()) -> None:
    """Replay, audit and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks accounts")
    add_options(parser)
    parser.add_argument(
        "--window", type=int, nargs="*", help="windows in tokens; default: 32,000 and 200,000"
    )
    asked = parser.parse_args(list(options))
    console = Console()
    found = sized()
    if not found:
        console.print("the recorded sessions are not here (../shared/data/sessions); nothing was audited")
        return
    tasks = []
    for number, window in enumerate(asked.window or WINDOWS):
        wish = Asked(nth(asked.sessions or [], number), nth(asked.most or [], number))
        tasks += [Asking(one.path, window) for one in choose(found, window, wish)]
    done = run(tasks, audited, console, asked.jobs, asked.keep, Audit)
    audits = [done[task] for task in tasks]
    PAGE.write_text("\n".join(page(audits, chosen_by("accounts", asked))) + "\n", encoding="utf-8")
    wrong = sum(len(a.wrong) for a in audits)
    console.print(f"{sum(a.compared for a in audits):,} figures compared, {wrong} differ; wrote {PAGE.name}")

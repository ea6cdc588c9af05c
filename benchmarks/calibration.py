"""How far the estimate of a request is off on recorded sessions, before and after calibration (M17).

The recordings carry the input tokens that the provider charged for each request. Each request is predicted
from what was reported before it, never after: sessions in the order of their time, the scale kept between
them as it is kept on disk between processes.
"""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.sessions import SESSIONS
from headwater.lab.sessions import Session, load_session
from headwater.lab.usage import Point, points
from headwater.window.calibration import JUMP, LEAST, MAX_SCALE, MIN_SCALE, MOST, SLOW, Meter, learn, predict
from headwater.window.cut_prompts import Reports, cut_at, hear

REPORT = Path(__file__).resolve().parents[1] / "docs" / "calibration.md"
BOUND = 0.10
ENOUGH = 30
"""Points that a source must have for its p95 to say something."""

KINDS = ("first", "moved", "uncounted", "ordinary")


class Guess(NamedTuple):
    """One request of a recording and three predictions of its input tokens.

    `kind` is what it was like: the session's "first", the first after the window "moved", one between which
    and the last something "uncounted" came or left, or an "ordinary" one. `cut`: it would have been taken for
    a prompt that the provider had cut.
    """

    point: Point
    kind: str
    alone: int
    ratio: int
    calibrated: int
    cut: bool = False

    def error(self, predicted: int) -> float:
        """Distance as a share of what was charged."""
        return abs(predicted - self.point.reported) / self.point.reported


class Source(NamedTuple):
    """A source's guesses, its sessions that report input, and the scale learned of each model."""

    name: str
    sessions: int
    guesses: list[Guess]
    scales: dict[str, float]


def main() -> None:
    """Measure all sources, print the table and write `docs/calibration.md`."""
    if not SESSIONS.is_dir():
        raise SystemExit(f"no recorded sessions at {SESSIONS}: put them there, or run the other benchmarks")
    found = measure(SESSIONS)
    table = Table(title="error of the estimated input tokens, share of what was charged", box=None)
    for name in _HEAD[:-1]:
        table.add_column(name, justify="left" if name == "source" else "right", no_wrap=name == "source")
    for source in found:
        table.add_row(*_row(source)[:-1])
    console = Console()
    console.print(table)
    REPORT.write_text(report(found), encoding="utf-8")
    console.print(f"wrote {REPORT}")


def measure(root: Path) -> list[Source]:
    """The sources under a folder whose recordings report input tokens."""
    files = sorted(root.glob("*/*.jsonl"))
    sessions: dict[str, list[Session]] = {}
    for path in track(files, "counting", console=Console(stderr=True), transient=True):
        sessions.setdefault(path.parent.name, []).append(load_session(path))
    sources = [source_of(name, recorded) for name, recorded in sessions.items()]
    return [source for source in sources if source.guesses]


def source_of(name: str, sessions: Iterable[Session]) -> Source:
    """Predict every request of one source, oldest session first."""
    known: dict[str, float] = {}
    recorded = [(_began(session), list(points(session))) for session in sessions]
    guesses = [
        guess
        for _, found in sorted(recorded, key=lambda entry: entry[0])
        for guess in guess_all(found, known)
    ]
    return Source(name, sum(bool(found) for _, found in recorded), guesses, known)


def guess_all(found: Sequence[Point], known: dict[str, float]) -> Iterator[Guess]:
    """Predict the requests of one session in order; `known` holds the scales and takes in new ones."""
    scale = ratio = 1.0
    meter, reports = Meter(), Reports()
    for number, point in enumerate(found):
        if not number or point.model != found[number - 1].model:
            scale, meter = known.get(point.model, 1.0), Meter()
        revision = str(point.revision)
        reports = hear(reports, point.counted, point.reported, model=point.model, revision=revision)
        yield Guess(
            point,
            _kind(point, found[number - 1] if number else None),
            point.counted,
            int(ratio * point.counted),
            predict(scale, meter, point.counted, revision),
            cut_at(reports) is not None,
        )
        ratio = _ratio_only(ratio, point)
        scale, meter = learn(
            scale, meter, point.counted, point.reported, model=point.model, revision=revision
        )
        if meter.sloped:
            known[point.model] = scale


def _began(session: Session) -> float:
    return next((when for when in session.times if when is not None), 0.0)


def _ratio_only(ratio: float, point: Point) -> float:
    """One number in place of two: reported ÷ counted of whole requests, up at once and down slowly."""
    sample = min(MAX_SCALE, max(MIN_SCALE, point.reported / max(1, point.counted)))
    return sample if sample > ratio else ratio + SLOW * (sample - ratio)


def _kind(point: Point, last: Point | None) -> str:
    if last is None or point.model != last.model:
        return "first"
    if point.revision != last.revision:
        return "moved"
    came, cost = point.counted - last.counted, point.reported - last.reported
    return "ordinary" if LEAST * came <= cost <= MOST * came else "uncounted"


def p95(errors: Sequence[float]) -> float:
    """The value that 95 of 100 errors do not exceed (nearest rank)."""
    return sorted(errors)[-(-95 * len(errors) // 100) - 1]


_HEAD = (
    *("source", "sessions", "points", "before, median", "before, p95", "one ratio, median"),
    *("one ratio, p95", "after, median", "after, p95", "scale"),
)


def _row(source: Source) -> list[str]:
    cells = [source.name, f"{source.sessions}", f"{len(source.guesses)}"]
    for predictor in ("alone", "ratio", "calibrated"):
        errors = [guess.error(getattr(guess, predictor)) for guess in source.guesses]
        cells += [f"{statistics.median(errors):.2%}", f"{p95(errors):.2%}"]
    scales = ", ".join(f"{model or 'unnamed'} {scale:.2f}" for model, scale in source.scales.items())
    return [*cells, scales]


def _parts(source: Source) -> list[str]:
    """What the source's calibrated error is made of."""
    cells = [source.name]
    total = sum(guess.error(guess.calibrated) for guess in source.guesses)
    for kind in KINDS:
        errors = [guess.error(guess.calibrated) for guess in source.guesses if guess.kind == kind]
        cells.append(f"{len(errors)}: {sum(errors) / total:.0%}" if errors else "0")
    firsts = [guess.point.reported - guess.point.counted for guess in source.guesses if guess.kind == "first"]
    return [*cells, f"{statistics.median(firsts):,.0f}"]


def report(sources: Sequence[Source]) -> str:
    """The page."""
    judged = [s for s in sources if len(s.guesses) > ENOUGH]
    failed = [s.name for s in judged if p95([g.error(g.calibrated) for g in s.guesses]) >= BOUND]
    verdict = (
        f"After calibration the p95 is under {BOUND:.0%} for every source with more than {ENOUGH} points "
        f"({len(judged)} of {len(judged)})."
        if not failed
        else f"After calibration the p95 is {BOUND:.0%} or more for: {', '.join(failed)}."
    )
    worst = sorted(
        (
            (guess.error(guess.calibrated), source.name, guess)
            for source in sources
            for guess in source.guesses
        ),
        key=lambda entry: entry[:2],
        reverse=True,
    )
    late = [entry for entry in worst if entry[2].kind != "first"][:8]
    return _PAGE.format(
        verdict=verdict,
        points=sum(len(source.guesses) for source in sources),
        cut=sum(guess.cut for source in sources for guess in source.guesses),
        table=_markdown(_HEAD, map(_row, sources)),
        parts=_markdown(_PART_HEAD, map(_parts, sources)),
        worst=_markdown(_WORST_HEAD, (_worst(error, name, guess) for error, name, guess in late)),
        least=LEAST,
        most=MOST,
        jump=JUMP,
    )


_PART_HEAD = (
    *("source", "first request", "first after the window moved", "something uncounted came or left"),
    *("ordinary", "charged and not counted in the first request, tokens"),
)
_WORST_HEAD = ("source", "row", "kind", "counted", "charged", "estimated", "error")


def _worst(error: float, name: str, guess: Guess) -> list[str]:
    point = guess.point
    sizes = (point.counted, point.reported, guess.calibrated)
    return [name, f"{point.row}", guess.kind, *(f"{size:,}" for size in sizes), f"{error:.1%}"]


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


_PAGE = """\
# How far the estimate is off

Written by `python -m benchmarks calibration`. {points:,} requests of recorded sessions whose \
provider reported the input tokens it charged, cached ones included. Each is predicted from the \
requests before it and from nothing later; sessions are taken in the order of their time, and the \
scale of each model is kept between them, as it is kept on disk between processes \
([memory/limits.py](../memory/limits.py)). Errors are shares of what was charged. {verdict}

{table}

*Before* is the tokenizer's count of the rows in the recording. *One ratio* multiplies it by \
reported ÷ counted of whole requests. *After* is what Headwater uses \
([window/calibration.py](../window/calibration.py)): the last report plus a scale times what has \
been counted since; after a pass that moved the window, the scale and the constant alone. The last \
column is the scale of each model at the end.

## What the error is made of

Requests of each kind, and their share of what is left of the error after calibration.

{parts}

- **First request.** The recorded programs send a system prompt and tools that they do not record; \
nothing can know their size before the first report. Headwater sends its own and counts them, so \
that in a session of its own this part is the scale's error only. It is also why one ratio fails: a \
constant that is read as a factor grows with the session.
- **The tokenizer.** The scale: 1.0 for OpenAI's models, about 1.2 for Claude 4.x, 1.6 and more for \
its newest models.
- **The window moved.** What a recorded program put in place of what it had removed is not always in \
the recording (one of them encrypts it, another prunes without saying when), and neither is all that \
it kept. Headwater counts what it puts in place.
- **Something uncounted.** What was charged between two requests was under {least} or over {most} \
times what was counted: hidden reasoning that stands in the request until the next user message and \
is then gone, images and tool output that the recorder left empty. It moves the constant; over \
{jump:,} tokens it is no sample of the scale.

The largest errors behind the first request:

{worst}

## Prompts that came back cut

A server that cuts a prompt without a word is found from its reports \
([window/cut_prompts.py](../window/cut_prompts.py)). None of these providers does. Taken for cut: \
{cut} of {points:,}.
"""

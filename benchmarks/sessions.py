"""Which recorded sessions a benchmark plays: all, or so many of median to large size over the sources."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from headwater.lab.sessions import load_session
from headwater.window.tokens import count_tokens

SESSIONS = Path(__file__).resolve().parents[2] / "shared" / "data" / "sessions"


class Sized(NamedTuple):
    """A recorded session's file, its source (the folder), and its tokens."""

    path: Path
    source: str
    tokens: int


class Asked(NamedTuple):
    """`wanted` sessions (None is all) of at most `most` tokens (None is any)."""

    wanted: int | None = None
    most: int | None = None


def sized(folder: Path = SESSIONS) -> list[Sized]:
    """Every recorded session with its size, largest first."""
    paths = sorted(folder.glob("*/*.jsonl"))
    found = [Sized(p, p.parent.name, count_tokens(load_session(p).messages)) for p in paths]
    return sorted(found, key=lambda s: (-s.tokens, s.path.name))


def choose(sessions: Sequence[Sized], window: int, asked: Asked) -> list[Sized]:
    """The sessions to play in a window.

    With a count: of those that exceed the window (smaller ones need no governance there) and are not over
    `most`, the largest of each source in turn, then the next of each, until there are enough.
    """
    fitting = [s for s in sessions if asked.most is None or s.tokens <= asked.most]
    if asked.wanted is None:
        return fitting
    by_source: dict[str, list[Sized]] = {}
    for session in fitting:
        if session.tokens > window:
            by_source.setdefault(session.source, []).append(session)
    chosen: list[Sized] = []
    while len(chosen) < asked.wanted and any(by_source.values()):
        for waiting in by_source.values():
            if waiting and len(chosen) < asked.wanted:
                chosen.append(waiting.pop(0))
    return sorted(chosen, key=lambda s: (-s.tokens, s.path.name))


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that say which sessions are played, and where results are kept meanwhile."""
    many = "play so many sessions of median to large size, or `all`, a word for each window; default: all"
    parser.add_argument("--sessions", type=_count, nargs="*", help=many)
    parser.add_argument(
        "--most", type=int, nargs="*", help="play none of more tokens, one number for each window"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument(
        "--keep", type=Path, help="a file that keeps results; what it holds is not played again"
    )


def nth(values: Sequence[int | None], number: int) -> int | None:
    """The word for the window of this number, the last one for all behind; None where there is none."""
    return values[min(number, len(values) - 1)] if values else None


def _count(text: str) -> int | None:
    return None if text == "all" else int(text)


def chosen_by(benchmark: str, asked: argparse.Namespace) -> str:
    """How the sessions were chosen, in words and by which command; "" where all were played."""
    given = {name: getattr(asked, name) for name in ("window", "sessions", "most")}
    if not (given["sessions"] or given["most"]):
        return ""
    options = [
        f"--{name} {' '.join('all' if value is None else str(value) for value in values)}"
        for name, values in given.items()
        if values
    ]
    command = f"python -m benchmarks {benchmark} {' '.join(options)}"
    return (
        f"A part of the recorded sessions was played: `{command}`. `--sessions` and `--most` have a word "
        "for each window. With a number it takes sessions larger than the window and not larger than "
        "`--most`, the largest of each source in turn; with `all` every session that is not larger than "
        "`--most`, also those that fit the window and need no governance. Other "
        "sessions would give other figures."
    )
